// munia eval: how often a task's labels agree with a labelled file; with a second task or model,
// which rows the two label differently. What it prints: eval_report.h.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "base/clock.h"
#include "base/system_info.h"
#include "cli/commands.h"
#include "cli/eval_report.h"
#include "cli/labelled_rows.h"
#include "cli/session.h"
#include "cli/task_options.h"
#include "tasks/bulk.h"

namespace munia::cli {
namespace {

struct EvalFlags {
  LabelledFile file;
  TaskOptions task;
  std::string compare;        // weight modes
  std::string compare_task;   // another task on the same rows
  std::string compare_model;  // another model on the same rows
  std::string report;         // an HTML file; empty: none
};

EvalRun evaluate(const Context& context, const tasks::Task& task, const std::string& model,
                 const std::vector<LabelledRow>& rows) {
  EvalRun run;
  run.name = task.name + "@" + model;
  for (const tasks::Label& label : task.labels) run.labels.push_back(label.name);
  run.evaluation = tasks::Evaluation(task.labels.size());
  for (const LabelledRow& row : rows) {
    run.judged.push_back({label_index_or_fail(context, task, row), task.labels.size()});
  }
  // Of this run alone, where the system can tell.
  const bool knows_peak = reset_peak_memory();
  Session session =
      open_session(context, model, {.greedy = task.method == tasks::Method::kGenerate});
  const tasks::Classifier classifier = make_classifier(*session.engine, task);
  const Clock::time_point begin = Clock::now();
  tasks::BulkClassifier bulk(classifier, {.priority = engine::Priority::kInteractive});
  std::size_t n_added = 0;
  while (run.found.size() < rows.size()) {
    while (n_added < rows.size() && bulk.has_room()) bulk.add(rows[n_added++].text);
    const std::size_t i = run.found.size();
    const auto result = bulk.take();
    run.is_rejected.push_back(!result);
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
    const tasks::Classification& found = result->classification;
    run.found.push_back(found.label.value_or(""));
    const auto name = std::find(run.labels.begin(), run.labels.end(), run.found.back());
    run.judged[i].found = static_cast<std::size_t>(name - run.labels.begin());
    if (!found.probabilities.empty()) run.judged[i].confidence = found.confidence;
    run.evaluation.add(run.judged[i]);
    if (i % 16 == 0) {
      show_progress(fmt::format("{} / {}  {:.1f}/s", i + 1, rows.size(),
                                static_cast<double>(i + 1) / seconds_since(begin)));
    }
  }
  show_progress("");
  run.seconds = seconds_since(begin);
  if (knows_peak) run.peak_memory_bytes = peak_memory_bytes().value_or(0);
  return run;
}

/// `task` is the first run's: labels of another task are compared by what they mean in it.
EvalComparison compare_runs(const tasks::Task& task, const EvalRun& first, const EvalRun& second) {
  EvalComparison comparison;
  std::vector<tasks::JudgedRow> first_judged;
  std::vector<tasks::JudgedRow> second_judged;
  for (std::size_t i = 0; i < first.found.size(); ++i) {
    const std::size_t in_task = label_index(task, second.found[i]);
    const bool known = in_task < task.labels.size();
    if (first.found[i] != (known ? task.labels[in_task].name : second.found[i])) {
      comparison.different.push_back(i);
    }
    if (first.is_rejected[i] || second.is_rejected[i]) continue;
    first_judged.push_back(first.judged[i]);
    second_judged.push_back(second.judged[i]);
  }
  comparison.paired = tasks::compare(first_judged, second_judged);
  return comparison;
}

/// Before hours of work rather than after them.
void check_report_dir(const Context& context, const std::string& path) {
  const auto dir = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (path.empty() || dir.empty() || std::filesystem::is_directory(dir, error)) return;
  fail(ExitStatus::kFailed, context.lang.tr("cannot write the report {}: there is no directory {}",
                                            "无法写入报告 {}：没有目录 {}", path, dir.string()));
}

void write_report(const Context& context, const std::string& path, const std::string& page) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << page;
  out.close();
  if (!out) {
    fail(ExitStatus::kFailed,
         context.lang.tr("cannot write the report {}", "无法写入报告 {}", path));
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
  check_report_dir(context, flags.report);
  const tasks::Task task = choose_task(context, flags.task);
  std::optional<tasks::Task> second_task;
  if (!flags.compare_task.empty()) {
    second_task = choose_task(context, TaskOptions{flags.compare_task, "", ""});
  }
  const std::vector<LabelledRow> rows = read_labelled_rows(context, flags.file);
  std::vector<EvalRun> runs;
  runs.push_back(evaluate(context, task, context.settings.model(), rows));
  print_run(context, runs[0]);
  std::optional<EvalComparison> comparison;
  if (second_task || !flags.compare_model.empty()) {
    runs.push_back(evaluate(
        context, second_task.value_or(task),
        flags.compare_model.empty() ? context.settings.model() : flags.compare_model, rows));
    print_run(context, runs[1]);
    comparison = compare_runs(task, runs[0], runs[1]);
    print_comparison(context, runs[0], runs[1], *comparison, rows);
  }
  if (!flags.report.empty()) {
    write_report(
        context, flags.report,
        eval_page(context, flags.file.path, runs, comparison ? &*comparison : nullptr, rows));
  }
  return ExitStatus::kDone;
}

}  // namespace

void add_eval(CommandLine& line, Context& context) {
  CommandSpec& spec =
      line.command("eval", "accuracy of a task on a labelled file", "在标注文件上测量任务的准确率");
  const auto flags = std::make_shared<EvalFlags>();
  describe_labelled_file(spec, flags->file);
  describe_task_options(spec, flags->task);
  spec.option("--compare", flags->compare, "A,B", "weight modes to compare (only exact yet)",
              "要比较的权重模式（目前只有 exact）");
  spec.option("--compare-task", flags->compare_task, "NAME|FILE",
              "show the rows that another task labels differently", "列出另一任务判断不同的行");
  spec.option("--compare-model", flags->compare_model, "M",
              "show the rows that another model labels differently", "列出另一模型判断不同的行");
  spec.option("--report", flags->report, "FILE.html", "tables and plots as a page of their own",
              "把表格和图表写成独立的网页");
  spec.run([&context, flags] { return run_eval(context, *flags); });
}

}  // namespace munia::cli
