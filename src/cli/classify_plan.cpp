#include "cli/classify_plan.h"

#include <algorithm>
#include <filesystem>
#include <span>

#include "base/json_writer.h"
#include "base/sha256.h"
#include "cli/session.h"
#include "table/converted_source.h"
#include "tasks/task_file.h"

namespace munia::cli {
namespace {

namespace fs = std::filesystem;
using table::Format;

Format format_by_name(const Context& context, const std::string& name) {
  if (name == "txt") return Format::kText;
  if (name == "csv") return Format::kCsv;
  if (name == "tsv") return Format::kTsv;
  if (name == "jsonl") return Format::kJsonLines;
  fail(ExitStatus::kUsage, context.lang.tr("--format {}: it must be txt, csv, tsv or jsonl",
                                           "--format {}：只能是 txt、csv、tsv 或 jsonl", name));
}

tasks::LongTexts long_texts_by_name(const Context& context, const std::string& name) {
  if (name == "error") return tasks::LongTexts::kError;
  if (name == "truncate") return tasks::LongTexts::kTruncate;
  if (name == "window") return tasks::LongTexts::kWindow;
  fail(ExitStatus::kUsage, context.lang.tr("--long {}: it must be error, truncate or window",
                                           "--long {}：只能是 error、truncate 或 window", name));
}

/// A run that writes over what it reads, or one file over another, would lose rows.
void check_paths(const Context& context, const FilePlan& plan) {
  std::error_code error;
  std::vector<fs::path> paths;
  const auto add = [&](const std::string& path) {
    const fs::path whole = fs::weakly_canonical(path, error);
    if (std::find(paths.begin(), paths.end(), whole) != paths.end()) {
      fail(ExitStatus::kUsage,
           context.lang.tr(
               "{} is named twice; input, output (with .partial and .journal behind it) "
               "and rejects must be different files",
               "{} 出现了两次；输入、输出（包括加上 .partial 和 .journal 的文件）和 --rejects "
               "必须是不同的文件",
               path));
    }
    paths.push_back(whole);
  };
  if (plan.input != "-") add(plan.input);
  if (!plan.to_file) return;
  for (const char* ending : {"", ".partial", ".journal"}) add(plan.options.output + ending);
  if (!plan.options.rejects.empty()) add(plan.options.rejects);
}

std::string hash_or_fail(const std::string& path) {
  auto hash = sha256_of_file(path);
  if (!hash) fail(ExitStatus::kCannotLoad, hash.error().message);
  return *std::move(hash);
}

/// A model's file, or the files of its directory.
std::string model_hash(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return hash_or_fail(path);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.is_regular_file(error)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::string all;
  for (const fs::path& file : files) {
    all += file.filename().string() + " " + hash_or_fail(file.string()) + "\n";
  }
  return sha256_hex(std::as_bytes(std::span(all)));
}

/// Of all that decides about labels: what a task file would say, and the head's numbers.
std::string task_hash(const tasks::Task& task) {
  const std::string text = tasks::task_file_text(task, "", "");
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  if (task.head != nullptr) {
    hash.update(std::as_bytes(std::span(task.head->layers)));
    hash.update(std::as_bytes(std::span(task.head->logistic.weights)));
    hash.update(std::as_bytes(std::span(task.head->logistic.bias)));
  }
  return hash.hex_digest();
}

}  // namespace

FilePlan make_file_plan(const Context& context, const std::string& input,
                        const FileOptions& options, const TaskOptions& task) {
  FilePlan plan;
  plan.input = input.empty() ? "-" : input;
  plan.options = options;
  plan.task = choose_task(context, task);
  plan.to_file = !options.output.empty() && options.output != "-";
  if (!options.format.empty()) {
    plan.from = format_by_name(context, options.format);
  } else if (plan.input != "-") {
    const auto format = table::format_of_path(plan.input);
    if (!format) {
      fail(ExitStatus::kUsage,
           format.error().message +
               context.lang.pick("; or name it with --format", "；或用 --format 指定"));
    }
    plan.from = *format;
  }
  if (plan.to_file) {
    const auto format = table::format_of_path(options.output);
    if (!format) fail(ExitStatus::kUsage, "-o: " + format.error().message);
    if (*format == Format::kText || table::is_gzip_path(options.output)) {
      fail(ExitStatus::kUsage,
           context.lang.tr("-o {}: the output must end in .csv, .tsv or .jsonl",
                           "-o {}：输出文件必须以 .csv、.tsv 或 .jsonl 结尾", options.output));
    }
    plan.to = *format;
    std::error_code error;
    if (fs::exists(options.output, error) && !fs::is_regular_file(options.output, error)) {
      fail(ExitStatus::kUsage,
           context.lang.tr("-o {}: this is no regular file; leave -o out and redirect the output",
                           "-o {}：这不是普通文件；请去掉 -o，改用重定向", options.output));
    }
  } else if (context.json) {
    plan.to = Format::kJsonLines;
  } else if (plan.from != Format::kText) {
    plan.to = plan.from;
  }
  plan.long_texts = long_texts_by_name(context, options.long_texts);
  if (plan.long_texts == tasks::LongTexts::kWindow &&
      plan.task.method == tasks::Method::kGenerate) {
    fail(ExitStatus::kUsage,
         context.lang.tr("--long window needs probabilities, and method generate has none",
                         "--long window 需要概率，而 generate 方法没有概率"));
  }
  if (!options.rejects.empty() && !plan.to_file) {
    fail(ExitStatus::kUsage, context.lang.tr("--rejects needs an output file (-o OUT)",
                                             "--rejects 需要输出文件（-o OUT）"));
  }
  std::error_code error;
  // A file that is not there is told of when it is opened.
  if (options.resume &&
      (!plan.to_file || plan.input == "-" ||
       (fs::exists(plan.input, error) && !fs::is_regular_file(plan.input, error)))) {
    fail(ExitStatus::kUsage,
         context.lang.tr("--resume needs an input file and an output file (-i FILE -o OUT)",
                         "--resume 需要输入文件和输出文件（-i FILE -o OUT）"));
  }
  if (plan.from == Format::kJsonLines && plan.to_file && plan.to != Format::kJsonLines) {
    fail(ExitStatus::kUsage,
         context.lang.tr("-o {}: objects of JSON Lines do not fit columns; let the output end in "
                         ".jsonl",
                         "-o {}：JSON Lines 的对象无法写成列；请让输出以 .jsonl 结尾",
                         options.output));
  }
  check_paths(context, plan);
  return plan;
}

std::vector<std::string> FilePlan::added_names() const {
  const std::string& prefix = options.prefix;
  std::vector<std::string> names = {prefix + "label"};
  if (has_probabilities()) {
    names.push_back(prefix + "confidence");
    for (const tasks::Label& label : task.labels) names.push_back(prefix + "p_" + label.name);
  } else {
    names.push_back(prefix + "raw");
  }
  if (long_texts != tasks::LongTexts::kError) names.push_back(prefix + "long");
  return names;
}

std::vector<table::AddedValue> FilePlan::added_values(const tasks::BulkOutcome& outcome) const {
  const tasks::Classification& result = outcome.classification;
  std::vector<table::AddedValue> values;
  values.emplace_back();
  if (result.label) values.back() = *result.label;
  if (has_probabilities()) {
    values.emplace_back(result.confidence);
    for (const auto& [label, probability] : result.probabilities) values.emplace_back(probability);
  } else {
    values.emplace_back(result.raw);
  }
  if (long_texts != tasks::LongTexts::kError) {
    values.emplace_back();
    if (outcome.truncated) values.back() = std::string("truncated");
    if (outcome.n_pieces > 1) values.back() = std::to_string(outcome.n_pieces) + " windows";
  }
  return values;
}

ResumableOutput::Identity identity_of(const Context& context, const FilePlan& plan,
                                      const std::string& model_path) {
  std::error_code error;
  // What is no file can be read only once: --resume refuses it, so its hash is not missed.
  const bool is_file = fs::is_regular_file(plan.input, error);
  JsonWriter options;
  options.begin_array()
      .value(static_cast<int>(plan.from))
      .value(static_cast<int>(plan.to))
      .value(plan.options.column)
      .value(plan.options.prefix)
      .value(plan.options.long_texts)
      .value(plan.options.rejects.empty() ? "" : fs::absolute(plan.options.rejects).string())
      .value(context.settings.encoding() == Encoding::kGb18030)
      .value(context.settings.value("context").text)
      .value(context.settings.value("weights").text)
      .end_array();
  return {{"input", is_file ? hash_or_fail(plan.input) : ""},
          {"task", task_hash(plan.task)},
          {"model", model_hash(model_path)},
          {"options", options.text()}};
}

void describe_file_options(CommandSpec& spec, FileOptions& options) {
  spec.option("-o,--output", options.output, "OUT",
              "all columns and the labels go here (.csv, .tsv, .jsonl)",
              "把所有列和标签写入此文件（.csv、.tsv、.jsonl）");
  spec.option("--format", options.format, "NAME", "of the input: txt, csv, tsv, jsonl",
              "输入的格式：txt、csv、tsv、jsonl");
  spec.option("--column,--field", options.column, "NAME",
              "column of the texts (text, review or the only one) or JSON field (text)",
              "文本所在的列（默认 text、review 或唯一的一列）或 JSON 字段（默认 text）");
  spec.option("--rejects", options.rejects, "FILE", "rows that cannot be labelled go here",
              "无法处理的行写入此文件");
  spec.option("--prefix", options.prefix, "P", "beginning of the new columns' names",
              "新增列名的前缀");
  spec.option("--long", options.long_texts, "error|truncate|window",
              "texts longer than the context: refuse, label their beginning, or the mean of pieces",
              "超过上下文的文本：拒绝、只判断开头，或取各段的平均");
  spec.flag("--resume", options.resume, "go on where a killed run stopped", "从上次中断的地方继续");
}

bool is_file_run(const std::string& input, const FileOptions& options) {
  return (!input.empty() && input != "-") || !options.output.empty() || !options.format.empty();
}

}  // namespace munia::cli
