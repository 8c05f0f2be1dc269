// What eval and fit read: a table of texts with the labels that people gave them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/context.h"
#include "tasks/task.h"

namespace munia::cli {

struct LabelledFile {
  std::string path;
  std::string column = "review";
  std::string label_column = "label";
  std::int64_t limit = 0;  // rows; 0: all
};
void describe_labelled_file(CommandSpec& spec, LabelledFile& file);

struct LabelledRow {
  std::uint64_t line = 0;
  std::string text;
  std::string label;
};
/// Fails with status 2 at a name whose format is not known, 3 at a file that cannot be opened, 4 at
/// a broken row, a missing column, or no rows.
std::vector<LabelledRow> read_labelled_rows(const Context& context, const LabelledFile& file);

/// The label's place in the task, or the number of labels. In a task whose labels are positive,
/// neutral and negative in words, the usual ways to write these are known (1, pos, 积极, …).
std::size_t label_index(const tasks::Task& task, const std::string& label);
/// The same; fails with status 4, naming the line and the task's labels.
std::size_t label_index_or_fail(const Context& context, const tasks::Task& task,
                                const LabelledRow& row);

}  // namespace munia::cli
