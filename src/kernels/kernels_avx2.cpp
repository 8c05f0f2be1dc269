// The AVX2 rung (with FMA and F16C): the shared vector code over pairs of registers of 8 lanes.
#include "kernels/rungs.h"

#if MUNIA_KERNELS_X86

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

MUNIA_TARGET_BEGIN("avx2,fma,f16c")
namespace munia::kernels {
namespace avx2 {
namespace {

#include "kernels/vec_avx2.inc"
//
#include "kernels/rung_simd.inc"

}  // namespace
}  // namespace avx2
}  // namespace munia::kernels
MUNIA_TARGET_END

namespace munia::kernels {

constinit const Kernels kAvx2Kernels = avx2::make_kernels("avx2");

}  // namespace munia::kernels

#endif  // MUNIA_KERNELS_X86
