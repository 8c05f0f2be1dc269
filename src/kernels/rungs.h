// The rungs' tables and what they share; inside this room only.
#pragma once

#include "kernels/kernels.h"

// The vector rungs exist where the compiler targets 64-bit x86 or ARM; the code asks cpuid or the
// kernel's HWCAP before it uses them. Elsewhere the room has the scalar rung only.
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define MUNIA_KERNELS_X86 1
#else
#define MUNIA_KERNELS_X86 0
#endif
#if defined(__aarch64__) && defined(__linux__) && (defined(__GNUC__) || defined(__clang__))
#define MUNIA_KERNELS_ARM 1
#else
#define MUNIA_KERNELS_ARM 0
#endif

namespace munia::kernels {

extern const Kernels kScalarKernels;
#if MUNIA_KERNELS_X86
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512VnniKernels;  // also named "avx512": only faster
/// The one of these two that this CPU is best served with; it has AVX-512.
const Kernels& best_avx512_kernels();
#endif
#if MUNIA_KERNELS_ARM
extern const Kernels kNeonKernels;
extern const Kernels kNeonDotprodKernels;
#endif

/// Screening of the scalar rung (screen_reference.cpp), and E of the one order of additions.
void screen_pack_reference(const PackedMatrix& w, std::int64_t panel, std::byte* out);
void screen_reference(const ScreenMatrix& w, const ScreenRows& x, const ScreenOutput& out,
                      std::int64_t panel_begin, std::int64_t panel_end);
double fma_matmul_error(std::int64_t n_cols);
/// A quantized weight of a packed panel taken apart: w = fma(scale, q, addend).
struct PackedParts {
  float scale;
  float q;  // the code as stored, 0 and up
  float addend;
};
PackedParts packed_parts(WeightType type, const std::byte* panel, std::int64_t n_cols, int lane,
                         std::int64_t k);

/// The weight of (lane, k) of a packed panel of n_cols k: the specification of the packed form.
float packed_weight(WeightType type, const std::byte* panel, std::int64_t n_cols, int lane,
                    std::int64_t k);

}  // namespace munia::kernels
