// munia chat: one reply, or a conversation of several turns with the model's own template.
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/request_json.h"
#include "cli/sampling_flags.h"
#include "cli/session.h"
#include "tasks/result_json.h"

namespace munia::cli {
namespace json = boost::json;
namespace {

struct ChatFlags {
  std::string text;
  std::string system;
  SamplingFlags sampling;
};

std::string chat_json(const engine::GenerateResult& result) {
  JsonWriter writer;
  writer.begin_object()
      .field("reply", result.text)
      .field("finish_reason", result.finish_reason)
      .key("usage");
  tasks::write_usage(writer, result.usage);
  writer.key("timings")
      .begin_object()
      .field("first_token_ms", result.timings.first_token_ms)
      .field("total_ms", result.timings.total_ms)
      .end_object()
      .end_object();
  return writer.text();
}

class Chat {
 public:
  Chat(const Context& context, const ChatFlags& flags)
      : context_(context), flags_(flags), session_(open_session(context)) {
    set_system(flags.system);
  }

  /// The reply to one text; fails like any command.
  void reply_once(const std::string& text) {
    if (is_blank(text)) {
      fail(ExitStatus::kBadInput, context_.lang.tr("the text is empty", "文本为空"));
    }
    add_message("user", text);
    reply();
  }

  /// Turns from standard input until it ends or /exit. The worst status of a turn is the result.
  ExitStatus converse();

 private:
  void add_message(const char* role, const std::string& content) {
    messages_.push_back({{"role", role}, {"content", content}});
  }
  void set_system(const std::string& system) {
    messages_.clear();
    if (!system.empty()) add_message("system", system);
  }
  void reset() {
    const bool has_system =
        !messages_.empty() && messages_[0].as_object()["role"] == json::string("system");
    messages_.resize(has_system ? 1 : 0);
  }
  void reply();
  void stop_reply();
  bool handle_command(const std::string& line);  // false: end of the conversation
  void save(const std::string& path) const;
  void note(const std::string& text) const { print_error_text(text + "\n"); }

