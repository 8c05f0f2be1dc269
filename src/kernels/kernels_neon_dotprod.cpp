// The NEON rung for CPUs with the dot-product instructions (Cortex-A76 and later), which multiply
// four bytes a lane at once. The bytes of its results are those of kernels_neon.cpp.
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

#define MUNIA_DOTPROD 1
#define MUNIA_UNROLL_WORDS  // unrolled, GCC 12 wants more registers than there are and spills
MUNIA_TARGET_BEGIN("arch=armv8.2-a+dotprod")
namespace munia::kernels {
namespace neon_dotprod {
namespace {

#include "kernels/vec_neon.inc"
//
#include "kernels/rung_simd.inc"

}  // namespace
}  // namespace neon_dotprod
}  // namespace munia::kernels
MUNIA_TARGET_END

namespace munia::kernels {

constinit const Kernels kNeonDotprodKernels = neon_dotprod::make_kernels("neon_dotprod");

}  // namespace munia::kernels

#endif  // MUNIA_KERNELS_ARM
