#include "cli/eval_report.h"

#include <algorithm>

#include "base/json_writer.h"
#include "cli/session.h"
#include "report/html_page.h"

namespace munia::cli {
namespace {

constexpr std::size_t kMostRowsShown = 100;  // of each kind on the page

std::string percent(double part) { return fmt::format("{:.2f}%", 100 * part); }
std::string interval_text(tasks::Interval interval) {
  return fmt::format("{:.2f}–{:.2f}%", 100 * interval.low, 100 * interval.high);
}
double rows_per_second(const EvalRun& run) {
  return run.seconds > 0 ? static_cast<double>(run.judged.size()) / run.seconds : 0;
}

void write_interval(JsonWriter& writer, const char* key, tasks::Interval interval) {
  writer.key(key).begin_array().value(interval.low).value(interval.high).end_array();
}

std::string run_json(const EvalRun& run) {
  const tasks::Evaluation& evaluation = run.evaluation;
  JsonWriter writer;
  writer.begin_object()
      .field("run", run.name)
      .field("rows", evaluation.n_rows())
      .field("rejected", run.n_rejected)
      .field("correct", evaluation.n_correct())
      .field("accuracy", evaluation.accuracy());
  write_interval(writer, "interval_95", evaluation.accuracy_interval());
  writer.field("macro_f1", evaluation.macro_f1());
  write_interval(writer, "macro_f1_interval_95", evaluation.macro_f1_interval());
  writer.key("calibration_error");
  if (evaluation.has_confidence()) {
    writer.value(evaluation.calibration_error());
  } else {
    writer.null();
  }
  writer.field("rows_per_second", rows_per_second(run));
  writer.key("peak_memory_bytes");
  if (run.peak_memory_bytes > 0) {
    writer.value(run.peak_memory_bytes);
  } else {
    writer.null();
  }
  if (run.perplexity > 0) writer.field("perplexity", run.perplexity);
  writer.key("labels").begin_array();
  for (const std::string& label : run.labels) writer.value(label);
  writer.end_array().key("confusion").begin_array();
  for (const auto& row : evaluation.counts()) {
    writer.begin_array();
    for (const std::int64_t count : row) writer.value(count);
    writer.end_array();
  }
  writer.end_array().key("per_label").begin_array();
  for (std::size_t i = 0; i < run.labels.size(); ++i) {
    const tasks::LabelFigures figures = evaluation.label(i);
    writer.begin_object()
        .field("label", run.labels[i])
        .field("rows", figures.n_wanted)
        .field("precision", figures.precision())
        .field("recall", figures.recall())
        .field("f1", figures.f1())
        .end_object();
  }
  writer.end_array().key("reliability").begin_array();
  for (const tasks::ReliabilityBin& bin : evaluation.reliability()) {
    writer.begin_object()
        .field("rows", bin.n_rows)
        .field("confidence", bin.confidence)
        .field("accuracy", bin.accuracy)
        .end_object();
  }
  writer.end_array().end_object();
  return writer.text();
}

report::Table summary_table(const Lang& lang, const std::vector<EvalRun>& runs) {
  report::Table table;
  table.columns = {lang.pick("run", "运行"),         lang.pick("rows", "行数"),
                   lang.pick("rejected", "被拒"),    lang.pick("accuracy", "准确率"),
                   lang.pick("95%", "95% 区间"),     lang.pick("macro-F1", "宏平均 F1"),
                   lang.pick("95%", "95% 区间"),     lang.pick("calibration error", "校准误差"),
                   lang.pick("rows/s", "行/秒"),     lang.pick("peak memory", "峰值内存"),
                   lang.pick("perplexity", "困惑度")};
  for (const EvalRun& run : runs) {
    const tasks::Evaluation& e = run.evaluation;
    table.rows.push_back({run.name, std::to_string(e.n_rows()), std::to_string(run.n_rejected),
                          percent(e.accuracy()), interval_text(e.accuracy_interval()),
                          percent(e.macro_f1()), interval_text(e.macro_f1_interval()),
                          e.has_confidence() ? fmt::format("{:.4f}", e.calibration_error()) : "–",
                          fmt::format("{:.1f}", rows_per_second(run)),
                          run.peak_memory_bytes > 0 ? show_bytes(run.peak_memory_bytes) : "–",
                          run.perplexity > 0 ? fmt::format("{:.3f}", run.perplexity) : "–"});
  }
  return table;
}

report::Table label_table(const Lang& lang, const EvalRun& run) {
  report::Table table;
  table.columns = {lang.pick("label", "标签"),    lang.pick("rows", "行数"),
                   lang.pick("found", "预测"),    lang.pick("precision", "精确率"),
                   lang.pick("recall", "召回率"), "F1"};
  for (std::size_t i = 0; i < run.labels.size(); ++i) {
    const tasks::LabelFigures figures = run.evaluation.label(i);
    table.rows.push_back({run.labels[i], std::to_string(figures.n_wanted),
                          std::to_string(figures.n_found), percent(figures.precision()),
                          percent(figures.recall()), percent(figures.f1())});
  }
  return table;
}

report::CountMatrix confusion(const Lang& lang, const EvalRun& run) {
  report::CountMatrix matrix;
  matrix.caption = lang.pick("Confusion matrix: rows and share of the wanted label",
                             "混淆矩阵：行数及占标注标签的比例");
  matrix.corner = lang.pick("wanted \\ found", "标注 \\ 预测");
  matrix.rows = run.labels;
  matrix.columns = run.labels;
  matrix.columns.push_back(lang.pick("none", "无"));
  matrix.counts = run.evaluation.counts();
  return matrix;
}

std::vector<report::Panel> plots(const Lang& lang, const EvalRun& run) {
  std::vector<report::Panel> panels;
  report::BarPlot bars;
  bars.title = lang.pick("F1 by label, %", "各标签的 F1，%");
  for (std::size_t i = 0; i < run.labels.size(); ++i) {
    bars.bars.push_back({run.labels[i], 100 * run.evaluation.label(i).f1()});
  }
  panels.emplace_back(std::move(bars));
  if (run.evaluation.has_confidence()) {
    report::LinePlot lines;
    lines.title = lang.pick("Reliability: how often a confidence is right",
                            "可靠性：给定置信度时判断正确的比例");
    lines.x_label = lang.pick("confidence, %", "置信度，%");
    lines.y_label = lang.pick("right, %", "正确，%");
    report::Series measured{lang.pick("measured", "实测"), {}, false};
    for (const tasks::ReliabilityBin& bin : run.evaluation.reliability()) {
      const auto n_right =
          static_cast<std::int64_t>(bin.accuracy * static_cast<double>(bin.n_rows) + 0.5);
      const tasks::Interval interval = tasks::wilson_interval(n_right, bin.n_rows);
      measured.points.push_back(
          {100 * bin.confidence, 100 * bin.accuracy, 100 * interval.low, 100 * interval.high});
    }
    lines.series.push_back(std::move(measured));
    lines.series.push_back({lang.pick("perfect", "理想"), {{0, 0, 0, 0}, {100, 100, 0, 0}}, true});
    panels.emplace_back(std::move(lines));
  }
  return panels;
}

/// The rows of which the run was surest and wrong.
report::Table wrong_rows(const Lang& lang, const EvalRun& run,
                         const std::vector<LabelledRow>& rows) {
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!run.is_rejected[i] && !run.judged[i].is_right()) wrong.push_back(i);
  }
  std::stable_sort(wrong.begin(), wrong.end(), [&](std::size_t a, std::size_t b) {
    return run.judged[a].confidence > run.judged[b].confidence;
  });
  report::Table table;
  table.caption =
      lang.tr("Wrong rows, the surest first ({} of {})", "判断错误的行，置信度高的在前（{} / {}）",
              std::min(kMostRowsShown, wrong.size()), wrong.size());
  table.columns = {lang.pick("line", "行号"), lang.pick("wanted", "标注"),
                   lang.pick("found", "预测"), lang.pick("confidence", "置信度"),
                   lang.pick("text", "文本")};
  table.is_number = {true, false, false, true, false};
  for (std::size_t n = 0; n < std::min(kMostRowsShown, wrong.size()); ++n) {
    const std::size_t i = wrong[n];
    const double confidence = run.judged[i].confidence;
    table.rows.push_back({std::to_string(rows[i].line), rows[i].label, run.found[i],
                          confidence < 0 ? "–" : fmt::format("{:.4f}", confidence), rows[i].text});
  }
  return table;
}

