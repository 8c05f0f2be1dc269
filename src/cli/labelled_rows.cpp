#include "cli/labelled_rows.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cli/table_input.h"
#include "table/row_reader.h"

namespace munia::cli {

void describe_labelled_file(CommandSpec& spec, LabelledFile& file) {
  spec.positional("FILE", file.path, true, "CSV, TSV or JSON Lines with texts and labels",
                  "带文本和标签的 CSV、TSV 或 JSON Lines");
  spec.option("--column", file.column, "NAME", "column of the texts", "文本所在的列");
  spec.option("--label-column", file.label_column, "NAME", "column of the labels", "标签所在的列");
  spec.integer("--limit", file.limit, 0, 1 << 30, "the first N rows only; 0: all",
               "只取前 N 行；0：全部");
}

std::vector<LabelledRow> read_labelled_rows(const Context& context, const LabelledFile& file) {
  const auto format = table::format_of_path(file.path);
  if (!format) fail(ExitStatus::kUsage, format.error().message);
  table::ReadOptions options;
  options.json_fields = {file.column, file.label_column};
  auto reader = table::open_rows(open_table(context, file.path), *format, options);
  if (!reader) fail(ExitStatus::kBadInput, reader.error().message);
  const auto column = table::find_column((*reader)->header(), file.column);
  if (!column) fail(ExitStatus::kBadInput, column.error().message);
  const auto label_column = table::find_column((*reader)->header(), file.label_column);
  if (!label_column) fail(ExitStatus::kBadInput, label_column.error().message);
  std::vector<LabelledRow> rows;
  while (file.limit == 0 || static_cast<std::int64_t>(rows.size()) < file.limit) {
    auto row = (*reader)->next();
    if (!row) fail(ExitStatus::kBadInput, row.error().message);
    if (!row->has_value()) break;
    const auto& fields = (*row)->fields;
    rows.push_back({(*row)->line, fields[*column], fields[*label_column]});
  }
  if (rows.empty()) {
    fail(ExitStatus::kBadInput, context.lang.tr("{} has no rows", "{} 中没有数据行", file.path));
  }
  return rows;
}

namespace {

// The usual ways to write positive, neutral and negative.
constexpr const char* kMeanings[][6] = {{"正面", "Positive", "positive", "pos", "1", "积极"},
                                        {"中性", "Neutral", "neutral", "neu", "", ""},
                                        {"负面", "Negative", "negative", "neg", "0", "消极"}};

/// The place in kMeanings of what `label` means, or their number.
std::size_t meaning_of(const std::string& label) {
  for (std::size_t i = 0; i < std::size(kMeanings); ++i) {
    const bool is_one = std::find(std::begin(kMeanings[i]), std::end(kMeanings[i]), label) !=
                        std::end(kMeanings[i]);
    if (is_one && !label.empty()) return i;
  }
  return std::size(kMeanings);
}

}  // namespace

std::size_t label_index(const tasks::Task& task, const std::string& label) {
  const auto find = [&](const auto& is_it) {
    return static_cast<std::size_t>(std::find_if(task.labels.begin(), task.labels.end(), is_it) -
                                    task.labels.begin());
  };
  const std::size_t exact = find([&](const tasks::Label& own) { return own.name == label; });
  const std::size_t meaning = meaning_of(label);
  if (exact < task.labels.size() || meaning == std::size(kMeanings)) return exact;
  // Only where every label of the task is such a word: "1" beside "愤怒" may mean anything.
  const bool is_sentiment = std::all_of(
      task.labels.begin(), task.labels.end(),
      [](const tasks::Label& own) { return meaning_of(own.name) < std::size(kMeanings); });
  if (!is_sentiment) return task.labels.size();
  return find([&](const tasks::Label& own) { return meaning_of(own.name) == meaning; });
}

std::size_t label_index_or_fail(const Context& context, const tasks::Task& task,
                                const LabelledRow& row) {
  const std::size_t index = label_index(task, row.label);
  if (index < task.labels.size()) return index;
  std::string names;
  for (const tasks::Label& label : task.labels) names += " " + label.name;
  fail(ExitStatus::kBadInput,
       context.lang.tr("line {}: label \"{}\" is not one of the task's:{}",
                       "第 {} 行：标签 \"{}\" 不在任务的标签中：{}", row.line, row.label, names));
}

}  // namespace munia::cli
