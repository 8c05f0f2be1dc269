// The activations' side of screening (screen.h): one row of x as 16-bit integers, and what bounds
// the error of each group. The same for every rung; a row of 1,024 takes a few microseconds.
#include <cmath>
#include <limits>

#include "kernels/kernels.h"

namespace munia::kernels {
namespace {

constexpr double kUnit = 1.01 * 0x1p-24;      // u' of screen.h
constexpr double kLostByUnderflow = 0x1p-86;  // 2^-100 * 127 * kScreenGroup, rounded up
constexpr float kLargestCode = 32767.0F;

float round_up(double value) {
  const auto nearest = static_cast<float>(value);
  return static_cast<double>(nearest) >= value
             ? nearest
             : std::nextafter(nearest, std::numeric_limits<float>::infinity());
}

}  // namespace

bool prepare_screen_row(std::span<const float> x, double matmul_error, std::int16_t* codes,
                        ScreenGroup* groups) {
  const auto n_cols = static_cast<std::int64_t>(x.size());
  const auto n_groups = static_cast<double>(screen_groups(n_cols));
  const double inflate = 1 + (2 * n_groups + 8) * kUnit;
  const double per_product = matmul_error + (n_groups + 4) * kUnit;
  for (std::int64_t begin = 0; begin < n_cols; begin += kScreenGroup) {
    const std::int64_t end = std::min(begin + kScreenGroup, n_cols);
    float largest = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      const float magnitude = std::fabs(x[static_cast<std::size_t>(k)]);
      if (!(magnitude <= kScreenLimit)) return false;  // NaN as well
      largest = std::max(largest, magnitude);
    }
    const float scale = largest / kLargestCode;
    double sum = 0;           // |x|_1
    double squares = 0;       // |x|_2 squared
    double residual_sum = 0;  // |f|_1
    for (std::int64_t k = begin; k < end; ++k) {
      const float value = x[static_cast<std::size_t>(k)];
      float code = scale > 0 ? std::nearbyint(value / scale) : 0.0F;
      code = std::min(std::max(code, -kLargestCode), kLargestCode);
      codes[k] = static_cast<std::int16_t>(code);
      const auto exact = static_cast<double>(value);
      sum += std::fabs(exact);
      squares += exact * exact;
      residual_sum += std::fabs(exact - static_cast<double>(scale) * static_cast<double>(code));
    }
    ScreenGroup& group = groups[begin / kScreenGroup];
    group.scale = scale;
    group.residual =
        round_up((std::sqrt(squares) * (1 + matmul_error) + kLostByUnderflow) * inflate);
    group.rounding = round_up(
        (127 * (residual_sum + per_product * (sum + residual_sum)) + kLostByUnderflow) * inflate);
  }
  for (std::int64_t k = n_cols; k < screen_padded_cols(n_cols); ++k) codes[k] = 0;
  return true;
}

}  // namespace munia::kernels