report::Table different_rows(const Lang& lang, const EvalRun& first, const EvalRun& second,
                             const EvalComparison& comparison,
                             const std::vector<LabelledRow>& rows) {
  report::Table table;
  const std::size_t n_shown = std::min(kMostRowsShown, comparison.different.size());
  table.caption = lang.tr("Rows that differ ({} of {})", "判断不同的行（{} / {}）", n_shown,
                          comparison.different.size());
  table.columns = {lang.pick("line", "行号"), lang.pick("wanted", "标注"), first.name, second.name,
                   lang.pick("text", "文本")};
  table.is_number = {true, false, false, false, false};
  for (std::size_t n = 0; n < n_shown; ++n) {
    const std::size_t i = comparison.different[n];
    table.rows.push_back({std::to_string(rows[i].line), rows[i].label, first.found[i],
                          second.found[i], rows[i].text});
  }
  return table;
}

double agreement(const EvalComparison& comparison, std::size_t n_rows) {
  if (n_rows == 0) return 1;
  return 1 - static_cast<double>(comparison.different.size()) / static_cast<double>(n_rows);
}

std::string comparison_sentence(const Lang& lang, const EvalRun& first, const EvalRun& second,
                                const EvalComparison& comparison, std::size_t n_rows) {
  const tasks::Interval interval = comparison.paired.interval();
  std::string text = lang.tr(
      "{} of {} rows differ between {} and {}; accuracy {:+.2f} points (95%: {:+.2f} to {:+.2f}): "
      "right only in the first {}, only in the second {}",
      "{} / {} 行不同：{} 与 {}；准确率相差 {:+.2f} 个百分点（95% 区间 {:+.2f} 至 "
      "{:+.2f}）：仅前者正确 "
      "{} 行，仅后者正确 {} 行",
      comparison.different.size(), n_rows, first.name, second.name,
      100 * comparison.paired.difference(), 100 * interval.low, 100 * interval.high,
      comparison.paired.only_first_right, comparison.paired.only_second_right);
  if (comparison.divergence) {
    text += lang.tr("; divergence of the probabilities {:.5f} nats", "；概率的 KL 散度 {:.5f} 奈特",
                    *comparison.divergence);
  }
  return text;
}

}  // namespace

