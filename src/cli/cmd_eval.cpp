// munia eval: how often a task's labels agree with a labelled file; with a second task, model or
// form of the weights, which rows are labelled differently. What it prints: eval_report.h.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "base/clock.h"
#include "base/mapped_file.h"
#include "base/system_info.h"
#include "base/utf8.h"
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
  std::string compare;        // forms of the weights
  std::string compare_task;   // another task on the same rows
  std::string compare_model;  // another model on the same rows
  std::string perplexity;     // a text file; empty: none
  std::string report;         // an HTML file; empty: none
};

/// What one run is made with.
struct Setup {
  const tasks::Task& task;
  std::string model;
  std::optional<model::WeightMode> weights;  // none: as --weights says
  const std::optional<std::string>& text;    // for the perplexity
};

constexpr std::size_t kPerplexityWindow = 512;  // tokens that see each other

/// exp of the mean negative log-probability of the text's tokens, in windows that know nothing of
/// each other; the first token of each is not counted.
double perplexity_of(const Context& context, const Session& session, const std::string& text) {
  const auto ids = value_or_fail(session.bundle->tokenizer->encode(text), "--perplexity");
  double sum = 0;
  std::int64_t n = 0;
  for (std::size_t begin = 0; begin + 1 < ids.size(); begin += kPerplexityWindow) {
    engine::GenerateJob job;
    const std::size_t end = std::min(begin + kPerplexityWindow, ids.size());
    job.prompt.assign(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                      ids.begin() + static_cast<std::ptrdiff_t>(end));
    job.max_tokens = 0;
    job.prompt_logprobs = 0;
    job.keep = false;
    const auto ticket = value_or_fail(session.engine->submit(std::move(job)), "--perplexity");
    const auto result =
        std::get<engine::GenerateResult>(value_or_fail(ticket->wait(), "--perplexity"));
    for (const decode::TokenLogprob& token : result.prompt_logprobs) {
      sum += token.logprob;
      ++n;
    }
  }
  if (n == 0) {
    fail(ExitStatus::kBadInput,
         context.lang.pick("--perplexity: the text needs at least two tokens",
                           "--perplexity：文本至少需要两个词元"));
  }
  return std::exp(-sum / static_cast<double>(n));
}

EvalRun evaluate(const Context& context, const Setup& setup, const std::vector<LabelledRow>& rows) {
  const tasks::Task& task = setup.task;
  EvalRun run;
  run.name = task.name + "@" + setup.model;
  if (setup.weights) run.name += " " + std::string(weight_mode_name(*setup.weights));
  for (const tasks::Label& label : task.labels) run.labels.push_back(label.name);
  run.evaluation = tasks::Evaluation(task.labels.size());
  for (const LabelledRow& row : rows) {
    run.judged.push_back({label_index_or_fail(context, task, row), task.labels.size()});
  }
  // Of this run alone, where the system can tell.
  const bool knows_peak = reset_peak_memory();
  Session session =
      open_session(context, setup.model,
                   {.greedy = task.method == tasks::Method::kGenerate, .weights = setup.weights});
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
      run.probabilities.emplace_back();
      continue;
    }
    const tasks::Classification& found = result->classification;
    run.found.push_back(found.label.value_or(""));
    const auto label = std::find(run.labels.begin(), run.labels.end(), run.found.back());
    run.judged[i].found = static_cast<std::size_t>(label - run.labels.begin());
    if (!found.probabilities.empty()) run.judged[i].confidence = found.confidence;
    run.probabilities.emplace_back();
    for (const auto& [name, p] : found.probabilities) run.probabilities.back().push_back(p);
    run.evaluation.add(run.judged[i]);
    if (i % 16 == 0) {
      show_progress(fmt::format("{} / {}  {:.1f}/s", i + 1, rows.size(),
                                static_cast<double>(i + 1) / seconds_since(begin)));
    }
  }
  show_progress("");
  run.seconds = seconds_since(begin);
  if (setup.text) run.perplexity = perplexity_of(context, session, *setup.text);
  if (knows_peak) run.peak_memory_bytes = peak_memory_bytes().value_or(0);
  return run;
}

/// Mean KL(first || second) over the rows that both have probabilities of.
std::optional<double> divergence(const EvalRun& first, const EvalRun& second) {
  if (first.labels != second.labels) return std::nullopt;
  double sum = 0;
  std::int64_t n = 0;
  for (std::size_t i = 0; i < first.probabilities.size(); ++i) {
    const std::vector<double>& p = first.probabilities[i];
    const std::vector<double>& q = second.probabilities[i];
    if (p.empty() || p.size() != q.size()) continue;
    for (std::size_t label = 0; label < p.size(); ++label) {
      constexpr double kTiny = 1e-12;
      if (p[label] > 0) sum += p[label] * std::log(p[label] / std::max(q[label], kTiny));
    }
    ++n;
  }
  return n > 0 ? std::optional(sum / static_cast<double>(n)) : std::nullopt;
}