  const Context& context_;
  const ChatFlags& flags_;
  Session session_;
  json::array messages_;
  std::mutex mutex_;
  std::shared_ptr<engine::Ticket> ticket_;  // of the reply at hand, for Ctrl-C
};

void Chat::reply() {
  GenerateRequest request = request_from_flags(flags_.sampling);
  settle_sampling(request, ExitStatus::kUsage, "");
  std::string streamed;
  const bool stream = !context_.json;
  request.job.on_text = [&](std::string_view piece) {
    streamed += piece;
    if (stream) context_.out->piece(piece);
  };
  try {
    json::object variables;
    variables["messages"] = messages_;
    variables["add_generation_prompt"] = true;
    request.job.prompt = value_or_fail(session_.bundle->render_ids(variables));
    const std::int64_t limit = session_.bundle->model->context();
    if (static_cast<std::int64_t>(request.job.prompt.size()) >= limit) {
      fail(ExitStatus::kBadInput,
           context_.lang.tr(
               "the conversation is too long: {} tokens, and the context holds {}; "
               "shorten the text, use /reset, or raise --context",
               "对话太长：共 {} 个词元，而上下文只能容纳 {} 个；请缩短文本、使用 /reset "
               "或调大 --context",
               request.job.prompt.size(), limit));
    }
    auto ticket = value_or_fail(session_.engine->submit(std::move(request.job)));
    {
      const std::lock_guard lock(mutex_);
      ticket_ = ticket;
    }
    Result<engine::JobResult> result = ticket->wait();
    {
      const std::lock_guard lock(mutex_);
      ticket_ = nullptr;
    }
    if (stream && streamed.empty()) context_.out->line("");
    context_.out->end_line();
    if (!result && result.error().code == ErrorCode::kCancelled) {
      add_message("assistant", streamed);  // what was shown is part of the conversation
      return;
    }
    const auto done = std::get<engine::GenerateResult>(value_or_fail(std::move(result)));
    add_message("assistant", done.text);
    if (context_.json) context_.out->line(chat_json(done));
  } catch (const CommandFailure&) {
    messages_.pop_back();  // the turn did not happen
    throw;
  }
}

void Chat::stop_reply() {
  const std::lock_guard lock(mutex_);
  if (ticket_) {
    ticket_->cancel();
  } else {
    note(context_.lang.pick("\n(/exit or Ctrl-D ends the conversation)",
                            "\n（输入 /exit 或按 Ctrl-D 结束对话）"));
  }
}

void Chat::save(const std::string& path) const {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  bool saved = file != nullptr;
  if (saved) {
    const std::string text = json::serialize(messages_) + "\n";
    saved = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    saved = std::fclose(file) == 0 && saved;
  }
  note(saved ? context_.lang.tr("saved to {}", "已保存到 {}", path)
             : context_.lang.tr("cannot write {}: {}", "无法写入 {}：{}", path,
                                std::strerror(errno)));
}

bool Chat::handle_command(const std::string& line) {
  const std::size_t space = line.find(' ');
  const std::string name = line.substr(0, space);
  std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
  while (argument.ends_with(' ')) argument.pop_back();
  const Lang& lang = context_.lang;
  if (name == "/exit" || name == "/quit") return false;
  if (name == "/reset") {
    reset();
    note(lang.pick("the conversation starts anew", "对话已重新开始"));
  } else if (name == "/system") {
    set_system(argument);
    note(argument.empty() ? lang.pick("no system message; the conversation starts anew",
                                      "已去掉系统提示，对话重新开始")
                          : lang.pick("system message set; the conversation starts anew",
                                      "系统提示已设置，对话重新开始"));
  } else if (name == "/save" && !argument.empty()) {
    save(argument);
  } else if (name == "/help") {
    note(
        lang.pick("/reset        forget the conversation\n"
                  "/system TEXT  set the system message (none without TEXT) and start anew\n"
                  "/save FILE    write the conversation as JSON\n"
                  "/exit         end (also Ctrl-D); Ctrl-C stops a reply\n"
                  "//…           a text that begins with /",
                  "/reset        忘掉之前的对话\n"
                  "/system TEXT  设置系统提示（不带 TEXT 则去掉）并重新开始\n"
                  "/save FILE    把对话保存为 JSON\n"
                  "/exit         结束（也可按 Ctrl-D）；Ctrl-C 停止当前回复\n"
                  "//…           以 / 开头的文本"));
  } else {
    note(
        lang.tr("{} is not a command; /help lists them", "没有命令 {}；输入 /help 查看命令", name));
  }
  return true;
}

ExitStatus Chat::converse() {
  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (terminal) {
    note(context_.lang.tr("{}: /help lists the commands, Ctrl-D ends",
                          "{}：输入 /help 查看命令，按 Ctrl-D 结束", session_.bundle->name));
    context_.interrupts->on_interrupt([this] { stop_reply(); });
  }
  LineReader reader(STDIN_FILENO, context_.settings.encoding(), context_.lang);
  ExitStatus status = ExitStatus::kDone;
  for (;;) {
    if (terminal) print_error_text("> ");
    try {
      std::optional<std::string> line = reader.next_filled();
      if (!line) break;
      if (line->starts_with("//")) {
        line->erase(0, 1);
      } else if (line->starts_with('/')) {
        if (!handle_command(*line)) break;
        continue;
      }
      add_message("user", *line);
      reply();
    } catch (const CommandFailure& failure) {
      print_note(failure.what());
      status = failure.status();
    }
  }
  if (terminal) {
    print_error_text("\n");
    context_.interrupts->on_interrupt({});
    return ExitStatus::kDone;
  }
  return status;
}

}  // namespace

void add_chat(CommandLine& line, Context& context) {
  CommandSpec& spec =
      line.command("chat", "one reply, or a conversation of several turns", "单次回复，或多轮对话");
  const auto flags = std::make_shared<ChatFlags>();
  flags->sampling.max_tokens = 256;
  flags->sampling.repetition_penalty = 1.05F;
  spec.positional("TEXT", flags->text, false, "answer this and end; without it: a conversation",
                  "只回答这一句；不给则进入对话");
  spec.option("--system", flags->system, "TEXT", "system message", "系统提示");
  describe_sampling_flags(spec, flags->sampling);
  spec.run([&context, flags] {
    request_from_flags(flags->sampling);
    Chat chat(context, *flags);
    if (flags->text.empty()) return chat.converse();
    chat.reply_once(argument_text(flags->text, 0, context.settings.encoding(), context.lang));
    return ExitStatus::kDone;
  });
}

}  // namespace munia::cli
