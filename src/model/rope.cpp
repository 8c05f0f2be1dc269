#include "model/rope.h"

#include <cmath>

namespace munia::model {

void sin_cos(double x, double& sine, double& cosine) {
  // Cody and Waite: x - n*pi/2 with pi/2 in three parts of 33, 33 and 53 bits, so that the first
  // two products are exact for |n| < 2^20; then the Taylor series on [-pi/4, pi/4].
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr double kPart1 = 0x1.921fb544p+0;
  constexpr double kPart2 = 0x1.0b4611a6p-34;
  constexpr double kPart3 = 0x1.3198a2e037073p-69;
  const double n = std::nearbyint(x * kTwoOverPi);
  const double r = ((x - n * kPart1) - n * kPart2) - n * kPart3;
  const double r2 = r * r;
  double s = -1.0 / 1307674368000.0;  // r^15 / 15!
  s = s * r2 + 1.0 / 6227020800.0;
  s = s * r2 - 1.0 / 39916800.0;
  s = s * r2 + 1.0 / 362880.0;
  s = s * r2 - 1.0 / 5040.0;
  s = s * r2 + 1.0 / 120.0;
  s = s * r2 - 1.0 / 6.0;
  s = s * r2 * r + r;
  double c = 1.0 / 20922789888000.0;  // r^16 / 16!
  c = c * r2 - 1.0 / 87178291200.0;
  c = c * r2 + 1.0 / 479001600.0;
  c = c * r2 - 1.0 / 3628800.0;
  c = c * r2 + 1.0 / 40320.0;
  c = c * r2 - 1.0 / 720.0;
  c = c * r2 + 1.0 / 24.0;
  c = c * r2 - 1.0 / 2.0;
  c = c * r2 + 1.0;
  switch (static_cast<std::int64_t>(n) & 3) {
    case 0:
      sine = s;
      cosine = c;
      break;
    case 1:
      sine = c;
      cosine = -s;
      break;
    case 2:
      sine = -s;
      cosine = -c;
      break;
    default:
      sine = -c;
      cosine = s;
      break;
  }
}

std::vector<float> inverse_frequencies(std::int64_t head_dim, float theta) {
  std::vector<float> inv_freq(static_cast<std::size_t>(head_dim / 2));
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    // The reference takes a float32 power; pow in float64, rounded once, gives its value but for
    // rare last bits (none at head size 64 for the bases in use).
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    const auto power =
        static_cast<float>(std::pow(static_cast<double>(theta), static_cast<double>(exponent)));
    inv_freq[i] = 1.0F / power;
  }
  return inv_freq;
}

void scale_linear(double factor, std::span<float> inv_freq) {
  for (float& frequency : inv_freq) frequency /= static_cast<float>(factor);
}

void scale_llama3(const Llama3Scaling& scaling, std::span<float> inv_freq) {
  const auto factor = static_cast<float>(scaling.factor);
  const auto low = static_cast<float>(scaling.low_freq_factor);
  const auto range = static_cast<float>(scaling.high_freq_factor - scaling.low_freq_factor);
  const auto context = static_cast<float>(scaling.original_context);
  const auto longest = static_cast<float>(scaling.original_context / scaling.low_freq_factor);
  const auto shortest = static_cast<float>(scaling.original_context / scaling.high_freq_factor);
  constexpr auto kTwoPi = static_cast<float>(2 * 3.14159265358979323846);
  for (float& frequency : inv_freq) {
    // torch divides a number by a tensor as the tensor's reciprocal times the number.
    const float wavelength = (1.0F / frequency) * kTwoPi;
    if (wavelength < shortest) continue;
    if (wavelength > longest) {
      frequency /= factor;
      continue;
    }
    const float smooth = ((1.0F / wavelength) * context - low) / range;
    frequency = (1.0F - smooth) * frequency / factor + smooth * frequency;
  }
}

std::vector<float> make_rope_table(std::int64_t n_positions, std::span<const float> inv_freq) {
  const auto half = static_cast<std::int64_t>(inv_freq.size());
  std::vector<float> table(static_cast<std::size_t>(n_positions * 2 * half));
  for (std::int64_t pos = 0; pos < n_positions; ++pos) {
    float* row = table.data() + pos * 2 * half;
    for (std::int64_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(pos) * inv_freq[static_cast<std::size_t>(i)];
      double sine = 0;
      double cosine = 0;
      sin_cos(static_cast<double>(angle), sine, cosine);
      row[i] = static_cast<float>(cosine);
      row[half + i] = static_cast<float>(sine);
    }
  }
  return table;
}

}  // namespace munia::model
