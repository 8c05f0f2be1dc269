// What munia eval says of its runs: lines, JSON, and a page with tables and plots.
#pragma once

#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/labelled_rows.h"
#include "tasks/evaluation.h"

namespace munia::cli {

/// One task with one model over all rows.
struct EvalRun {
  std::string name;                      // task@model
  std::vector<std::string> labels;       // of the task
  std::vector<std::string> found;        // per row; empty: none
  std::vector<tasks::JudgedRow> judged;  // per row; a rejected row has found no label
  std::vector<bool> is_rejected;         // per row
  tasks::Evaluation evaluation{0};       // without rejected rows
  std::int64_t n_rejected = 0;
  double seconds = 0;
  std::uint64_t peak_memory_bytes = 0;  // 0: not known
};

/// Two runs over the same rows.
struct EvalComparison {
  std::vector<std::size_t> different;  // rows whose labels differ
  tasks::PairedComparison paired;      // over rows that neither run rejected
};

void print_run(const Context& context, const EvalRun& run);
void print_comparison(const Context& context, const EvalRun& first, const EvalRun& second,
                      const EvalComparison& comparison, const std::vector<LabelledRow>& rows);

/// A self-contained HTML page; `comparison` (of two runs) may be null. `subject`: the file.
std::string eval_page(const Context& context, const std::string& subject,
                      const std::vector<EvalRun>& runs, const EvalComparison* comparison,
                      const std::vector<LabelledRow>& rows);

}  // namespace munia::cli
