#include "tasks/evaluation.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"

namespace munia::tasks {
namespace {

constexpr double kZ = 1.959963984540054;  // 97.5% of the normal distribution
constexpr int kResamplings = 2000;
constexpr std::uint32_t kSeed = 20240204;

double ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

using Counts = std::vector<std::vector<std::int64_t>>;

LabelFigures label_figures(const Counts& counts, std::size_t i) {
  LabelFigures figures;
  for (const std::int64_t count : counts[i]) figures.n_wanted += count;
  for (const auto& row : counts) figures.n_found += row[i];
  figures.n_correct = counts[i][i];
  return figures;
}

double macro_f1_of(const Counts& counts) {
  double sum = 0;
  int n_labels = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const LabelFigures figures = label_figures(counts, i);
    if (figures.n_wanted + figures.n_found == 0) continue;
    ++n_labels;
    sum += figures.f1();
  }
  return n_labels == 0 ? 0 : sum / n_labels;
}

}  // namespace

double LabelFigures::precision() const { return ratio(n_correct, n_found); }
double LabelFigures::recall() const { return ratio(n_correct, n_wanted); }
double LabelFigures::f1() const { return ratio(2 * n_correct, n_wanted + n_found); }

void Evaluation::add(const JudgedRow& row) {
  ++counts_[row.wanted][row.found];
  if (row.confidence < 0) return;
  ++n_confident_;
  const auto bin = static_cast<std::size_t>(row.confidence * static_cast<double>(kBins));
  BinSums& sums = bins_[std::min(bin, kBins - 1)];
  ++sums.n_rows;
  sums.n_correct += row.is_right() ? 1 : 0;
  sums.confidence += row.confidence;
}

std::int64_t Evaluation::n_rows() const {
  std::int64_t n = 0;
  for (const auto& row : counts_) {
    for (const std::int64_t count : row) n += count;
  }
  return n;
}

std::int64_t Evaluation::n_correct() const {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) n += counts_[i][i];
  return n;
}

double Evaluation::accuracy() const { return ratio(n_correct(), n_rows()); }
Interval Evaluation::accuracy_interval() const { return wilson_interval(n_correct(), n_rows()); }
LabelFigures Evaluation::label(std::size_t i) const { return label_figures(counts_, i); }
double Evaluation::macro_f1() const { return macro_f1_of(counts_); }

// Drawing n rows with replacement is drawing how often each cell of the matrix comes: a multinomial
// draw, made of binomial ones.
Interval Evaluation::macro_f1_interval() const {
  const std::int64_t n = n_rows();
  if (n == 0) return {0, 1};
  std::mt19937 random(kSeed);
  std::vector<double> values;
  Counts drawn = counts_;
  for (int i = 0; i < kResamplings; ++i) {
    std::int64_t rows_left = n;   // to draw
    std::int64_t cells_left = n;  // rows of the cells that were not drawn yet
    for (std::size_t wanted = 0; wanted < counts_.size(); ++wanted) {
      for (std::size_t found = 0; found < counts_[wanted].size(); ++found) {
        const std::int64_t count = counts_[wanted][found];
        std::int64_t& out = drawn[wanted][found];
        if (count == cells_left) {
          out = rows_left;
        } else {
          out =
              std::binomial_distribution<std::int64_t>(rows_left, ratio(count, cells_left))(random);
        }
        rows_left -= out;
        cells_left -= count;
      }
    }
    values.push_back(macro_f1_of(drawn));
  }
  std::sort(values.begin(), values.end());
  const auto at = [&](double part) {
    return values[static_cast<std::size_t>(part * (kResamplings - 1))];
  };
  return {at(0.025), at(0.975)};
}

std::vector<ReliabilityBin> Evaluation::reliability() const {
  std::vector<ReliabilityBin> bins;
  for (const BinSums& sums : bins_) {
    if (sums.n_rows == 0) continue;
    const auto n = static_cast<double>(sums.n_rows);
    bins.push_back({sums.n_rows, sums.confidence / n, ratio(sums.n_correct, sums.n_rows)});
  }
  return bins;
}

double Evaluation::calibration_error() const {
  double sum = 0;
  for (const ReliabilityBin& bin : reliability()) {
    sum += static_cast<double>(bin.n_rows) * std::fabs(bin.confidence - bin.accuracy);
  }
  return n_confident_ == 0 ? 0 : sum / static_cast<double>(n_confident_);
}

Interval wilson_interval(std::int64_t n_correct, std::int64_t n_rows) {
  if (n_rows == 0) return {0, 1};
  const auto n = static_cast<double>(n_rows);
  const double p = static_cast<double>(n_correct) / n;
  const double centre = p + kZ * kZ / (2 * n);
  const double half = kZ * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n));
  const double scale = 1 + kZ * kZ / n;
  // Rounding must not push the proportion itself out.
  return {std::min(p, (centre - half) / scale), std::max(p, (centre + half) / scale)};
}

double PairedComparison::difference() const {
  return ratio(only_second_right - only_first_right, n_rows);
}

Interval PairedComparison::interval() const {
  if (n_rows == 0) return {-1, 1};
  const double first = static_cast<double>(only_first_right) + 0.5;
  const double second = static_cast<double>(only_second_right) + 0.5;
  const double n = static_cast<double>(n_rows) + 2;
  const double centre = (second - first) / n;
  const double half = kZ * std::sqrt(first + second - (second - first) * (second - first) / n) / n;
  return {centre - half, centre + half};
}

PairedComparison compare(std::span<const JudgedRow> first, std::span<const JudgedRow> second) {
  MUNIA_CHECK(first.size() == second.size());
  PairedComparison result;
  result.n_rows = static_cast<std::int64_t>(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    result.only_first_right += first[i].is_right() && !second[i].is_right() ? 1 : 0;
    result.only_second_right += second[i].is_right() && !first[i].is_right() ? 1 : 0;
  }
  return result;
}

}  // namespace munia::tasks
