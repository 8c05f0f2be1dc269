// What a run of munia classify over a file is: its options checked, the columns that it adds, and
// what it is made from (so that a killed run goes on only with the same). classify_file.h runs it.
#pragma once

#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/resumable_output.h"
#include "cli/task_options.h"
#include "table/row_reader.h"
#include "table/row_writer.h"
#include "tasks/bulk.h"

namespace munia::cli {

struct FileOptions {
  std::string output;   // "" or "-": standard output
  std::string format;   // of the input; "": by its name
  std::string column;   // "": text, review, or the only one
  std::string rejects;  // where rows that can't be labelled go; "": nowhere
  std::string prefix;   // of the new columns' names
  std::string long_texts = "error";
  bool resume = false;
};
void describe_file_options(CommandSpec& spec, FileOptions& options);

/// True when the command line speaks of a file, or of standard input as one.
bool is_file_run(const std::string& input, const FileOptions& options);

/// Nothing of it changes during a run.
struct FilePlan {
  std::string input;  // "-": standard input
  FileOptions options;
  table::Format from = table::Format::kText;
  table::Format to = table::Format::kTsv;
  tasks::LongTexts long_texts = tasks::LongTexts::kError;
  tasks::Task task;
  bool to_file = false;

  bool has_probabilities() const { return task.method != tasks::Method::kGenerate; }
  /// The names of the added columns, and the values of a row.
  std::vector<std::string> added_names() const;
  std::vector<table::AddedValue> added_values(const tasks::BulkOutcome& outcome) const;
};
/// Fails with status 2 at options that contradict each other.
FilePlan make_file_plan(const Context& context, const std::string& input,
                        const FileOptions& options, const TaskOptions& task);
/// Hashes of the input, the task, the model and the options. Fails with status 3 when a file can't
/// be read.
ResumableOutput::Identity identity_of(const Context& context, const FilePlan& plan,
                                      const std::string& model_path);

}  // namespace munia::cli
