// munia classify: labels of texts, with probabilities; those of a file: classify_file.h.
#include <algorithm>
#include <memory>
#include <utility>

#include "cli/classify_file.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/task_options.h"
#include "tasks/result_json.h"

namespace munia::cli {
namespace {

constexpr std::size_t kGroup = 64;

struct ClassifyFlags {
  TaskOptions task;
  TextOptions text;
  FileOptions file;
};

std::string classification_json(const std::string& text, const tasks::Classification& result) {
  JsonWriter writer;
  writer.begin_object().field("text", text).key("label");
  if (result.label) {
    writer.value(*result.label);
  } else {
    writer.null();
  }
  writer.key("confidence");
  if (result.probabilities.empty()) {
    writer.null();
  } else {
    writer.value(result.confidence);
  }
  writer.key("probabilities");
  tasks::write_probabilities(writer, result);
  if (!result.label) writer.field("raw", result.raw);
  writer.end_object();
  return writer.text();
}

std::string rejected_json(const std::string& text, const std::string& message) {
  JsonWriter writer;
  writer.begin_object().field("text", text);
  for (const char* key : {"label", "confidence", "probabilities"}) writer.key(key).null();
  writer.field("error", message).end_object();
  return writer.text();
}

/// label, confidence and text, separated by tabs.
std::string classification_text(std::string text, const tasks::Classification& result) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  const std::string label = result.label ? *result.label : "?";
  return result.probabilities.empty()
             ? label + "\t\t" + text
             : fmt::format("{}\t{:.4f}\t{}", label, result.confidence, text);
}

/// A file's options have no meaning for single texts.
void check_no_file_options(const Context& context, const FileOptions& options) {
  for (const auto& [flag, is_given] : {std::pair{"--column", !options.column.empty()},
                                       {"--rejects", !options.rejects.empty()},
                                       {"--prefix", !options.prefix.empty()},
                                       {"--long", options.long_texts != "error"},
                                       {"--resume", options.resume}}) {
    if (!is_given) continue;
    fail(ExitStatus::kUsage, context.lang.tr("{} needs a file (-i FILE, or -i - with --format)",
                                             "{} 需要文件（-i FILE，或 -i - 加 --format）", flag));
  }
}

ExitStatus run_classify(const Context& context, const ClassifyFlags& flags) {
  if (is_file_run(flags.text.input, flags.file)) {
    if (!flags.text.texts.empty()) {
      fail(ExitStatus::kUsage,
           context.lang.tr("give texts or a file, not both", "文本参数和文件只能用一个"));
    }
    return classify_file(context, flags.text.input, flags.file, flags.task);
  }
  check_no_file_options(context, flags.file);
  const tasks::Task task = choose_task(context, flags.task);
  std::optional<Session> session;
  std::optional<tasks::Classifier> classifier;
  std::size_t n_rejected = 0;
  for_each_group(context, flags.text, kGroup, [&](const std::vector<InputText>& group) {
    if (!session) {
      session = open_session(context, {.greedy = task.method == tasks::Method::kGenerate});
      classifier = make_classifier(*session->engine, task);
    }
    std::vector<std::string> texts;
    for (const InputText& input : group) texts.push_back(input.text);
    const auto results = classifier->classify(texts);
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (results[i]) {
        context.out->line(context.json ? classification_json(texts[i], *results[i])
                                       : classification_text(texts[i], *results[i]));
        continue;
      }
      const Error& error = results[i].error();
      if (request_status(error.code) != ExitStatus::kBadInput) {
        fail(request_status(error.code), group[i].where + error.message);
      }
      ++n_rejected;
      std::string message = error.message;
      try {
        check_text(context, *classifier, *session->engine, group[i]);
      } catch (const CommandFailure& failure) {
        message = std::string(failure.what()).substr(group[i].where.size());
      }
      print_note(group[i].where + message);
      context.out->line(context.json ? rejected_json(texts[i], message) : "\t\t" + texts[i]);
    }
  });
  return n_rejected == 0 ? ExitStatus::kDone : ExitStatus::kBadInput;
}

}  // namespace

void add_classify(CommandLine& line, Context& context) {
  CommandSpec& spec =
      line.command("classify", "labels of texts, with probabilities", "给文本打标签并给出概率");
  const auto flags = std::make_shared<ClassifyFlags>();
  describe_text_options(spec, flags->text, TextOptions::kOrFile);
  describe_file_options(spec, flags->file);
  describe_task_options(spec, flags->task);
  spec.run([&context, flags] { return run_classify(context, *flags); });
}

}  // namespace munia::cli
