// exp(x) for x <= 0 in plain double arithmetic. The C library's exp may differ in its last bit from
// machine to machine (it picks a variant with fused multiply-adds where there are any); this one
// gives the same bits everywhere, so a seed draws the same token everywhere. It also vectorizes:
// one pass over 151,936 logits must not be felt beside a decoding step.
#pragma once

#include <bit>
#include <cstdint>

namespace munia::decode {

inline constexpr double kLeastExponent = -700;

/// Within 2 units in the last place of exp(x); only for -700 <= x <= 0. Without any comparison, so
/// that loops over it vectorize.
inline double portable_exp_in_range(double x) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLn2High = 0x1.62e42fefa3800p-1;  // trailing zeros: k * kLn2High is exact
  constexpr double kLn2Low = 0x1.ef35793c76730p-45;
  constexpr double kRound = 0x1.8p52;  // adding it rounds to an integer, kept in the low bits
  const double shifted = x * kLog2E + kRound;
  const double k = shifted - kRound;
  const double r = (x - k * kLn2High) - k * kLn2Low;  // |r| <= ln(2) / 2
  // Taylor's series: the first left-out term is below 2^-57.
  double p = 1.0 / 6227020800;
  p = p * r + 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  // p * 2^k by adding k to the exponent: the result stays normal since k >= -1010.
  const std::uint64_t exponent = std::bit_cast<std::uint64_t>(shifted) << 52;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(p) + exponent);
}

/// The same for every x <= 0: 0 below -700 and for -inf.
inline double portable_exp(double x) { return x < kLeastExponent ? 0 : portable_exp_in_range(x); }

}  // namespace munia::decode