/// `task` is the first run's: labels of another task are compared by what they mean in it.
EvalComparison compare_runs(const tasks::Task& task, const std::vector<EvalRun>& runs,
                            std::size_t later) {
  const EvalRun& first = runs[0];
  const EvalRun& second = runs[later];
  EvalComparison comparison;
  comparison.second = later;
  comparison.divergence = divergence(first, second);
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

/// The forms of --compare, in its order.
std::vector<model::WeightMode> compared_modes(const Context& context, const EvalFlags& flags) {
  std::vector<model::WeightMode> modes;
  std::istringstream names(flags.compare);
  for (std::string name; std::getline(names, name, ',');) {
    const auto mode = model::weight_mode_named(name);
    if (!mode) {
      fail(ExitStatus::kUsage,
           context.lang.tr("--compare {}: \"{}\" is none of exact, int8 and int4",
                           "--compare {}：“{}” 不是 exact、int8 或 int4", flags.compare, name));
    }
    modes.push_back(*mode);
  }
  if (!modes.empty() && !(flags.compare_task.empty() && flags.compare_model.empty())) {
    fail(ExitStatus::kUsage,
         context.lang.pick("--compare goes alone, without --compare-task and --compare-model",
                           "--compare 不能与 --compare-task 或 --compare-model 同时使用"));
  }
  return modes;
}

std::optional<std::string> perplexity_text(const Context& context, const EvalFlags& flags) {
  if (flags.perplexity.empty()) return std::nullopt;
  constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  Result<std::string> text = read_file(flags.perplexity, kMostBytes);
  if (!text) fail(ExitStatus::kBadInput, "--perplexity: " + text.error().message);
  if (find_invalid_utf8(*text)) {
    fail(ExitStatus::kBadInput,
         context.lang.tr("--perplexity {}: the text is not UTF-8",
                         "--perplexity {}：文本不是 UTF-8", flags.perplexity));
  }
  return *std::move(text);
}

ExitStatus run_eval(const Context& context, const EvalFlags& flags) {
  const std::vector<model::WeightMode> modes = compared_modes(context, flags);
  const std::optional<std::string> text = perplexity_text(context, flags);
  check_report_dir(context, flags.report);
  const tasks::Task task = choose_task(context, flags.task);
  std::optional<tasks::Task> second_task;
  if (!flags.compare_task.empty()) {
    second_task = choose_task(context, TaskOptions{flags.compare_task, "", ""});
  }
  const std::vector<LabelledRow> rows = read_labelled_rows(context, flags.file);
  const std::string& model = context.settings.model();
  std::vector<Setup> setups;
  for (const model::WeightMode mode : modes) setups.push_back({task, model, mode, text});
  if (setups.empty()) setups.push_back({task, model, std::nullopt, text});
  if (second_task || !flags.compare_model.empty()) {
    setups.push_back({second_task ? *second_task : task,
                      flags.compare_model.empty() ? model : flags.compare_model, std::nullopt,
                      text});
  }
  std::vector<EvalRun> runs;
  std::vector<EvalComparison> comparisons;
  for (const Setup& setup : setups) {
    runs.push_back(evaluate(context, setup, rows));
    print_run(context, runs.back());
    if (runs.size() == 1) continue;
    comparisons.push_back(compare_runs(task, runs, runs.size() - 1));
    print_comparison(context, runs[0], runs.back(), comparisons.back(), rows);
  }
  if (!flags.report.empty()) {
    write_report(context, flags.report,
                 eval_page(context, flags.file.path, runs, comparisons, rows));
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
  spec.option("--compare", flags->compare, "A,B", "forms of the weights: exact,int8,int4",
              "要比较的权重形式：exact,int8,int4");
  spec.option("--perplexity", flags->perplexity, "FILE", "a text whose perplexity is measured too",
              "同时测量此文本的困惑度");
  spec.option("--compare-task", flags->compare_task, "NAME|FILE",
              "show the rows that another task labels differently", "列出另一任务判断不同的行");
  spec.option("--compare-model", flags->compare_model, "M",
              "show the rows that another model labels differently", "列出另一模型判断不同的行");
  spec.option("--report", flags->report, "FILE.html", "tables and plots as a page of their own",
              "把表格和图表写成独立的网页");
  spec.run([&context, flags] { return run_eval(context, *flags); });
}

}  // namespace munia::cli
