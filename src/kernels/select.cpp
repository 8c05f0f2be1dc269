// Which rungs this machine can run: asks cpuid for the instructions and xgetbv whether the system
// saves their registers.
#include "kernels/rungs.h"

#if MUNIA_KERNELS_X86
#include <cpuid.h>
#endif

namespace munia::kernels {
namespace {

#if MUNIA_KERNELS_X86

struct X86Features {
  bool avx2 = false;    // AVX2, FMA, F16C
  bool avx512 = false;  // AVX-512 F, BW, DQ, VL and the above
};

bool has_bit(unsigned value, int bit) { return ((value >> bit) & 1U) != 0; }

/// The register sets that the system saves (XCR0).
unsigned saved_state() {
  unsigned low = 0;
  unsigned high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

X86Features detect() {
  X86Features features;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return features;
  const bool fma = has_bit(c, 12);
  const bool osxsave = has_bit(c, 27);
  const bool avx = has_bit(c, 28);
  const bool f16c = has_bit(c, 29);
  if (!osxsave || !avx || !fma || !f16c) return features;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return features;
  constexpr unsigned kXmmYmm = 0x6;
  constexpr unsigned kOpmaskZmm = 0xE0;
  const unsigned saved = saved_state();
  features.avx2 = has_bit(b, 5) && (saved & kXmmYmm) == kXmmYmm;
  const bool avx512_bits = has_bit(b, 16) && has_bit(b, 17) && has_bit(b, 30) && has_bit(b, 31);
  features.avx512 = features.avx2 && avx512_bits && (saved & kOpmaskZmm) == kOpmaskZmm;
  return features;
}

#endif

}  // namespace

KernelList available_kernels() {
  KernelList list = {};
  list.rungs[list.n_rungs++] = &kScalarKernels;
#if MUNIA_KERNELS_X86
  const X86Features features = detect();
  if (features.avx2) list.rungs[list.n_rungs++] = &kAvx2Kernels;
  if (features.avx512) list.rungs[list.n_rungs++] = &kAvx512Kernels;
#endif
  return list;
}

const Kernels* select_kernels(std::string_view name) {
  const KernelList list = available_kernels();
  if (name.empty()) return list.rungs[list.n_rungs - 1];
  for (int i = 0; i < list.n_rungs; ++i) {
    if (name == list.rungs[i]->name) return list.rungs[i];
  }
  return nullptr;
}

}  // namespace munia::kernels
