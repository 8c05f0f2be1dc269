// The AVX-512 rung for CPUs with VNNI, which multiplies four bytes a lane at once. The bytes of
// its results are those of kernels_avx512.cpp.
#include "kernels/rungs.h"

#if MUNIA_KERNELS_X86

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12's own header leaves the masked-off source of its intrinsics undefined on purpose and warns
// about it (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/digits.h"
#include "kernels/narrow.h"
#include "kernels/packed_format.h"
#include "kernels/scalar_math.h"
#include "kernels/target_region.h"

#define MUNIA_VNNI 1
MUNIA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
namespace munia::kernels {
namespace avx512vnni {
namespace {

#include "kernels/vec_avx512.inc"
//
#include "kernels/rung_simd.inc"

}  // namespace
}  // namespace avx512vnni
}  // namespace munia::kernels
MUNIA_TARGET_END

namespace munia::kernels {

constinit const Kernels kAvx512VnniKernels = avx512vnni::make_kernels("avx512");

}  // namespace munia::kernels

#endif  // MUNIA_KERNELS_X86
