// INT8 and INT4: the arithmetic of narrow.h against a plain one in float64, how near quantization
// comes to the weights, and what it costs. Bytes across rungs: matmul_test.cpp, with all types.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/packed_format.h"
#include "kernels/rungs.h"
#include "kernels/test_data.h"

namespace munia::kernels {
namespace {

constexpr WeightType kOwnTypes[] = {WeightType::kInt8, WeightType::kInt4};

PackedWeights pack_floats(WeightType type, const std::vector<float>& w, std::int64_t n_cols) {
  return pack_rows(type, reinterpret_cast<const std::byte*>(w.data()),
                   static_cast<std::int64_t>(w.size()) / n_cols, n_cols);
}

/// What the packed weights stand for, [n_rows, n_cols].
std::vector<double> weights_of(const PackedWeights& packed) {
  const PackedMatrix& m = packed.matrix;
  std::vector<double> values;
  for (std::int64_t n = 0; n < m.n_rows; ++n) {
    const std::byte* panel = m.data + static_cast<std::size_t>(n / 16) * m.panel_bytes;
    for (std::int64_t k = 0; k < m.n_cols; ++k) {
      values.push_back(
          static_cast<double>(packed_weight(m.type, panel, m.n_cols, static_cast<int>(n % 16), k)));
    }
  }
  return values;
}

/// x in steps of a 32512th of the largest of each 64; for INT4 to the nearest 256 steps.
std::vector<double> rounded_rows(WeightType type, const std::vector<float>& x,
                                 std::int64_t n_cols) {
  std::vector<double> rounded;
  for (std::size_t row = 0; row < x.size(); row += static_cast<std::size_t>(n_cols)) {
    for (std::int64_t begin = 0; begin < n_cols; begin += 64) {
      const std::int64_t end = std::min<std::int64_t>(begin + 64, n_cols);
      const float* group = x.data() + row;
      double largest = 0;
      for (std::int64_t k = begin; k < end; ++k) {
        largest = std::max(largest, std::abs(static_cast<double>(group[k])));
      }
      const double step = largest / 32512;
      for (std::int64_t k = begin; k < end; ++k) {
        double steps = step > 0 ? std::nearbyint(static_cast<double>(group[k]) / step) : 0;
        if (type == WeightType::kInt4) steps = 256 * std::floor((steps + 128) / 256);
        rounded.push_back(steps * step);
      }
    }
  }
  return rounded;
}

TEST(Narrow, ProductsAreThoseOfBytesAndIntegerWeights) {
  for (const WeightType type : kOwnTypes) {
    for (const std::int64_t n_cols : {32, 64, 96, 256, 288, 2816}) {
      const std::int64_t n_rows = 19;
      const std::int64_t n_tokens = 3;
      const PackedWeights packed = pack_floats(type, random_floats(n_rows * n_cols, 41), n_cols);
      const std::vector<double> w = weights_of(packed);
      const std::vector<float> x = random_floats(n_tokens * n_cols, 42);
      const std::vector<double> bytes = rounded_rows(type, x, n_cols);
      const std::vector<float> y = multiply(kScalarKernels, packed.matrix, x.data(), n_tokens);
      for (std::int64_t t = 0; t < n_tokens; ++t) {
        for (std::int64_t n = 0; n < n_rows; ++n) {
          double sum = 0;
          double magnitude = 0;
          for (std::int64_t k = 0; k < n_cols; ++k) {
            const double product = bytes[static_cast<std::size_t>(t * n_cols + k)] *
                                   w[static_cast<std::size_t>(n * n_cols + k)];
            sum += product;
            magnitude += std::abs(product);
          }
          // An x that lies halfway between two steps may go either way; a step of INT8 is little.
          EXPECT_NEAR(static_cast<double>(y[static_cast<std::size_t>(t * n_rows + n)]), sum,
                      1e-5 * magnitude)
              << weight_type_name(type) << " k " << n_cols;
        }
      }
    }
  }
}

TEST(Narrow, InfinityAndNanInARowReachItsOutputsAndNoOthers) {
  const std::int64_t n_cols = 320;
  for (const WeightType type : kOwnTypes) {
    const PackedWeights packed = pack_floats(type, random_floats(20 * n_cols, 43), n_cols);
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x = random_floats(3 * n_cols, 44);
      x[static_cast<std::size_t>(n_cols + 70)] = bad;
      for (const Kernels* kernels : rungs()) {
        const std::vector<float> y = multiply(*kernels, packed.matrix, x.data(), 3);
        for (std::size_t i = 0; i < y.size(); ++i) {
          EXPECT_EQ(std::isnan(y[i]), i / 20 == 1) << kernels->name;
        }
      }
    }
  }
}

double squared_error(const std::vector<float>& w, const std::vector<double>& values) {
  double error = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    error += std::pow(static_cast<double>(w[i]) - values[i], 2);
  }
  return error;
}

/// Round to nearest with the range of each group: 64 k from -max to max in 254 steps, or 32 k from
/// min to max in 15.
std::vector<double> round_to_nearest(WeightType type, const std::vector<float>& w) {
  const std::size_t group = type == WeightType::kInt8 ? 64 : 32;
  std::vector<double> values;
  for (std::size_t begin = 0; begin < w.size(); begin += group) {
    const auto [low, high] =
        std::minmax_element(w.begin() + static_cast<std::ptrdiff_t>(begin),
                            w.begin() + static_cast<std::ptrdiff_t>(begin + group));
    const auto largest = static_cast<double>(std::max(std::abs(*low), std::abs(*high)));
    const double from = type == WeightType::kInt8 ? 0 : static_cast<double>(*low);
    const double step =
        type == WeightType::kInt8 ? largest / 127 : static_cast<double>(*high - *low) / 15;
    for (std::size_t i = begin; i < begin + group; ++i) {
      values.push_back(from + std::nearbyint((static_cast<double>(w[i]) - from) / step) * step);
    }
  }
  return values;
}

