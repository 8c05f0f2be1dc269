// Rounding that knows what the weights are multiplied with: against the definition, and what it is
// for: outputs that change less.
#include "model/input_moments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/kernels.h"

namespace munia::model {
namespace {

using kernels::kBlockCols;

ThreadPool make_pool(int n_threads) {
  return ThreadPool({.n_threads = n_threads, .cpus = {}, .spin_us = 0});
}

Linear layer_of(std::int64_t n_cols) {
  Linear layer;
  layer.w.n_rows = 16;
  layer.w.n_cols = n_cols;
  return layer;
}

/// [n_rows, n_cols]: neighbours are alike, and some columns are large.
std::vector<float> correlated_rows(std::int64_t n_rows, std::int64_t n_cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x;
  for (std::int64_t t = 0; t < n_rows; ++t) {
    float last = 0;
    for (std::int64_t k = 0; k < n_cols; ++k) {
      last = 0.8F * last + 0.6F * normal(random);
      x.push_back(last * (k % 37 == 5 ? 8.0F : 1.0F));
    }
  }
  return x;
}

TEST(InputMoments, SpreadIsTheCholeskyFactorOfTheInverse) {
  ThreadPool pool = make_pool(1);
  constexpr std::int64_t kCols = 48;
  constexpr std::int64_t kRows = 200;
  const Linear layer = layer_of(kCols);
  const std::vector<float> x = correlated_rows(kRows, kCols, 1);
  InputMoments moments;
  moments.see(layer, x.data(), kRows, pool);
  const std::vector<float> spread = moments.spread(layer, 0.1, pool);
  ASSERT_EQ(spread.size(), static_cast<std::size_t>(kCols * kBlockCols));

  // H with a tenth of its mean diagonal on the diagonal.
  std::vector<double> h(kCols * kCols);
  double mean = 0;
  for (std::int64_t i = 0; i < kCols; ++i) {
    for (std::int64_t j = 0; j < kCols; ++j) {
      for (std::int64_t t = 0; t < kRows; ++t) {
        h[i * kCols + j] += static_cast<double>(x[t * kCols + i]) * x[t * kCols + j];
      }
    }
    mean += h[i * kCols + i] / kCols;
  }
  for (std::int64_t i = 0; i < kCols; ++i) h[i * kCols + i] += 0.1 * mean;
  // U = D (I + S) with S[k][i] = spread[k][i] and D[k]^2 = c / spread[k][k] must give U H U^T = I
  // (from H^-1 = U^T U), up to the one factor c.
  double scale = 0;
  for (std::int64_t a = 0; a < kCols; ++a) {
    for (std::int64_t b = 0; b < kCols; ++b) {
      double sum = 0;
      for (std::int64_t i = a; i < kCols; ++i) {
        for (std::int64_t j = b; j < kCols; ++j) {
          const double left = i == a ? 1 : spread[a * kBlockCols + i];
          const double right = j == b ? 1 : spread[b * kBlockCols + j];
          sum += left * h[i * kCols + j] * right;
        }
      }
      sum /=
          std::sqrt(static_cast<double>(spread[a * kBlockCols + a]) * spread[b * kBlockCols + b]);
      if (a == 0 && b == 0) scale = sum;
      EXPECT_NEAR(sum / scale, a == b ? 1 : 0, 1e-4) << a << " " << b;
    }
  }
}

TEST(InputMoments, OutputsChangeLessOnRowsThatWereNotSeen) {
  ThreadPool pool = make_pool(1);
  for (const std::int64_t n_cols : {std::int64_t{96}, std::int64_t{320}}) {
    const Linear layer = layer_of(n_cols);
    const std::vector<float> seen = correlated_rows(800, n_cols, 2);
    const std::vector<float> other = correlated_rows(200, n_cols, 3);
    InputMoments moments;
    moments.see(layer, seen.data(), 800, pool);
    const std::vector<float> spread = moments.spread(layer, 0.1, pool);

    std::mt19937 random(4);
    std::normal_distribution<float> normal;
    std::vector<float> w(static_cast<std::size_t>(n_cols * kernels::kPanelRows));  // [n_cols][16]
    for (float& value : w) value = normal(random);
    const kernels::Kernels& kernels = *kernels::select_kernels("");
    const auto error_with = [&](const float* spread_now) {
      const auto type = kernels::WeightType::kInt4;
      AlignedBuffer panel(kernels::packed_panel_bytes(type, n_cols));
      kernels.quantize_panel(type, w.data(), n_cols, spread_now, panel.data());
      const kernels::PackedMatrix packed = {type, 16, n_cols, panel.data(), panel.size_bytes()};
      std::vector<float> rounded(w.size());
      kernels.unpack_panel(packed, 0, rounded.data());
      double error = 0;
      for (std::int64_t t = 0; t < 200; ++t) {
        for (std::int64_t n = 0; n < 16; ++n) {
          double sum = 0;
          for (std::int64_t k = 0; k < n_cols; ++k) {
            const std::size_t at = static_cast<std::size_t>(k * 16 + n);
            sum += static_cast<double>(other[static_cast<std::size_t>(t * n_cols + k)]) *
                   (static_cast<double>(rounded[at]) - w[at]);
          }
          error += sum * sum;
        }
      }
      return error;
    };
    EXPECT_LT(error_with(spread.data()), 0.5 * error_with(nullptr)) << n_cols;
  }
}

TEST(InputMoments, TheSameForEveryNumberOfThreadsAndPieces) {
  const Linear layer = layer_of(600);
  const std::vector<float> x = correlated_rows(64, 600, 5);
  std::vector<float> first;
  for (const int n_threads : {1, 2, 3}) {
    ThreadPool pool = make_pool(n_threads);
    InputMoments moments;
    const std::int64_t piece = n_threads == 1 ? 64 : 16;
    for (std::int64_t t = 0; t < 64; t += piece)
      moments.see(layer, x.data() + t * 600, piece, pool);
    EXPECT_EQ(moments.n_rows(), 64);
    const std::vector<float> spread = moments.spread(layer, 0.1, pool);
    if (first.empty()) first = spread;
    EXPECT_EQ(spread, first);
  }
}

TEST(InputMoments, NothingKnownLeavesEachWeightForItself) {
  ThreadPool pool = make_pool(1);
  const Linear layer = layer_of(32);
  const Linear other = layer_of(32);
  InputMoments moments;
  const std::vector<float> zeros(32 * 4);
  moments.see(layer, zeros.data(), 4, pool);
  EXPECT_TRUE(moments.spread(other, 0.1, pool).empty());
  const std::vector<float> spread = moments.spread(layer, 0.1, pool);
  for (std::int64_t k = 0; k < 32; ++k) {
    for (std::int64_t i = k; i < 32; ++i) {
      EXPECT_EQ(spread[static_cast<std::size_t>(k * kBlockCols + i)], i == k ? 1.0F : 0.0F);
    }
  }
}

}  // namespace
}  // namespace munia::model
