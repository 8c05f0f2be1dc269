#include "cli/label_statistics.h"

#include <cmath>

namespace munia::cli {

std::int64_t LabelStatistics::n_rows() const {
  std::int64_t n = 0;
  for (const auto& row : counts_) {
    for (const std::int64_t count : row) n += count;
  }
  return n;
}

std::int64_t LabelStatistics::n_correct() const {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) n += counts_[i][i];
  return n;
}

double LabelStatistics::accuracy() const {
  const std::int64_t n = n_rows();
  return n == 0 ? 0 : static_cast<double>(n_correct()) / static_cast<double>(n);
}

double LabelStatistics::macro_f1() const {
  double sum = 0;
  int n_labels = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    std::int64_t wanted = 0;
    std::int64_t found = 0;
    for (const std::int64_t count : counts_[i]) wanted += count;
    for (const auto& row : counts_) found += row[i];
    if (wanted + found == 0) continue;
    ++n_labels;
    // 2PR / (P + R) with P = correct / found and R = correct / wanted
    sum += 2 * static_cast<double>(counts_[i][i]) / static_cast<double>(wanted + found);
  }
  return n_labels == 0 ? 0 : sum / n_labels;
}

std::pair<double, double> wilson_interval(std::int64_t n_correct, std::int64_t n_rows) {
  if (n_rows == 0) return {0, 1};
  constexpr double kZ = 1.959963984540054;  // 97.5% of the normal distribution
  const auto n = static_cast<double>(n_rows);
  const double p = static_cast<double>(n_correct) / n;
  const double centre = p + kZ * kZ / (2 * n);
  const double half = kZ * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n));
  const double scale = 1 + kZ * kZ / n;
  return {(centre - half) / scale, (centre + half) / scale};
}

}  // namespace munia::cli
