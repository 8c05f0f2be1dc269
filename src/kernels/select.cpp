// Which rungs this machine can run. x86: asks cpuid for the instructions and xgetbv whether the
// system saves their registers; for AMX also asks the system for the tile registers and tries them.
// ARM: asks HWCAP, in which Linux tells both.
#include <cerrno>

#include "kernels/amx.h"
#include "kernels/rungs.h"

#if MUNIA_KERNELS_X86
#include <cpuid.h>
#elif MUNIA_KERNELS_ARM
#include <sys/auxv.h>
#endif

namespace munia::kernels {
namespace {

#if MUNIA_KERNELS_X86

struct X86Features {
  bool avx2 = false;    // AVX2, FMA, F16C
  bool avx512 = false;  // AVX-512 F, BW, DQ, VL and the above
  bool vnni = false;    // AVX-512 VNNI
  bool amx = false;     // AMX tiles with BF16 products
  bool saves_tiles = false;
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
  features.vnni = features.avx512 && has_bit(c, 11);
  constexpr unsigned kTiles = 0x60000;
  features.amx = has_bit(d, 22) && has_bit(d, 24);
  features.saves_tiles = (saved & kTiles) == kTiles;
  return features;
}

std::string_view find_amx_problem() {
  const X86Features features = detect();
  if (!features.amx) return "this CPU has no AMX with BF16";
  if (!features.avx512) return "AVX-512 is missing or switched off";
  if (!features.saves_tiles) return "the system does not save the tile registers";
  const int error = request_tile_registers();
  if (error == ENOSPC) {
    return "a thread has an alternate signal stack too small for the tile registers";
  }
  if (error != 0) return "the system refuses the tile registers to this process";
  if (!amx_self_test()) return "its self-test failed: tile products are not what they should be";
  return "";
}

#elif MUNIA_KERNELS_ARM

/// SDOT and what kernels_neon_dotprod.cpp is compiled for beside it (ARMv8.2: the atomic, CRC and
/// RDMA instructions); every CPU with SDOT known has them.
bool has_dotprod() {
  constexpr unsigned long kNeeded = HWCAP_ASIMDDP | HWCAP_ATOMICS | HWCAP_CRC32 | HWCAP_ASIMDRDM;
  return (getauxval(AT_HWCAP) & kNeeded) == kNeeded;
}

#endif

}  // namespace

std::string_view amx_problem() {
#if MUNIA_KERNELS_X86
  // Asked and tried once: the permission holds for the life of the process.
  static const std::string_view problem = find_amx_problem();
  return problem;
#else
  return "it is an extension of x86 CPUs";
#endif
}

#if MUNIA_KERNELS_X86
const Kernels& best_avx512_kernels() {
  static const bool has_vnni = detect().vnni;
  return has_vnni ? kAvx512VnniKernels : kAvx512Kernels;
}
#endif

KernelList available_kernels() {
  KernelList list = {};
  list.rungs[list.n_rungs++] = &kScalarKernels;
#if MUNIA_KERNELS_X86
  const X86Features features = detect();
  if (features.avx2) list.rungs[list.n_rungs++] = &kAvx2Kernels;
  if (features.avx512) {
    list.rungs[list.n_rungs++] = &best_avx512_kernels();
  }
  if (amx_problem().empty()) list.rungs[list.n_rungs++] = &amx_kernels();
#elif MUNIA_KERNELS_ARM
  list.rungs[list.n_rungs++] = &kNeonKernels;  // in every 64-bit ARM CPU that Linux runs on
  if (has_dotprod()) list.rungs[list.n_rungs++] = &kNeonDotprodKernels;
#endif
  return list;
}

const Kernels* select_kernels(std::string_view name) {
  const KernelList list = available_kernels();
  if (name.empty()) return list.rungs[list.n_rungs - 1];
  for (int i = 0; i < list.n_rungs; ++i) {
    if (name == list.rungs[i]->name) return list.rungs[i];
  }
#if MUNIA_KERNELS_X86
  if (!detect().avx512) return nullptr;
  if (name == amx_emulated_kernels().name) return &amx_emulated_kernels();
  if (name == "avx512-without-vnni") return &kAvx512Kernels;
#endif
  return nullptr;
}

const Kernels& byte_reference(const Kernels& rung, WeightType type) {
#if MUNIA_KERNELS_X86
  const bool on_tiles = &rung == &amx_kernels() || &rung == &amx_emulated_kernels();
  if (on_tiles && amx_has_own_order(type)) return amx_emulated_kernels();
#else
  static_cast<void>(rung);
  static_cast<void>(type);
#endif
  return kScalarKernels;
}

}  // namespace munia::kernels
