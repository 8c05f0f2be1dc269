// munia logits: the raw logits of a prompt's last position, or of all positions as an .npy file.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "base/sha256.h"
#include "cli/commands.h"
#include "cli/npy_file.h"
#include "cli/ordered_run.h"
#include "cli/request_json.h"
#include "cli/session.h"
#include "tasks/result_json.h"

namespace munia::cli {
namespace {

constexpr std::size_t kTop = 20;

struct LogitsFlags {
  bool jsonl = false;
  bool special = false;
  std::string all;
};

std::string logits_json(const std::vector<float>& logits, const engine::Usage& usage) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const std::size_t n_top = std::min(kTop, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n_top), order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      const float x = logits[static_cast<std::size_t>(a)];
                      const float y = logits[static_cast<std::size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  JsonWriter writer;
  writer.begin_object().field("argmax", order.front()).key("top").begin_array();
  for (std::size_t i = 0; i < n_top; ++i) {
    writer.begin_array()
        .value(order[i])
        .value(logits[static_cast<std::size_t>(order[i])])
        .end_array();
  }
  writer.end_array().field("hash", sha256_hex(std::as_bytes(std::span(logits))));
  writer.key("usage");
  tasks::write_usage(writer, usage);
  writer.end_object();
  return writer.text();
}

void run_all(const Context& context, const LogitsFlags& flags, const Session& session) {
  LineReader reader(STDIN_FILENO, context.settings.encoding(), context.lang);
  const std::optional<std::string> line = reader.next_filled();
  const std::string where = reader.where();
  if (!line) {
    fail(ExitStatus::kBadInput, context.lang.tr("there is no line of input", "没有输入"));
  }
  const boost::json::object object = parse_json_object(*line, where, context.lang);
  if (reader.next_filled()) {
    fail(ExitStatus::kBadInput,
         context.lang.tr("--all takes one line of input; there is a second one, line {}",
                         "--all 只接受一行输入；这里还有第 {} 行", reader.line_number()));
  }
  engine::LogitsJob job;
  job.prompt =
      prompt_from_json(Fields(object, where, context.lang), "text", *session.bundle, flags.special);
  job.all_rows = true;
  NpyFile file(flags.all, static_cast<std::int64_t>(job.prompt.size()),
               session.bundle->model->config().vocab_size);
  std::vector<float> last;
  job.on_row = [&](std::int64_t, std::span<const float> logits) {
    file.append(logits);
    last.assign(logits.begin(), logits.end());
  };
  const auto result = value_or_fail(session.engine->logits(std::move(job)), where);
  if (const Status written = file.commit(); !written) {
    fail(ExitStatus::kFailed, written.error().message);
  }
  context.out->line(logits_json(last, result.usage));
}

ExitStatus run_logits(const Context& context, const LogitsFlags& flags) {
  const Session session = open_session(context, {.greedy = false});
  if (!flags.all.empty()) {
    run_all(context, flags, session);
    return ExitStatus::kDone;
  }
  LineReader reader(STDIN_FILENO, context.settings.encoding(), context.lang);
  OrderedRun().run(reader, [&](const std::string& line) -> std::function<void()> {
    const std::string where = reader.where();
    const boost::json::object object = parse_json_object(line, where, context.lang);
    const Fields fields(object, where, context.lang);
    fields.note_unknown({"text", "ids", "messages", "tools", "chat_template_kwargs"});
    engine::LogitsJob job;
    job.prompt = prompt_from_json(fields, "text", *session.bundle, flags.special);
    const auto logits = std::make_shared<std::vector<float>>();
    job.on_row = [logits](std::int64_t, std::span<const float> row) {
      logits->assign(row.begin(), row.end());
    };
    const auto ticket = value_or_fail(session.engine->submit(std::move(job)), where);
    return [&context, ticket, logits, where] {
      const auto result = std::get<engine::LogitsResult>(value_or_fail(ticket->wait(), where));
      context.out->line(logits_json(*logits, result.usage));
    };
  });
  return ExitStatus::kDone;
}

}  // namespace

void add_logits(CommandLine& line, Context& context) {
  CommandSpec& spec = line.command(
      "logits", "standard input, {\"text\": …} a line: the best tokens and a hash of the logits",
      "标准输入每行 {\"text\": …}：输出最可能的词元和 logits 的哈希");
  const auto flags = std::make_shared<LogitsFlags>();
  spec.flag("--jsonl", flags->jsonl, "lines are JSON objects (always so)",
            "每行是 JSON 对象（总是如此）");
  spec.flag("--special", flags->special, "parse special tokens in the text",
            "解析文本中的特殊词元");
  spec.option("--all", flags->all, "PATH.npy",
              "write the logits of all positions, [n_tokens, vocab] float32",
              "写出所有位置的 logits，[n_tokens, vocab] float32");
  spec.run([&context, flags] { return run_logits(context, *flags); });
}

}  // namespace munia::cli
