#include "cli/fit_report.h"

#include <fmt/format.h>

#include "base/json_writer.h"
#include "tasks/task_file.h"

namespace munia::cli {
namespace {

tasks::Evaluation evaluation_of(const std::vector<tasks::JudgedRow>& judged) {
  std::size_t n_labels = 0;
  for (const tasks::JudgedRow& row : judged) {
    n_labels = std::max({n_labels, row.wanted + 1, row.found + 1});
  }
  tasks::Evaluation evaluation(n_labels);
  for (const tasks::JudgedRow& row : judged) evaluation.add(row);
  return evaluation;
}

std::string interval_text(tasks::Interval interval, const char* format) {
  return fmt::format(fmt::runtime(format), 100 * interval.low, 100 * interval.high);
}

std::string trial_json(const FitTrial& trial) {
  JsonWriter writer;
  writer.begin_object().field("recipe", trial.recipe).field("learned_from", trial.n_learned);
  if (!trial.problem.empty()) {
    return writer.field("error", trial.problem).end_object().text();
  }
  const tasks::Evaluation evaluation = evaluation_of(trial.judged);
  const tasks::PairedComparison paired = tasks::compare(trial.zero_shot, trial.judged);
  const tasks::Interval accuracy = evaluation.accuracy_interval();
  const tasks::Interval gain = paired.interval();
  writer.field("rows", evaluation.n_rows()).field("accuracy", evaluation.accuracy());
  writer.key("interval_95").begin_array().value(accuracy.low).value(accuracy.high).end_array();
  writer.field("macro_f1", evaluation.macro_f1())
      .field("calibration_error", evaluation.calibration_error())
      .field("only_zero_shot_right", paired.only_first_right)
      .field("only_learned_right", paired.only_second_right)
      .field("gain", paired.difference());
  writer.key("gain_interval_95").begin_array().value(gain.low).value(gain.high).end_array();
  return writer.end_object().text();
}

std::string trial_line(const FitTrial& trial) {
  if (!trial.problem.empty()) {
    return fmt::format("{:>6}  {:<10} {}", trial.n_learned, trial.recipe, trial.problem);
  }
  const tasks::Evaluation evaluation = evaluation_of(trial.judged);
  const tasks::PairedComparison paired = tasks::compare(trial.zero_shot, trial.judged);
  const bool is_learned = trial.recipe != "zero-shot";
  const std::string gain = is_learned ? fmt::format("{:+.2f}", 100 * paired.difference()) : "";
  const std::string gain_interval =
      is_learned ? interval_text(paired.interval(), "[{:+.2f}, {:+.2f}]") : "";
  return fmt::format("{:>6}  {:<10} {:>6.2f}%  {:<15} {:>6}  {:<16} {:.3f}  {:>6}", trial.n_learned,
                     trial.recipe, 100 * evaluation.accuracy(),
                     interval_text(evaluation.accuracy_interval(), "[{:.2f}, {:.2f}]"), gain,
                     gain_interval, evaluation.calibration_error(), evaluation.n_rows());
}

}  // namespace

void print_trials_head(const Context& context) {
  if (context.json) return;
  context.out->line(context.lang.pick(
      "  rows  recipe     accuracy 95%               gain  95%              calib. judged",
      "  行数  方法       准确率   95% 区间          提升  95% 区间         校准差 评测行"));
}

void print_trial(const Context& context, const FitTrial& trial) {
  context.out->line(context.json ? trial_json(trial) : trial_line(trial));
}

std::string fit_record(const FitRecord& record) {
  std::string out = "file = " + tasks::toml_string(record.file) +
                    "\nmodel = " + tasks::toml_string(record.model) +
                    "\nrecipe = " + tasks::toml_string(record.recipe) +
                    "\nrows = " + std::to_string(record.n_learned) +
                    "\njudged_on = " + tasks::toml_string(record.judged_on) +
                    "\n# learned from rows, recipe, accuracy and 95% interval, gain over zero-shot "
                    "and 95% interval, calibration error, rows judged\ntrials = [\n";
  for (const FitTrial& trial : record.trials) {
    out += "  " + tasks::toml_string(trial_line(trial)) + ",\n";
  }
  return out + "]\n";
}

}  // namespace munia::cli
