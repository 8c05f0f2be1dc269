#include "model/input_moments.h"

#include <algorithm>
#include <cmath>

namespace munia::model {
namespace {

using kernels::kBlockCols;

std::int64_t n_blocks(std::int64_t n_cols) { return (n_cols + kBlockCols - 1) / kBlockCols; }
std::int64_t block_size(std::int64_t n_cols, std::int64_t block) {
  return std::min(kBlockCols, n_cols - block * kBlockCols);
}

/// sums [n][kBlockCols], upper triangle, += x^T x of n columns of x.
void add_block(const float* x, std::int64_t stride, std::int64_t n_rows, std::int64_t n,
               float* sums) {
  for (std::int64_t t = 0; t < n_rows; ++t, x += stride) {
    for (std::int64_t i = 0; i < n; ++i) {
      const float x_i = x[i];
      float* row = sums + i * kBlockCols;
      for (std::int64_t j = i; j < n; ++j) row[j] += x_i * x[j];
    }
  }
}

/// With H the moments and H^-1 = U^T U, U upper triangular: spread[k][i] = U[k][i] / U[k][k] and
/// spread[k][k] = 1 / U[k][k]^2, the latter as shares of their mean. U is found without H^-1: where
/// H = R R^T with R upper triangular, U = R^-1.
void solve_block(const float* sums, std::int64_t n, double damping, float* spread) {
  const auto at = [n](std::int64_t i, std::int64_t j) {
    return static_cast<std::size_t>(i * n + j);
  };
  double mean = 0;
  for (std::int64_t i = 0; i < n; ++i) mean += sums[i * kBlockCols + i];
  mean /= static_cast<double>(n);
  if (!(mean > 0) || !std::isfinite(mean)) {  // nothing is known: each weight for itself
    for (std::int64_t k = 0; k < n; ++k) {
      std::fill_n(spread + k * kBlockCols, kBlockCols, 0.0F);
      spread[k * kBlockCols + k] = 1.0F;
    }
    return;
  }
  std::vector<double> r(static_cast<std::size_t>(n * n));
  for (std::int64_t j = n - 1; j >= 0; --j) {  // columns of R from the last
    for (std::int64_t i = j; i >= 0; --i) {
      double sum = static_cast<double>(sums[i * kBlockCols + j]) + (i == j ? damping * mean : 0);
      const double* row_i = r.data() + at(i, 0);
      const double* row_j = r.data() + at(j, 0);
      for (std::int64_t k = j + 1; k < n; ++k) sum -= row_i[k] * row_j[k];
      // Damped, so positive but for rounding.
      r[at(i, j)] = i == j ? std::sqrt(std::max(sum, 1e-6 * mean)) : sum / r[at(j, j)];
    }
  }
  std::vector<double> u(static_cast<std::size_t>(n * n));
  for (std::int64_t i = n - 1; i >= 0; --i) {  // rows of U = R^-1 from the last
    u[at(i, i)] = 1 / r[at(i, i)];
    double* row = u.data() + at(i, 0);
    for (std::int64_t k = i + 1; k < n; ++k) {
      const double factor = r[at(i, k)] / r[at(i, i)];
      const double* below = u.data() + at(k, 0);
      for (std::int64_t j = k; j < n; ++j) row[j] -= factor * below[j];
    }
  }
  double mean_importance = 0;
  for (std::int64_t k = 0; k < n; ++k) mean_importance += 1 / (u[at(k, k)] * u[at(k, k)]);
  mean_importance /= static_cast<double>(n);
  for (std::int64_t k = 0; k < n; ++k) {
    float* row = spread + k * kBlockCols;
    std::fill_n(row, kBlockCols, 0.0F);
    row[k] = static_cast<float>(1 / (u[at(k, k)] * u[at(k, k)] * mean_importance));
    for (std::int64_t i = k + 1; i < n; ++i) row[i] = static_cast<float>(u[at(k, i)] / u[at(k, k)]);
  }
}

}  // namespace

void InputMoments::see(const Linear& layer, const float* x, std::int64_t n_rows, ThreadPool& pool) {
  const std::int64_t n_cols = layer.w.n_cols;
  if (first_ == nullptr) first_ = &layer;
  if (first_ == &layer) n_rows_ += n_rows;
  std::vector<float>& sums = sums_[&layer];
  sums.resize(static_cast<std::size_t>(n_cols * kBlockCols));
  pool.parallel_for(n_blocks(n_cols), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t b = begin; b < end; ++b) {
      add_block(x + b * kBlockCols, n_cols, n_rows, block_size(n_cols, b),
                sums.data() + b * kBlockCols * kBlockCols);
    }
  });
}

std::vector<float> InputMoments::spread(const Linear& layer, double damping,
                                        ThreadPool& pool) const {
  const auto found = sums_.find(&layer);
  if (found == sums_.end()) return {};
  const std::int64_t n_cols = layer.w.n_cols;
  std::vector<float> spread(static_cast<std::size_t>(n_cols * kBlockCols));
  pool.parallel_for(n_blocks(n_cols), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t offset = b * kBlockCols * kBlockCols;
      solve_block(found->second.data() + offset, block_size(n_cols, b), damping,
                  spread.data() + offset);
    }
  });
  return spread;
}

}  // namespace munia::model
