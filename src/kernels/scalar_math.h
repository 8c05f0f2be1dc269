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

// The same in float64 for x <= 0 (log_sum_exp): a Taylor polynomial of degree 12, terms below
// exp(-700) count as exp(-700), nothing beside the largest term's 1.
inline constexpr double kExp64Low = -700.0;
inline constexpr double kExp64Log2e = 0x1.71547652b82fep+0;
inline constexpr double kExp64Ln2High = 0x1.62e42fefa0000p-1;
inline constexpr double kExp64Ln2Low = 0x1.cf79abc9e3b3ap-40;
inline constexpr double kExp64Round = 0x1.8p+52;
inline constexpr int kExp64Degree = 12;
inline constexpr double kExp64Poly[kExp64Degree + 1] = {
    1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,      1.0 / 720,
    1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600};

inline double exp_f64_negative(double x) {
  x = kExp64Low > x ? kExp64Low : x;
  const double shifted = std::fma(x, kExp64Log2e, kExp64Round);
  const double n = shifted - kExp64Round;
  double r = std::fma(n, -kExp64Ln2High, x);
  r = std::fma(n, -kExp64Ln2Low, r);
  double poly = kExp64Poly[kExp64Degree];
  for (int i = kExp64Degree - 1; i >= 0; --i) poly = std::fma(poly, r, kExp64Poly[i]);
  const std::uint64_t n_bits =
      std::bit_cast<std::uint64_t>(shifted) - std::bit_cast<std::uint64_t>(kExp64Round);
  return poly * std::bit_cast<double>((n_bits + 1023U) << 52);
}

/// Sums 16 lanes: l and l+8, then l and l+4, l and l+2, l and l+1.
template <class T>
T sum_lanes(const T lanes[16]) {
  T sums[8];
  for (int l = 0; l < 8; ++l) sums[l] = lanes[l] + lanes[l + 8];
  for (int width = 4; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) sums[l] = sums[l] + sums[l + width];
  }
  return sums[0];
}

/// log_sum_exp of a row whose maximum (NaN left out) is infinite, or that is empty.
inline double log_sum_exp_of_infinite(const float* x, std::int64_t n, float max) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) return static_cast<double>(x[i]);
  }
  return static_cast<double>(max);
}

/// The end of log_sum_exp, from the row's maximum and the 16 lanes of exp(x - max).
inline double finish_log_sum_exp(float max, const double lanes[16]) {
  return static_cast<double>(max) + std::log(sum_lanes(lanes));
}

}  // namespace munia::kernels
