// munia tokenize, detokenize, render: text to ids, ids to text, messages to the model's own prompt.
#include <unistd.h>

#include <memory>
#include <utility>

#include "cli/commands.h"
#include "cli/request_json.h"
#include "cli/session.h"

namespace munia::cli {
namespace {

struct TokenizeFlags {
  bool jsonl = false;
  bool special = false;
  bool count = false;
};

ExitStatus run_tokenize(const Context& context, const TokenizeFlags& flags) {
  const auto bundle = open_text(context);
  LineReader reader(STDIN_FILENO, context.settings.encoding(), context.lang);
  while (std::optional<std::string> line = flags.jsonl ? reader.next_filled() : reader.next()) {
    const std::string where = reader.where();
    std::string text = *std::move(line);
    if (flags.jsonl) {
      const boost::json::object object = parse_json_object(text, where, context.lang);
      const Fields fields(object, where, context.lang);
      const std::optional<std::string> field = fields.string("text");
      if (!field) {
        fields.reject(context.lang.tr("\"text\" is missing", "缺少 \"text\""));
      }
      text = *field;
    }
    const auto ids = text_prompt(*bundle, text, flags.special, where);
    JsonWriter writer;
    if (flags.count) {
      writer.value(ids.size());
    } else {
      writer.ids(ids);
    }
    context.out->line(writer.text());
  }
  return ExitStatus::kDone;
}

struct DetokenizeFlags {
  bool jsonl = false;
  bool skip_special = false;
};

ExitStatus run_detokenize(const Context& context, const DetokenizeFlags& flags) {
  const auto bundle = open_text(context);
  LineReader reader(STDIN_FILENO, context.settings.encoding(), context.lang);
  while (const std::optional<std::string> line = reader.next_filled()) {
    const std::string where = reader.where();
    const boost::json::value value = parse_json(*line, where, context.lang);
    const boost::json::object empty;
    const Fields fields(value.is_object() ? value.get_object() : empty, where, context.lang);
    const boost::json::value* list = value.is_object() ? fields.find("ids") : &value;
    if (list == nullptr) fields.reject(context.lang.tr("\"ids\" is missing", "缺少 \"ids\""));
    const std::vector<std::int32_t> ids = ids_from_json(*list, fields, "ids");
    const std::int64_t n_vocab = bundle->tokenizer->vocab_size();
    for (const std::int32_t id : ids) {
      if (id < n_vocab) continue;
      fields.reject(context.lang.tr("id {} is outside the vocabulary (0 to {})",
                                    "编号 {} 不在词表内（0 到 {}）", id, n_vocab - 1));
    }
    const std::string text = bundle->tokenizer->decode(ids, flags.skip_special);
    if (flags.jsonl || context.json) {
      JsonWriter writer;
      writer.begin_object().field("text", text).end_object();
      context.out->line(writer.text());
    } else {
      context.out->line(text);
    }
  }
  return ExitStatus::kDone;
}

ExitStatus run_render(const Context& context) {
  const auto bundle = open_text(context);
  LineReader reader(STDIN_FILENO, context.settings.encoding(), context.lang);
  while (const std::optional<std::string> line = reader.next_filled()) {
    const std::string where = reader.where();
    const boost::json::object object = parse_json_object(*line, where, context.lang);
    if (!object.contains("messages")) {
      fail(ExitStatus::kBadInput,
           where + context.lang.tr("\"messages\" is missing", "缺少 \"messages\""));
    }
    const text::MarkedText rendered = value_or_fail(bundle->render(object), where);
    const auto ids = value_or_fail(bundle->tokenizer->encode(rendered), where);
    JsonWriter writer;
    writer.begin_object().field("text", rendered.bytes).key("ids").ids(ids).end_object();
    context.out->line(writer.text());
  }
  return ExitStatus::kDone;
}

}  // namespace

void add_tokenize(CommandLine& line, Context& context) {
  CommandSpec& spec =
      line.command("tokenize", "standard input, a text a line: a JSON array of ids per line",
                   "标准输入每行一个文本：每行输出词元编号的 JSON 数组");
  const auto flags = std::make_shared<TokenizeFlags>();
  spec.flag("--jsonl", flags->jsonl, "lines are {\"text\": …}", "每行是 {\"text\": …}");
  spec.flag("--special", flags->special, "parse special tokens in the text",
            "解析文本中的特殊词元");
  spec.flag("--count", flags->count, "the number of ids only", "只输出词元个数");
  spec.run([&context, flags] { return run_tokenize(context, *flags); });
}

void add_detokenize(CommandLine& line, Context& context) {
  CommandSpec& spec =
      line.command("detokenize", "standard input, a JSON array of ids a line: the text of each",
                   "标准输入每行一个词元编号的 JSON 数组：输出对应文本");
  const auto flags = std::make_shared<DetokenizeFlags>();
  spec.flag("--jsonl", flags->jsonl, "write {\"text\": …} lines", "输出 {\"text\": …}");
  spec.flag("--skip-special", flags->skip_special, "leave special tokens out", "去掉特殊词元");
  spec.run([&context, flags] { return run_detokenize(context, *flags); });
}

void add_render(CommandLine& line, Context& context) {
  CommandSpec& spec = line.command(
      "render", "standard input, {\"messages\": […], …} a line: the model's own prompt and its ids",
      "标准输入每行 {\"messages\": […], …}：按模型自己的模板输出提示和词元编号");
  spec.run([&context] { return run_render(context); });
}

}  // namespace munia::cli
