// munia eval: how often a task's labels agree with a labelled file; with a second task or model,
// which rows the two label differently.
#include <algorithm>
#include <memory>
#include <sstream>
#include <utility>

#include "base/clock.h"
#include "base/json_writer.h"
#include "cli/commands.h"
#include "cli/label_statistics.h"
#include "cli/session.h"
#include "cli/task_options.h"
#include "table/row_reader.h"

namespace munia::cli {
namespace {

constexpr std::size_t kGroup = 64;

struct EvalFlags {
  std::string file;
  std::string column = "review";
  std::string label_column = "label";
  std::int64_t limit = 0;
  TaskOptions task;
  std::string compare;        // weight modes
  std::string compare_task;   // another task on the same rows
  std::string compare_model;  // another model on the same rows
};

struct LabelledRow {
  std::uint64_t line = 0;
  std::string text;
  std::string label;
};

std::vector<LabelledRow> read_rows(const Context& context, const EvalFlags& flags) {
  const auto format = table::format_of_path(flags.file);
  if (!format) fail(ExitStatus::kUsage, format.error().message);
  auto source = table::open_source(flags.file);
  if (!source) fail(ExitStatus::kCannotLoad, source.error().message);
  table::ReadOptions options;
  options.json_fields = {flags.column, flags.label_column};
  auto reader = table::open_rows(*std::move(source), *format, options);
  if (!reader) fail(ExitStatus::kBadInput, reader.error().message);
  const auto column = table::find_column((*reader)->header(), flags.column);
  if (!column) fail(ExitStatus::kBadInput, column.error().message);
  const auto label_column = table::find_column((*reader)->header(), flags.label_column);
  if (!label_column) fail(ExitStatus::kBadInput, label_column.error().message);
  std::vector<LabelledRow> rows;
  while (flags.limit == 0 || static_cast<std::int64_t>(rows.size()) < flags.limit) {
    auto row = (*reader)->next();
    if (!row) fail(ExitStatus::kBadInput, row.error().message);
    if (!row->has_value()) break;
    const auto& fields = (*row)->fields;
    rows.push_back({(*row)->line, fields[*column], fields[*label_column]});
  }
  if (rows.empty()) {
    fail(ExitStatus::kBadInput, context.lang.tr("{} has no rows", "{} 中没有数据行", flags.file));
  }
  return rows;
}

/// The label's place in the task, or the number of labels. For the built-in tasks the usual ways to
/// write positive, neutral and negative are known.
std::size_t label_index(const tasks::Task& task, const std::string& label) {
  static constexpr const char* kMeanings[][6] = {
      {"正面", "Positive", "positive", "pos", "1", "积极"},
      {"中性", "Neutral", "neutral", "neu", "", ""},
      {"负面", "Negative", "negative", "neg", "0", "消极"}};
  const auto find_name = [&](const std::string& name) {
    for (std::size_t i = 0; i < task.labels.size(); ++i) {
      if (task.labels[i].name == name) return i;
    }
    return task.labels.size();
  };
  const std::size_t exact = find_name(label);
  if (exact < task.labels.size() || !task.name.starts_with("sentiment")) return exact;
  for (const auto& meaning : kMeanings) {
    if (label.empty() ||
        std::find(std::begin(meaning), std::end(meaning), label) == std::end(meaning)) {
      continue;
    }
    for (const char* name : meaning) {
      if (const std::size_t i = find_name(name); i < task.labels.size()) return i;
    }
  }
  return task.labels.size();
}

struct EvalRun {
  std::string name;
  std::vector<std::string> labels;  // of the task
  std::vector<std::string> found;   // per row; empty: none
  LabelStatistics statistics{0};
  std::int64_t n_rejected = 0;
  double seconds = 0;
};

EvalRun evaluate(const Context& context, const tasks::Task& task, const std::string& model,
                 const std::vector<LabelledRow>& rows) {
  EvalRun run;
  run.name = task.name + "@" + model;
  for (const tasks::Label& label : task.labels) run.labels.push_back(label.name);
  run.statistics = LabelStatistics(task.labels.size());
  std::vector<std::size_t> wanted;
  for (const LabelledRow& row : rows) {
    wanted.push_back(label_index(task, row.label));
    if (wanted.back() < task.labels.size()) continue;
    std::string names;
    for (const std::string& label : run.labels) names += " " + label;
    fail(ExitStatus::kBadInput,
         context.lang.tr("line {}: label \"{}\" is not one of the task's:{}",
                         "第 {} 行：标签 \"{}\" 不在任务的标签中：{}", row.line, row.label, names));
  }
  Session session =
      open_session(context, model, {.greedy = task.method == tasks::Method::kGenerate});
  const tasks::Classifier classifier = make_classifier(*session.engine, task);
  const Clock::time_point begin = Clock::now();
  for (std::size_t first = 0; first < rows.size(); first += kGroup) {
    const std::size_t last = std::min(rows.size(), first + kGroup);
    std::vector<std::string> texts;
    for (std::size_t i = first; i < last; ++i) texts.push_back(rows[i].text);
    const auto results = classifier.classify(texts);
    for (std::size_t i = first; i < last; ++i) {
      const auto& result = results[i - first];
      if (!result) {
        if (request_status(result.error().code) != ExitStatus::kBadInput) {
          fail(request_status(result.error().code), result.error().message);
        }
        print_note(
            context.lang.tr("line {}: {}", "第 {} 行：{}", rows[i].line, result.error().message));
        ++run.n_rejected;
        run.found.emplace_back();
        continue;
      }
      run.found.push_back(result->label.value_or(""));
      const auto name = std::find(run.labels.begin(), run.labels.end(), run.found.back());
      run.statistics.add(wanted[i], static_cast<std::size_t>(name - run.labels.begin()));
    }
    if (stderr_is_terminal()) {
      print_error_text(fmt::format("\r\x1b[K{} / {}  {:.1f}/s", last, rows.size(),
                                   static_cast<double>(last) / seconds_since(begin)));
    }
  }
  if (stderr_is_terminal()) print_error_text("\r\x1b[K");
  run.seconds = seconds_since(begin);
  return run;
}

void report(const Context& context, const EvalRun& run, std::size_t n_rows) {
  const LabelStatistics& statistics = run.statistics;
  const auto [low, high] = wilson_interval(statistics.n_correct(), statistics.n_rows());
  const double rows_per_second = static_cast<double>(n_rows) / run.seconds;
  if (context.json) {
    JsonWriter writer;
    writer.begin_object()
        .field("run", run.name)
        .field("rows", statistics.n_rows())
        .field("rejected", run.n_rejected)
        .field("correct", statistics.n_correct())
        .field("accuracy", statistics.accuracy());
    writer.key("interval_95").begin_array().value(low).value(high).end_array();
    writer.field("macro_f1", statistics.macro_f1()).field("rows_per_second", rows_per_second);
    writer.key("labels").begin_array();
    for (const std::string& label : run.labels) writer.value(label);
    writer.end_array().key("confusion").begin_array();
    for (const auto& row : statistics.counts()) {
      writer.begin_array();
      for (const std::int64_t count : row) writer.value(count);
      writer.end_array();
    }
    writer.end_array().end_object();
    context.out->line(writer.text());
    return;
  }
  context.out->line(context.lang.tr(
      "{}: accuracy {:.2f}% (95%: {:.2f}% to {:.2f}%), {} of {} rows, macro-F1 {:.4f}, "
      "{:.1f} rows/s",
      "{}：准确率 {:.2f}%（95% 区间 {:.2f}% 至 {:.2f}%），{} / {} 行，宏平均 F1 {:.4f}，{:.1f} "
      "行/秒",
      run.name, 100 * statistics.accuracy(), 100 * low, 100 * high, statistics.n_correct(),
      statistics.n_rows(), statistics.macro_f1(), rows_per_second));
  std::string head = context.lang.pick("wanted \\ found", "标注 \\ 判断");
  for (const std::string& label : run.labels) head += "\t" + label;
  context.out->line(head + context.lang.pick("\tnone", "\t无"));
  for (std::size_t i = 0; i < run.labels.size(); ++i) {
    std::string text = run.labels[i];
    for (const std::int64_t count : statistics.counts()[i]) text += "\t" + std::to_string(count);
    context.out->line(text);
  }
}

/// `task` is the first run's: labels of another task are compared by what they mean in it.
void report_differences(const Context& context, const tasks::Task& task, const EvalRun& a,
                        const EvalRun& b, const std::vector<LabelledRow>& rows) {
  std::int64_t n_different = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t in_task = label_index(task, b.found[i]);
    const bool known = in_task < task.labels.size();
    if (a.found[i] == (known ? task.labels[in_task].name : b.found[i])) continue;
    ++n_different;
    if (context.json) {
      JsonWriter writer;
      writer.begin_object()
          .field("line", rows[i].line)
          .field("text", rows[i].text)
          .field("label", rows[i].label)
          .field("first", a.found[i])
          .field("second", b.found[i])
          .end_object();
      context.out->line(writer.text());
    } else {
      context.out->line(fmt::format("{}\t{}\t{} | {}\t{}", rows[i].line, rows[i].label, a.found[i],
                                    b.found[i], rows[i].text));
    }
  }
  if (context.json) {
    JsonWriter writer;
    writer.begin_object()
        .field("different", n_different)
        .field("rows", rows.size())
        .field("first", a.name)
        .field("second", b.name)
        .end_object();
    context.out->line(writer.text());
  } else {
    context.out->line(context.lang.tr("{} of {} rows differ between {} and {}",
                                      "{} / {} 行不同：{} 与 {}", n_different, rows.size(), a.name,
                                      b.name));
  }
}

void check_compare(const Context& context, const EvalFlags& flags) {
  std::istringstream modes(flags.compare);
  for (std::string mode; std::getline(modes, mode, ',');) {
    if (mode == "exact") continue;
    const bool planned = mode == "int8" || mode == "int4";
    fail(ExitStatus::kUsage,
         planned
             ? context.lang.tr("--compare {}: {} weights are not available yet; compare tasks "
                               "with --compare-task or models with --compare-model",
                               "--compare {}：{} 权重尚未提供；可用 --compare-task 比较任务，或用 "
                               "--compare-model 比较模型",
                               flags.compare, mode)
             : context.lang.tr("--compare {}: there is no weight mode {}",
                               "--compare {}：没有权重模式 {}", flags.compare, mode));
  }
}

ExitStatus run_eval(const Context& context, const EvalFlags& flags) {
  check_compare(context, flags);
  const tasks::Task task = choose_task(context, flags.task);
  std::optional<tasks::Task> second_task;
  if (!flags.compare_task.empty()) {
    second_task = choose_task(context, TaskOptions{flags.compare_task, "", ""});
  }
  const std::vector<LabelledRow> rows = read_rows(context, flags);
  const EvalRun first = evaluate(context, task, context.settings.model(), rows);
  report(context, first, rows.size());
  if (second_task || !flags.compare_model.empty()) {
    const EvalRun second = evaluate(
        context, second_task.value_or(task),
        flags.compare_model.empty() ? context.settings.model() : flags.compare_model, rows);
    report(context, second, rows.size());
    report_differences(context, task, first, second, rows);
  }
  return ExitStatus::kDone;
}

}  // namespace

