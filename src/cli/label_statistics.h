// Counts of wanted and found labels, and the figures that eval prints from them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace munia::cli {

class LabelStatistics {
 public:
  explicit LabelStatistics(std::size_t n_labels)
      : counts_(n_labels, std::vector<std::int64_t>(n_labels + 1, 0)) {}

  /// `found` == n_labels: no label was found.
  void add(std::size_t wanted, std::size_t found) { ++counts_[wanted][found]; }

  std::int64_t n_rows() const;
  std::int64_t n_correct() const;
  double accuracy() const;
  /// Mean of the labels' F1; a label that is neither wanted nor found is left out.
  double macro_f1() const;
  /// [wanted][found], the last column: none found.
  const std::vector<std::vector<std::int64_t>>& counts() const { return counts_; }

 private:
  std::vector<std::vector<std::int64_t>> counts_;
};

/// Wilson's 95% interval of a proportion (E. B. Wilson, 1927); {0, 1} without rows.
std::pair<double, double> wilson_interval(std::int64_t n_correct, std::int64_t n_rows);

}  // namespace munia::cli
