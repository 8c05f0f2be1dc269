// Activations of one or two bytes, for munia's own INT8 and INT4 weights, where speed is wanted
// more than float32 accuracy (decision 9). digits.h keeps 24 bits of an activation for the same
// products.
//
// Every 64 k of a row of x (by absolute index) get a scale u = max|x| / 32512, and X = round(x / u)
// is written in two signed bytes, X = 256 d[1] + d[0]. INT8 weights take both. INT4 weights take
// d[1] alone, which is x rounded to a 127th of the largest: an error beside that of 4-bit weights,
// while beside 8-bit weights it would be the larger one. The arithmetic of one output, on every
// rung and for every number of rows:
//   total = 0
//   for each group of the weight type (INT8: 64 k, INT4: 32), ascending:
//     D = sum of (q - center) * A over the group      A, v: X, u for INT8; d[1], 256 u for INT4
//     total = fma(scale * v, float(D), total)
//     where the type has minima:
//       total = fma(fma(scale, center, addend), float(sum of A) * v, total)
// D is exact as an integer (|D| < 2^29) and rounded once as a float, so only the floats behind each
// group have an order. A last group may have 32 k only.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/packed_format.h"

namespace munia::kernels {

inline constexpr std::int64_t kNarrowCols = 64;        // k that share a scale of x
inline constexpr float kLargestNarrow = 127.0F * 256;  // so that d[1] is at most 127

constexpr std::int64_t n_narrow_groups(std::int64_t n_cols) {
  return (n_cols + kNarrowCols - 1) / kNarrowCols;
}

/// The bytes of X that a weight type takes.
constexpr int narrow_digits(WeightType type) { return type == WeightType::kInt8 ? 2 : 1; }

/// The scale of 64 x.
struct NarrowScale {
  float to_fixed = 0;  // X = round(x * to_fixed)
  float to_float = 0;  // u: x is about X * to_float
};

/// d[1] of X: the nearest multiple of 256.
constexpr std::int32_t narrow_high(std::int32_t x) { return (x + 128) >> 8; }

/// `largest` are the bits of the largest |x|. Where one is infinite or not a number, X is 0 and
/// to_float is NaN, and so is every output of the row. Below 2^-100 X is smaller.
inline NarrowScale narrow_scale(std::uint32_t largest) {
  constexpr std::uint32_t kInfinity = 0x7F800000U;
  constexpr float kSmallest = 0x1p-100F;
  if (largest == 0) return {};
  if (largest >= kInfinity) return {0, std::numeric_limits<float>::quiet_NaN()};
  const auto x = std::bit_cast<float>(largest);
  const float bounded = x < kSmallest ? kSmallest : x;
  return {kLargestNarrow / bounded, bounded / kLargestNarrow};
}

}  // namespace munia::kernels