TEST(Narrow, TheSearchOfScalesErrsLessThanRounding) {
  const std::vector<float> w = random_floats(64 * 1024, 45);
  const auto error_of = [&](WeightType type) {
    return squared_error(w, weights_of(pack_floats(type, w, 1024)));
  };
  // The scales' own rounding is in the error of ours, and not in that of plain rounding.
  EXPECT_LT(error_of(WeightType::kInt8),
            0.99 * squared_error(w, round_to_nearest(WeightType::kInt8, w)));
  EXPECT_LT(error_of(WeightType::kInt4),
            0.85 * squared_error(w, round_to_nearest(WeightType::kInt4, w)));
}

TEST(Narrow, ZeroTinyHugeAndBrokenWeights) {
  for (const WeightType type : kOwnTypes) {
    for (const float scale : {0.0F, 1e-30F, 1e-4F, 1.0F, 1e6F}) {
      std::vector<float> w = random_floats(256, 46);
      for (float& value : w) value *= scale;
      const std::vector<double> values = weights_of(pack_floats(type, w, 256));
      for (const double value : values) EXPECT_TRUE(std::isfinite(value));
      const double most = scale == 0   ? 0.0
                          : scale == 1 ? (type == WeightType::kInt8 ? 0.1 : 3.0)
                                       : std::numeric_limits<double>::max();
      EXPECT_LE(squared_error(w, values), most) << scale;
    }
    std::vector<float> w = random_floats(256, 47);
    w[100] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<double> values = weights_of(pack_floats(type, w, 256));
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](double v) { return std::isnan(v); }));
  }
}

TEST(Narrow, EveryRungQuantizesToTheBytesOfTheReference) {
  for (const WeightType type : kOwnTypes) {
    for (const std::int64_t n_cols : {32, 64, 96, 256, 288, 1024}) {
      std::vector<float> w = random_floats(16 * n_cols, 48);  // [n_cols][16]
      for (std::int64_t k = 0; k < n_cols; ++k) {
        float* lanes = w.data() + k * 16;
        lanes[1] = 0;
        lanes[2] *= 1e-30F;
        lanes[3] *= 1e6F;
        lanes[4] = std::abs(lanes[4]);
        lanes[5] = -std::abs(lanes[5]);
        lanes[6] = k % 32 == 7 ? 100.0F : lanes[6] * 0.01F;
        lanes[7] = 0.25F;
        if (k == n_cols - 3) lanes[8] = std::numeric_limits<float>::quiet_NaN();
        if (k == 5) lanes[9] = -std::numeric_limits<float>::infinity();
        lanes[10] *= 3e-5F;
      }
      std::vector<float> spread = random_floats(n_cols * kBlockCols, 50);
      for (float& value : spread) value = std::abs(value) * 0.2F;
      const std::size_t size = packed_panel_bytes(type, n_cols);
      ExactBuffer want(size);
      ExactBuffer got(size);
      const float* const spreads[] = {nullptr, spread.data()};
      for (const float* spread_now : spreads) {
        kScalarKernels.quantize_panel(type, w.data(), n_cols, spread_now, want.data());
        for (const Kernels* kernels : rungs()) {
          kernels->quantize_panel(type, w.data(), n_cols, spread_now, got.data());
          EXPECT_EQ(std::memcmp(got.data(), want.data(), size), 0)
              << kernels->name << " " << weight_type_name(type) << " k " << n_cols;
        }
      }
    }
  }
}

TEST(Narrow, APanelUnpackedIsItsRows) {
  for (const WeightType type : all_types()) {
    const std::int64_t n_cols = 512;
    const std::vector<std::byte> rows = random_rows(type, 20, n_cols, 49);
    const PackedWeights packed = pack_rows(type, rows.data(), 20, n_cols);
    for (const Kernels* kernels : rungs()) {
      std::vector<float> panel(static_cast<std::size_t>(16 * n_cols));
      kernels->unpack_panel(packed.matrix, 1, panel.data());
      std::vector<float> row(static_cast<std::size_t>(n_cols));
      for (std::int64_t lane = 0; lane < 4; ++lane) {
        kernels->unpack_row(packed.matrix, 16 + lane, row.data());
        for (std::int64_t k = 0; k < n_cols; ++k) {
          ASSERT_EQ(std::memcmp(&row[static_cast<std::size_t>(k)],
                                &panel[static_cast<std::size_t>(k * 16 + lane)], sizeof(float)),
                    0)
              << kernels->name << " " << weight_type_name(type);
        }
      }
    }
  }
}

TEST(Narrow, BytesOfAWeight) {
  EXPECT_EQ(packed_panel_bytes(WeightType::kInt8, 1024), 16U * 1024 * 825 / 800);  // 8.25 bits
  EXPECT_EQ(packed_panel_bytes(WeightType::kInt4, 1024), 16U * 1024 * 4625 / 8000);
}

TEST(Narrow, HalvesComeBack) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(float_to_half(value), half);
    const float next = half_to_float(static_cast<std::uint16_t>(half + 1));
    if (!std::isfinite(next) || (half & 0x7FFFU) == 0x7FFFU) continue;
    const float middle = value + (next - value) / 2;  // exact; goes to the even one
    EXPECT_EQ(float_to_half(middle), (half & 1U) == 0 ? half : half + 1) << bits;
  }
  EXPECT_EQ(half_to_float(float_to_half(1e9F)), 65504.0F);
  EXPECT_EQ(half_to_float(float_to_half(-std::numeric_limits<float>::infinity())), -65504.0F);
}

}  // namespace
}  // namespace munia::kernels
