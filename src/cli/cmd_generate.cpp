// munia generate: raw continuation of a text, or of many by JSON Lines.
#include <unistd.h>

#include <memory>
#include <utility>

#include "cli/commands.h"
#include "cli/ordered_run.h"
#include "cli/request_json.h"
#include "cli/sampling_flags.h"
#include "cli/session.h"
#include "tasks/result_json.h"

namespace munia::cli {
namespace {

struct GenerateFlags {
  std::string text;
  SamplingFlags sampling;
  std::int64_t n = 1;
  bool jsonl = false;
  bool special = false;
};

void write_choice(JsonWriter& writer, const engine::GenerateResult& result) {
  writer.key("ids").ids(result.ids);
  writer.field("text", result.text).field("finish_reason", result.finish_reason);
  if (result.score) writer.field("score", *result.score);
}

/// One line: the first choice at the top, all of them under "choices" when there are several.
std::string result_json(const std::vector<engine::GenerateResult>& results) {
  engine::Usage usage = results.front().usage;
  for (std::size_t i = 1; i < results.size(); ++i) {
    usage.completion_tokens += results[i].usage.completion_tokens;
  }
  JsonWriter writer;
  writer.begin_object();
  write_choice(writer, results.front());
  writer.key("usage");
  tasks::write_usage(writer, usage);
  if (results.size() > 1) {
    writer.key("choices").begin_array();
    for (const engine::GenerateResult& result : results) {
      writer.begin_object();
      write_choice(writer, result);
      writer.end_object();
    }
    writer.end_array();
  }
  writer.end_object();
  return writer.text();
}

// The texts of a beam search come from one job.
std::vector<std::shared_ptr<engine::Ticket>> submit_choices(engine::Engine& engine,
                                                            const GenerateRequest& request,
                                                            const std::string& where) {
  std::vector<std::shared_ptr<engine::Ticket>> tickets;
  const std::int64_t n_jobs = request.job.beams.enabled() ? 1 : request.n;
  for (std::int64_t i = 0; i < n_jobs; ++i) {
    engine::GenerateJob job = request.job;
    job.sampling.seed += static_cast<std::uint64_t>(i);
    tickets.push_back(value_or_fail(engine.submit(std::move(job)), where));
  }
  return tickets;
}

std::vector<engine::GenerateResult> wait_choices(
    const std::vector<std::shared_ptr<engine::Ticket>>& tickets, const std::string& where) {
  std::vector<engine::GenerateResult> results;
  for (const auto& ticket : tickets) {
    auto result = std::get<engine::GenerateResult>(value_or_fail(ticket->wait(), where));
    for (engine::GenerateResult& text : engine::texts_of(std::move(result))) {
      results.push_back(std::move(text));
    }
  }
  return results;
}

// What the flags say; fails with status 2 at what they may not say.
GenerateRequest request_of(const GenerateFlags& flags) {
  GenerateRequest request = request_from_flags(flags.sampling);
  request.n = flags.n;
  GenerateRequest checked = request;
  settle_sampling(checked, ExitStatus::kUsage, "");
  return request;
}

void run_lines(const Context& context, const GenerateFlags& flags, Session& session) {
  LineReader reader(STDIN_FILENO, context.settings.encoding(), context.lang);
  OrderedRun().run(reader, [&](const std::string& line) -> std::function<void()> {
    const std::string where = reader.where();
    const boost::json::object object = parse_json_object(line, where, context.lang);
    const Fields fields(object, where, context.lang);
    fields.note_unknown({"text",
                         "ids",
                         "messages",
                         "tools",
                         "chat_template_kwargs",
                         "max_tokens",
                         "min_tokens",
                         "temperature",
                         "top_p",
                         "top_k",
                         "min_p",
                         "seed",
                         "repetition_penalty",
                         "presence_penalty",
                         "frequency_penalty",
                         "num_beams",
                         "length_penalty",
                         "early_stopping",
                         "stop",
                         "n",
                         "json_schema",
                         "regex",
                         "choice"});
    GenerateRequest request = request_of(flags);
    read_generate_fields(fields, request);
    settle_sampling(request, ExitStatus::kBadInput, where);
    request.job.prompt = prompt_from_json(fields, "text", *session.bundle, flags.special);
    auto tickets = submit_choices(*session.engine, request, where);
    return [&context, tickets = std::move(tickets), where] {
      context.out->line(result_json(wait_choices(tickets, where)));
    };
  });
}

void run_text(const Context& context, const GenerateFlags& flags, Session& session) {
  GenerateRequest request = request_of(flags);
  settle_sampling(request, ExitStatus::kUsage, "");
  const std::string text = argument_text(flags.text, 0, context.settings.encoding(), context.lang);
  request.job.prompt = text_prompt(*session.bundle, text, flags.special, "");
  const bool stream = !context.json && request.n == 1;
  if (stream) request.job.on_text = [&](std::string_view piece) { context.out->piece(piece); };
  const auto tickets = submit_choices(*session.engine, request, "");
  const auto results = wait_choices(tickets, "");
  if (context.json) {
    context.out->line(result_json(results));
  } else if (stream) {
    context.out->piece(results.front().text.empty() ? "\n" : "");
    context.out->end_line();
  } else {
    for (const engine::GenerateResult& result : results) context.out->line(result.text);
  }
}

ExitStatus run_generate(const Context& context, const GenerateFlags& flags) {
  request_of(flags);  // before a model is loaded for nothing
  if (flags.jsonl != flags.text.empty()) {
    fail(ExitStatus::kUsage,
         context.lang.tr("give a TEXT, or --jsonl for requests on standard input",
                         "请给出 TEXT，或用 --jsonl 从标准输入读取请求"));
  }
  Session session = open_session(context);
  if (flags.jsonl) {
    run_lines(context, flags, session);
  } else {
    run_text(context, flags, session);
  }
  return ExitStatus::kDone;
}

}  // namespace

void add_generate(CommandLine& line, Context& context) {
  CommandSpec& spec = line.command("generate", "raw continuation of a text, without a template",
                                   "不用模板，直接续写文本");
  const auto flags = std::make_shared<GenerateFlags>();
  spec.positional("TEXT", flags->text, false, "the text to go on from", "要续写的文本");
  spec.flag("--jsonl", flags->jsonl,
            "requests on standard input, one JSON object a line; results in order",
            "从标准输入读取请求，每行一个 JSON 对象；结果按顺序输出");
  spec.flag("--special", flags->special, "parse special tokens in the text",
            "解析文本中的特殊词元");
  spec.integer("-n", flags->n, 1, kMaxChoices, "continuations of each text", "每个文本的续写个数");
  describe_sampling_flags(spec, flags->sampling);
  spec.run([&context, flags] { return run_generate(context, *flags); });
}

}  // namespace munia::cli