void print_run(const Context& context, const EvalRun& run) {
  if (context.json) {
    context.out->line(run_json(run));
    return;
  }
  const Lang& lang = context.lang;
  const tasks::Evaluation& evaluation = run.evaluation;
  const tasks::Interval interval = evaluation.accuracy_interval();
  std::string text = lang.tr(
      "{}: accuracy {:.2f}% (95%: {:.2f}% to {:.2f}%), {} of {} rows, macro-F1 {:.4f}, "
      "{:.1f} rows/s",
      "{}：准确率 {:.2f}%（95% 区间 {:.2f}% 至 {:.2f}%），{} / {} 行，宏平均 F1 {:.4f}，{:.1f} "
      "行/秒",
      run.name, 100 * evaluation.accuracy(), 100 * interval.low, 100 * interval.high,
      evaluation.n_correct(), evaluation.n_rows(), evaluation.macro_f1(), rows_per_second(run));
  if (evaluation.has_confidence()) {
    text +=
        lang.tr(", calibration error {:.4f}", "，校准误差 {:.4f}", evaluation.calibration_error());
  }
  if (run.peak_memory_bytes > 0) {
    text += lang.tr(", peak memory {}", "，峰值内存 {}", show_bytes(run.peak_memory_bytes));
  }
  if (run.perplexity > 0) {
    text += lang.tr(", perplexity {:.3f}", "，困惑度 {:.3f}", run.perplexity);
  }
  context.out->line(text);
  std::string head = lang.pick("wanted \\ found", "标注 \\ 预测");
  for (const std::string& label : run.labels) head += "\t" + label;
  head += lang.pick("\tnone\tprecision\trecall\tF1", "\t无\t精确率\t召回率\tF1");
  context.out->line(head);
  for (std::size_t i = 0; i < run.labels.size(); ++i) {
    std::string row = run.labels[i];
    for (const std::int64_t count : evaluation.counts()[i]) row += "\t" + std::to_string(count);
    const tasks::LabelFigures figures = evaluation.label(i);
    row += fmt::format("\t{:.4f}\t{:.4f}\t{:.4f}", figures.precision(), figures.recall(),
                       figures.f1());
    context.out->line(row);
  }
}