void add_eval(CommandLine& line, Context& context) {
  CommandSpec& spec =
      line.command("eval", "accuracy of a task on a labelled file", "在标注文件上测量任务的准确率");
  const auto flags = std::make_shared<EvalFlags>();
  spec.positional("FILE", flags->file, true, "CSV, TSV or JSON Lines with texts and labels",
                  "带文本和标签的 CSV、TSV 或 JSON Lines");
  spec.option("--column", flags->column, "NAME", "column of the texts", "文本所在的列");
  spec.option("--label-column", flags->label_column, "NAME", "column of the labels",
              "标签所在的列");
  spec.integer("--limit", flags->limit, 0, 1 << 30, "the first N rows only; 0: all",
               "只取前 N 行；0：全部");
  describe_task_options(spec, flags->task);
  spec.option("--compare", flags->compare, "A,B", "weight modes to compare (only exact yet)",
              "要比较的权重模式（目前只有 exact）");
  spec.option("--compare-task", flags->compare_task, "NAME|FILE",
              "show the rows that another task labels differently", "列出另一任务判断不同的行");
  spec.option("--compare-model", flags->compare_model, "M",
              "show the rows that another model labels differently", "列出另一模型判断不同的行");
  spec.run([&context, flags] { return run_eval(context, *flags); });
}

}  // namespace munia::cli
