// Activations of one byte, for munia's own INT8 and INT4 weights, where speed is wanted more than
// float32 accuracy (decision 9). digits.h keeps 24 bits of an activation for the same products.
//
// Every 64 k of a row of x (by absolute index) get a scale u = max|x| / 127, and X = round(x / u)
// is a signed byte. The arithmetic of one output, on every rung and for every number of rows:
//   total = 0
//   for each group of the weight type (INT8: 64 k, INT4: 32), ascending:
//     D = sum of (q - center) * X over the group
//     total = fma(scale * u, float(D), total)
//     where the type has minima:
//       total = fma(fma(scale, center, addend), float(sum of X) * u, total)
// D is exact, in an integer and as a float (|D| < 2^21), so only the floats behind each group have
// an order. A last group may have 32 k only.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/packed_format.h"

namespace munia::kernels {

inline constexpr std::int64_t kNarrowCols = 64;  // k that share a scale of x
inline constexpr float kLargestByte = 127.0F;

constexpr std::int64_t n_narrow_groups(std::int64_t n_cols) {
  return (n_cols + kNarrowCols - 1) / kNarrowCols;
}

/// The scale of 64 x.
struct NarrowScale {
  float to_byte = 0;   // X = round(x * to_byte)
  float to_float = 0;  // u: x is about X * to_float
};

/// `largest` are the bits of the largest |x|. Where one is infinite or not a number, X is 0 and
/// to_float is NaN, and so is every output of the row. Below 2^-100 X is smaller.
inline NarrowScale narrow_scale(std::uint32_t largest) {
  constexpr std::uint32_t kInfinity = 0x7F800000U;
  constexpr float kSmallest = 0x1p-100F;
  if (largest == 0) return {};
  if (largest >= kInfinity) return {0, std::numeric_limits<float>::quiet_NaN()};
  const auto x = std::bit_cast<float>(largest);
  const float bounded = x < kSmallest ? kSmallest : x;
  return {kLargestByte / bounded, bounded / kLargestByte};
}

}  // namespace munia::kernels