void print_comparison(const Context& context, const EvalRun& first, const EvalRun& second,
                      const EvalComparison& comparison, const std::vector<LabelledRow>& rows) {
  for (const std::size_t i : comparison.different) {
    if (!context.json) {
      context.out->line(fmt::format("{}\t{}\t{} | {}\t{}", rows[i].line, rows[i].label,
                                    first.found[i], second.found[i], rows[i].text));
      continue;
    }
    JsonWriter writer;
    writer.begin_object()
        .field("line", rows[i].line)
        .field("text", rows[i].text)
        .field("label", rows[i].label)
        .field("first", first.found[i])
        .field("second", second.found[i])
        .end_object();
    context.out->line(writer.text());
  }
  if (!context.json) {
    context.out->line(comparison_sentence(context.lang, first, second, comparison, rows.size()));
    return;
  }
  JsonWriter writer;
  writer.begin_object()
      .field("different", comparison.different.size())
      .field("rows", rows.size())
      .field("first", first.name)
      .field("second", second.name)
      .field("agreement", agreement(comparison, rows.size()))
      .field("only_first_right", comparison.paired.only_first_right)
      .field("only_second_right", comparison.paired.only_second_right)
      .field("accuracy_difference", comparison.paired.difference());
  write_interval(writer, "difference_interval_95", comparison.paired.interval());
  writer.key("divergence");
  if (comparison.divergence) {
    writer.value(*comparison.divergence);
  } else {
    writer.null();
  }
  context.out->line(writer.end_object().text());
}

std::string eval_page(const Context& context, const std::string& subject,
                      const std::vector<EvalRun>& runs,
                      const std::vector<EvalComparison>& comparisons,
                      const std::vector<LabelledRow>& rows) {
  const Lang& lang = context.lang;
  report::HtmlPage page(lang.zh() ? "zh-CN" : "en",
                        lang.tr("munia eval: {}", "munia eval：{}", subject));
  page.table(summary_table(lang, runs));
  page.paragraph(
      lang.pick("Intervals: Wilson for accuracy, bootstrap over the rows for macro-F1. Calibration "
                "error: the "
                "mean distance between confidence and accuracy over ten bins.",
                "区间：准确率用 Wilson 法，宏平均 F1 "
                "对行做自助重采样。校准误差：十个置信度区间内置信度与准确率之差的"
                "加权平均。"));
  for (const EvalComparison& comparison : comparisons) {
    const EvalRun& second = runs[comparison.second];
    page.heading(lang.tr("Comparison: {}", "比较：{}", second.name));
    page.paragraph(comparison_sentence(lang, runs[0], second, comparison, rows.size()));
    page.table(different_rows(lang, runs[0], second, comparison, rows));
  }
  for (const EvalRun& run : runs) {
    page.heading(run.name);
    page.table(label_table(lang, run)).matrix(confusion(lang, run));
    page.plots(run.name, plots(lang, run)).table(wrong_rows(lang, run, rows));
  }
  return page.text();
}

}  // namespace munia::cli
