// Arithmetic that every rung repeats operation by operation: the own exp in float32 and float64 and
// the fixed tree that sums 16 lanes. The vector rungs do the same steps on vectors with these
// constants, so all rungs give the same bytes.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace munia::kernels {

// exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln(2)/2. exp(r) = 1 + r + r^2 * poly(r), a
// minimax polynomial (relative error 0.05 ulp). 2^n goes in by two factors, so that subnormal
// results are rounded once and large ones overflow to infinity.
inline constexpr float kExpLow = -104.0F;  // below: exactly 0
inline constexpr float kExpHigh = 89.0F;   // above: infinity
inline constexpr float kExpLog2e = 0x1.715476p+0F;
inline constexpr float kExpLn2High = 0x1.62e400p-1F;  // short, so that x - n * high is exact
inline constexpr float kExpLn2Low = 0x1.7f7d1cp-20F;
inline constexpr float kExpRound = 0x1.8p+23F;  // adding it rounds to an integer
inline constexpr float kExpPoly[5] = {0x1.fffffcp-2F, 0x1.555492p-3F, 0x1.5558f2p-5F,
                                      0x1.1239f4p-7F, 0x1.6a2416p-10F};

inline float exp_f32(float x) {
  x = kExpLow > x ? kExpLow : x;  // as maxps and minps: a NaN passes
  x = kExpHigh < x ? kExpHigh : x;
  const float shifted = std::fma(x, kExpLog2e, kExpRound);
  const float n = shifted - kExpRound;
  float r = std::fma(n, -kExpLn2High, x);
  r = std::fma(n, -kExpLn2Low, r);
  float poly = kExpPoly[4];
  for (int i = 3; i >= 0; --i) poly = std::fma(poly, r, kExpPoly[i]);
  const float result = 1.0F + std::fma(poly, r * r, r);
  // The low bits of `shifted` hold n; unsigned arithmetic keeps a NaN's garbage defined.
  const auto n_int = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) -
                                               std::bit_cast<std::uint32_t>(kExpRound));
  const std::int32_t half = n_int >> 1;
  const std::uint32_t rest = static_cast<std::uint32_t>(n_int) - static_cast<std::uint32_t>(half);
  const float scale_1 = std::bit_cast<float>((static_cast<std::uint32_t>(half) + 127U) << 23);
  const float scale_2 = std::bit_cast<float>((rest + 127U) << 23);
  return result * scale_1 * scale_2;
}

/// Sums 16 lanes: l and l+8, then l and l+4, l and l+2, l and l+1.
inline float sum_lanes(const float lanes[16]) {
  float sums[8];
  for (int l = 0; l < 8; ++l) sums[l] = lanes[l] + lanes[l + 8];
  for (int width = 4; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) sums[l] = sums[l] + sums[l + width];
  }
  return sums[0];
}

}  // namespace munia::kernels
