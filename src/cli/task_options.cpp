#include "cli/task_options.h"

#include <unistd.h>

#include <optional>
#include <utility>

#include "base/utf8.h"

namespace munia::cli {
namespace {

std::vector<std::string> split_labels(const std::string& list) {
  std::vector<std::string> labels;
  std::string current;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const bool wide_comma = list.compare(i, 3, "，") == 0;
    if (i == list.size() || list[i] == ',' || wide_comma) {
      const std::size_t first = current.find_first_not_of(" \t");
      const std::size_t last = current.find_last_not_of(" \t");
      labels.push_back(first == std::string::npos ? "" : current.substr(first, last - first + 1));
      current.clear();
      if (wide_comma) i += 2;
    } else {
      current += list[i];
    }
  }
  return labels;
}

}  // namespace

void describe_task_options(CommandSpec& spec, TaskOptions& options) {
  spec.option("--task", options.task, "NAME|FILE", "task: a built-in name or a task file",
              "任务：内置名称或任务文件");
  spec.option("--labels", options.labels, "A,B,…", "labels to choose from, instead of the task's",
              "可选的标签，代替任务自带的标签");
  spec.option("--system", options.system, "TEXT", "system message to ask with; with --labels",
              "提问用的系统提示；与 --labels 一起使用");
}

tasks::Task choose_task(const Context& context, const TaskOptions& options) {
  if (options.labels.empty() && !options.system.empty()) {
    fail(ExitStatus::kUsage,
         context.lang.tr("--system needs --labels", "--system 需要与 --labels 一起使用"));
  }
  if (!options.labels.empty()) {
    const std::optional<std::string> system =
        options.system.empty() ? std::nullopt : std::optional(options.system);
    Result<tasks::Task> task = tasks::task_from_labels(
        split_labels(argument_text(options.labels, 0, Encoding::kUtf8, context.lang)), system);
    if (!task) fail(ExitStatus::kUsage, task.error().message);
    return *std::move(task);
  }
  Result<tasks::Task> task = tasks::find_task(options.task);
  if (!task) {
    const ErrorCode code = task.error().code;
    const bool unknown = code == ErrorCode::kNotFound || code == ErrorCode::kInvalidArgument;
    fail(unknown ? ExitStatus::kUsage : ExitStatus::kCannotLoad, task.error().message);
  }
  return *std::move(task);
}

tasks::Classifier make_classifier(engine::Engine& engine, tasks::Task task) {
  Result<tasks::Classifier> classifier = tasks::Classifier::create(engine, std::move(task));
  if (!classifier) fail(ExitStatus::kFailed, classifier.error().message);
  return *std::move(classifier);
}

void describe_text_options(CommandSpec& spec, TextOptions& options, TextOptions::Kind kind) {
  spec.texts("TEXT", options.texts, "texts", "文本");
  if (kind == TextOptions::kOrFile) {
    spec.option("-i,--input", options.input, "FILE|-",
                ".txt, .csv, .tsv, .jsonl (also .gz); -: standard input, a text a line",
                ".txt、.csv、.tsv、.jsonl（可加 .gz）；-：标准输入，每行一个文本");
  } else {
    spec.option("-i,--input", options.input, "-", "-: standard input, a text a line",
                "-：从标准输入读取，每行一个文本");
  }
}

void for_each_group(const Context& context, const TextOptions& options, std::size_t group_size,
                    const std::function<void(const std::vector<InputText>&)>& body) {
  std::vector<InputText> group;
  if (!options.input.empty() && options.input != "-") {
    fail(ExitStatus::kUsage,
         context.lang.tr("-i {}: this command reads texts as arguments, or by standard input with "
                         "-i - (a text a line); classify reads files",
                         "-i {}：此命令只读取文本参数，或用 -i - 从标准输入读取（每行一个文本）；"
                         "读取文件请用 classify",
                         options.input));
  }
  if (!options.input.empty() && !options.texts.empty()) {
    fail(ExitStatus::kUsage,
         context.lang.tr("give texts or -i -, not both", "文本参数和 -i - 只能用一个"));
  }
  if (!options.texts.empty()) {
    const bool single = options.texts.size() == 1;
    for (std::size_t i = 0; i < options.texts.size(); ++i) {
      group.push_back(
          {argument_text(options.texts[i], i, context.settings.encoding(), context.lang),
           single ? "" : context.lang.tr("text {}: ", "第 {} 个文本：", i + 1)});
      if (group.size() == group_size || i + 1 == options.texts.size()) {
        body(group);
        group.clear();
      }
    }
    return;
  }
  bool any = false;
  if (options.input == "-" || isatty(STDIN_FILENO) == 0) {
    LineReader reader(STDIN_FILENO, context.settings.encoding(), context.lang);
    const auto flush = [&] {
      if (group.empty()) return;
      body(group);
      group.clear();
    };
    for (;;) {
      if (!reader.ready()) flush();
      std::optional<std::string> line;
      try {
        line = reader.next();
      } catch (const CommandFailure&) {
        flush();  // what came before the broken line is still answered
        throw;
      }
      if (!line) break;
      any = true;
      group.push_back({*std::move(line), reader.where()});
      if (group.size() == group_size) flush();
    }
    flush();
  }
  if (!any) {
    fail(ExitStatus::kUsage,
         context.lang.tr("there is no text; give it as an argument, or with -i - by standard input",
                         "没有文本；请作为参数给出，或用 -i - 从标准输入读取"));
  }
}

void check_not_blank(const Context& context, const InputText& text) {
  if (!is_blank(text.text)) return;
  fail(ExitStatus::kBadInput, text.where + context.lang.tr("the text is empty", "文本为空"));
}

void check_text(const Context& context, const tasks::Classifier& classifier,
                const engine::Engine& engine, const InputText& text, tasks::PromptForm form) {
  check_not_blank(context, text);
  const std::vector<std::int32_t> ids =
      value_or_fail(classifier.prompt_ids(text.text, form), text.where);
  const std::int64_t limit = engine.bundle().model->context();
  if (static_cast<std::int64_t>(ids.size()) >= limit) {
    fail(
        ExitStatus::kBadInput,
        text.where + context.lang.tr(
                         "the text is too long: {} tokens with its prompt, and the context "
                         "holds {}; shorten the text or raise --context",
                         "文本太长：连同提示共 {} 个词元，而上下文只能容纳 {} 个；请缩短文本或调大 "
                         "--context",
                         ids.size(), limit));
  }
}

}  // namespace munia::cli
