// Activations as integers, for quantized weights: a weight is scale * (q - center) + rest with a
// code q of at most 8 bits, so with x in whole numbers too a group's sum of products is an exact
// integer. 8-bit multiply-add instructions do four products a lane in one go, where float32 takes
// four conversions and eight multiply-adds.
//
// Every 32 k of a row of x (by absolute index) get a scale u, so that X = round(x / u) has at most
// 24 bits with its sign: |x - u X| <= 2^-24 max|x|, which is what a float32 chain of additions
// loses beside such an x too. X is written in three digits of one signed byte each:
//   X = 65536 d[2] + 256 d[1] + d[0]
//
// The arithmetic of one output for quantized weights, on every rung but AMX:
//   total = 0
//   for each kBlockCols k (by absolute index), ascending:
//     part = 0
//     for each group of the weight type (32 k; Q6_K: 16), ascending:
//       D[i] = sum of (q - center) * d[i] over the group
//       f = fma(float(D[2]), 65536, float(256 D[1] + D[0]))
//       part = fma(scale * u, f, part)
//       where the type has minima:
//         part = fma(fma(scale, center, addend), float(sum of X) * u, part)
//     total = total + part
// D and 256 D[1] + D[0] are exact in 32 bits. Integers have no order of additions, so vectors may
// take k as they like. center is the offset that the type takes from its codes; with minima it is
// the middle of the codes, else two large sums would cancel.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/packed_format.h"

namespace munia::kernels {

inline constexpr std::int64_t kDigitCols = 32;  // k that share a scale
inline constexpr int kDigits = 3;
/// The largest |X|: somewhat less than the digits hold, so that roundings cannot reach beyond.
inline constexpr float kLargestFixed = 8355000.0F;

constexpr std::int64_t n_digit_groups(std::int64_t n_cols) {
  return (n_cols + kDigitCols - 1) / kDigitCols;
}

/// The scale of a group.
struct DigitScale {
  float to_fixed = 0;  // X = round(x * to_fixed)
  float to_float = 0;  // u: x = X * to_float
};

/// `largest` are the bits of the largest |x|. Where one is infinite or not a number, X is 0 and
/// to_float is NaN, and so is every output of the row. Below 2^-100 X has fewer bits.
inline DigitScale digit_scale(std::uint32_t largest) {
  constexpr std::uint32_t kInfinity = 0x7F800000U;
  constexpr float kSmallest = 0x1p-100F;
  if (largest == 0) return {};
  if (largest >= kInfinity) return {0, std::numeric_limits<float>::quiet_NaN()};
  const auto x = std::bit_cast<float>(largest);
  const float to_fixed = kLargestFixed / (x < kSmallest ? kSmallest : x);
  return {to_fixed, static_cast<float>(1.0 / static_cast<double>(to_fixed))};
}

/// X to digits.
struct Digits {
  std::int32_t d[kDigits];
};
inline Digits split_digits(std::int32_t fixed) {
  Digits digits;
  digits.d[0] = static_cast<std::int8_t>(fixed & 255);
  fixed = (fixed - digits.d[0]) >> 8;
  digits.d[1] = static_cast<std::int8_t>(fixed & 255);
  digits.d[2] = (fixed - digits.d[1]) >> 8;
  return digits;
}

/// A group's part of an output from the sums of its digits' products.
inline float sum_of_digits(const std::int32_t sums[kDigits]) {
  return std::fma(static_cast<float>(sums[2]), 65536.0F,
                  static_cast<float>(256 * sums[1] + sums[0]));
}

}  // namespace munia::kernels
