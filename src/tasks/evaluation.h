// How often a task's labels agree with those that people gave, how well its probabilities say so,
// and how two runs over the same rows differ. Counts and figures only: knows no model and no file.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace munia::tasks {

struct Interval {
  double low = 0;
  double high = 1;
};

/// One row: the label that people gave, the one found, and its probability.
struct JudgedRow {
  std::size_t wanted = 0;
  std::size_t found = 0;   // the number of labels: none was found
  double confidence = -1;  // below 0: the method has no probabilities
  bool is_right() const { return wanted == found; }
};

struct LabelFigures {
  std::int64_t n_wanted = 0;
  std::int64_t n_found = 0;
  std::int64_t n_correct = 0;
  double precision() const;  // 0 where nothing was found
  double recall() const;
  double f1() const;  // 2PR / (P + R)
};

/// Rows whose confidence lies in one tenth of [0, 1].
struct ReliabilityBin {
  std::int64_t n_rows = 0;
  double confidence = 0;  // mean
  double accuracy = 0;
};

class Evaluation {
 public:
  static constexpr std::size_t kBins = 10;

  explicit Evaluation(std::size_t n_labels)
      : counts_(n_labels, std::vector<std::int64_t>(n_labels + 1, 0)) {}

  void add(const JudgedRow& row);

  std::int64_t n_rows() const;
  std::int64_t n_correct() const;
  double accuracy() const;
  Interval accuracy_interval() const;  // 95%, Wilson
  LabelFigures label(std::size_t i) const;
  /// Mean of the labels' F1; a label that is neither wanted nor found is left out.
  double macro_f1() const;
  /// 95%, by the percentiles of 2,000 resamplings of the rows (Efron's bootstrap, 1979), from a
  /// fixed seed.
  Interval macro_f1_interval() const;
  /// [wanted][found], the last column: none found.
  const std::vector<std::vector<std::int64_t>>& counts() const { return counts_; }

  bool has_confidence() const { return n_confident_ > 0; }
  /// Empty tenths are left out.
  std::vector<ReliabilityBin> reliability() const;
  /// Expected calibration error: the mean distance of confidence and accuracy over the tenths,
  /// weighted by their rows (Guo et al., 2017).
  double calibration_error() const;

 private:
  struct BinSums {
    std::int64_t n_rows = 0;
    std::int64_t n_correct = 0;
    double confidence = 0;
  };
  std::vector<std::vector<std::int64_t>> counts_;
  BinSums bins_[kBins];
  std::int64_t n_confident_ = 0;
};

/// Wilson's 95% interval of a proportion (E. B. Wilson, 1927); {0, 1} without rows.
Interval wilson_interval(std::int64_t n_correct, std::int64_t n_rows);

/// Two runs over the same rows.
struct PairedComparison {
  std::int64_t n_rows = 0;
  std::int64_t only_first_right = 0;
  std::int64_t only_second_right = 0;
  /// Accuracy of the second less that of the first.
  double difference() const;
  /// 95% (A. Agresti and Y. Min, 2005: Wald's with half a row added to each of the four cells).
  Interval interval() const;
};
/// Rows stand in the same order in both.
PairedComparison compare(std::span<const JudgedRow> first, std::span<const JudgedRow> second);

}  // namespace munia::tasks
