#include "server/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <ctime>

#include "base/json_writer.h"
#include "base/utf8.h"

namespace munia::server {
namespace {

constexpr std::size_t kMaxTextBytes = 4096;

std::string now_text() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[64];
  const std::size_t n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03}Z", std::string_view(text, n), ms);
}

// A method that nobody knows could hold anything.
std::string known_method(const std::string& method) {
  for (const char* known : {"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"}) {
    if (method == known) return method;
  }
  return "other";
}

std::string text_of(const Request& request) {
  const std::string& text = request.body.empty() ? request.target : request.body;
  return replace_invalid_utf8(std::string_view(text).substr(0, kMaxTextBytes));
}

}  // namespace

Log::Log(LogOptions options)
    : options_(options),
      logger_(std::make_shared<spdlog::logger>("munia",
                                               std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
  logger_->set_pattern("%v");
  logger_->flush_on(spdlog::level::info);
}

Log::~Log() = default;

void Log::line(bool warning, const std::string& text, const std::string& json_fields) {
  const char* level = warning ? "warning" : "info";
  if (!options_.json) {
    logger_->info(fmt::runtime("{} {} {}"), now_text(), level, text);
    return;
  }
  JsonWriter writer;
  writer.begin_object().field("time", now_text()).field("level", level);
  logger_->info(fmt::runtime("{},{}}}"), writer.text(), json_fields);
}

void Log::info(const std::string& message) {
  JsonWriter writer;
  line(false, message, writer.field("message", message).text());
}

void Log::warn(const std::string& message) {
  JsonWriter writer;
  line(true, message, writer.field("message", message).text());
}

void Log::request(const Request& request, const Record& record) {
  if (!options_.requests) return;
  const std::string method = known_method(request.method);
  const int status = record.client_gone ? kClientGone : record.status;
  JsonWriter writer;
  writer.field("event", "request").field("id", request.id).field("method", method);
  writer.field("route", record.route).field("status", status).field("ms", record.total_ms);
  writer.field("prompt_tokens", record.prompt_tokens);
  writer.field("cached_tokens", record.cached_tokens);
  writer.field("completion_tokens", record.completion_tokens);
  writer.field("finish_reason", record.finish_reason).field("peer", request.peer);
  if (options_.user_text) writer.field("text", text_of(request));
  if (options_.json) return line(false, "", writer.text());
  std::string text = fmt::format(
      "request {} {} {} status={} ms={:.1f} prompt_tokens={} cached_tokens={} completion_tokens={} "
      "finish_reason={} peer={}",
      request.id, method, record.route, status, record.total_ms, record.prompt_tokens,
      record.cached_tokens, record.completion_tokens,
      record.finish_reason.empty() ? "-" : record.finish_reason, request.peer);
  if (options_.user_text) {
    JsonWriter quoted;  // one line, whatever it holds
    text += " text=" + quoted.value(text_of(request)).text();
  }
  line(false, text, "");
}

}  // namespace munia::server
