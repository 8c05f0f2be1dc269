// What munia eval says of its runs: lines, JSON, and a page with tables and plots.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/labelled_rows.h"
#include "tasks/evaluation.h"

namespace munia::cli {

/// One task with one model, in one form of its weights, over all rows.
struct EvalRun {
  std::string name;                      // task@model, and the form of the weights where compared
  std::vector<std::string> labels;       // of the task
  std::vector<std::string> found;        // per row; empty: none
  std::vector<tasks::JudgedRow> judged;  // per row; a rejected row has found no label
  std::vector<bool> is_rejected;         // per row
  tasks::Evaluation evaluation{0};       // without rejected rows
  std::int64_t n_rejected = 0;
  double seconds = 0;
  std::vector<std::vector<double>> probabilities;  // per row, by label; empty where there are none
  double perplexity = 0;                           // of the text that was given; 0: none was
  std::uint64_t peak_memory_bytes = 0;             // 0: not known
};

/// A later run beside the first one, over the same rows.
struct EvalComparison {
  std::size_t second = 1;              // the later run's place
  std::vector<std::size_t> different;  // rows whose labels differ
  tasks::PairedComparison paired;      // over rows that neither run rejected
  /// Mean over the rows of KL(first || second) of the labels' probabilities, in nats; only where
  /// both runs have probabilities of the same labels.
  std::optional<double> divergence;
};

void print_run(const Context& context, const EvalRun& run);
void print_comparison(const Context& context, const EvalRun& first, const EvalRun& second,
                      const EvalComparison& comparison, const std::vector<LabelledRow>& rows);

/// A self-contained HTML page. `subject`: the file.
std::string eval_page(const Context& context, const std::string& subject,
                      const std::vector<EvalRun>& runs,
                      const std::vector<EvalComparison>& comparisons,
                      const std::vector<LabelledRow>& rows);

}  // namespace munia::cli
