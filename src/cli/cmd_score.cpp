// munia score: sums of log-probabilities of continuations.
#include <unistd.h>

#include <memory>
#include <utility>

#include "cli/commands.h"
#include "cli/ordered_run.h"
#include "cli/request_json.h"
#include "cli/session.h"

namespace munia::cli {
namespace {

constexpr std::size_t kMaxContinuations = 4096;

struct ScoreFlags {
  bool jsonl = false;
  bool special = false;
};

/// Strings are tokenized on their own; lists of ids are taken as they are.
std::vector<std::vector<std::int32_t>> continuations(const Fields& fields,
                                                     const text::Tokenizer& tokenizer,
                                                     bool parse_special) {
  const Lang lang = fields.lang();
  const boost::json::value* list = fields.find("continuations");
  if (list == nullptr || !list->is_array() || list->get_array().empty() ||
      list->get_array().size() > kMaxContinuations) {
    fields.reject(lang.tr("\"continuations\" must be a list of 1 to {} strings or lists of ids",
                          "\"continuations\" 应当是 1 到 {} 个字符串或编号列表的列表",
                          kMaxContinuations));
  }
  std::vector<std::vector<std::int32_t>> out;
  for (const boost::json::value& item : list->get_array()) {
    std::vector<std::int32_t> ids;
    if (item.is_string()) {
      const std::string text(item.get_string());
      ids = value_or_fail(
          parse_special ? tokenizer.encode_with_special(text) : tokenizer.encode(text),
          fields.where());
    } else {
      ids = ids_from_json(item, fields, "continuations");
    }
    if (ids.empty()) {
      fields.reject(lang.tr("continuation {} is empty", "第 {} 个续写为空", out.size() + 1));
    }
    out.push_back(std::move(ids));
  }
  return out;
}

ExitStatus run_score(const Context& context, const ScoreFlags& flags) {
  const Session session = open_session(context, {.greedy = false});
  LineReader reader(STDIN_FILENO, context.settings.encoding(), context.lang);
  OrderedRun().run(reader, [&](const std::string& line) -> std::function<void()> {
    const std::string where = reader.where();
    const boost::json::object object = parse_json_object(line, where, context.lang);
    const Fields fields(object, where, context.lang);
    fields.note_unknown(
        {"prompt", "ids", "messages", "tools", "chat_template_kwargs", "continuations"});
    engine::ScoreJob job;
    job.prompt = prompt_from_json(fields, "prompt", *session.bundle, flags.special);
    job.continuations = continuations(fields, *session.bundle->tokenizer, flags.special);
    std::vector<std::size_t> n_tokens;
    for (const auto& ids : job.continuations) n_tokens.push_back(ids.size());
    const auto ticket = value_or_fail(session.engine->submit(std::move(job)), where);
    return [&context, ticket, n_tokens, where] {
      const auto result = std::get<engine::ScoreResult>(value_or_fail(ticket->wait(), where));
      JsonWriter writer;
      writer.begin_object().key("logprobs").begin_array();
      for (const double logprob : result.logprobs) writer.value(logprob);
      writer.end_array().key("tokens").begin_array();
      for (const std::size_t n : n_tokens) writer.value(n);
      writer.end_array().end_object();
      context.out->line(writer.text());
    };
  });
  return ExitStatus::kDone;
}

}  // namespace

void add_score(CommandLine& line, Context& context) {
  CommandSpec& spec = line.command(
      "score", "standard input, {\"prompt\": …, \"continuations\": […]} a line: log-probabilities",
      "标准输入每行 {\"prompt\": …, \"continuations\": […]}：输出对数概率");
  const auto flags = std::make_shared<ScoreFlags>();
  spec.flag("--jsonl", flags->jsonl, "lines are JSON objects (always so)",
            "每行是 JSON 对象（总是如此）");
  spec.flag("--special", flags->special, "parse special tokens in the texts",
            "解析文本中的特殊词元");
  spec.run([&context, flags] { return run_score(context, *flags); });
}

}  // namespace munia::cli
