// The NEON rung, for every 64-bit ARM CPU: the shared vector code over four registers of 4 lanes.
// Its results are those of the AVX2 rung, byte for byte.
#include "kernels/rungs.h"

#if MUNIA_KERNELS_ARM

#include <arm_neon.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/digits.h"
#include "kernels/narrow.h"
#include "kernels/packed_format.h"
#include "kernels/scalar_math.h"
#include "kernels/target_region.h"

#define MUNIA_DOTPROD 0
#define MUNIA_UNROLL_WORDS  // unrolled, GCC 12 wants more registers than there are and spills
// NEON is in the baseline: no region of more instructions.
namespace munia::kernels {
namespace neon {
namespace {

#include "kernels/vec_neon.inc"
//
#include "kernels/rung_simd.inc"

}  // namespace
}  // namespace neon

constinit const Kernels kNeonKernels = neon::make_kernels("neon");

}  // namespace munia::kernels

#endif  // MUNIA_KERNELS_ARM
