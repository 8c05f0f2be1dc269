#include "cli/load_client.h"

#include <curl/curl.h>

#include <boost/json/parse.hpp>
#include <memory>

#include "base/clock.h"
#include "base/json_writer.h"
#include "base/utf8.h"

namespace munia::cli {
namespace {

namespace json = boost::json;
constexpr std::size_t kMaxReplyBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxShownBytes = 200;

/// One answer while it comes in.
struct Incoming {
  LoadRoute route = LoadRoute::kPredict;
  Clock::time_point begun;
  bool streamed = false;
  EventReader events;
  std::string body;  // what is no stream
  std::size_t n_bytes = 0;
  bool done = false;  // [DONE] was seen
  LoadReply reply;
};

const json::value* member(const json::value* value, std::string_view key) {
  return value != nullptr && value->is_object() ? value->get_object().if_contains(key) : nullptr;
}

void add_text(const json::value* text, Incoming& in) {
  if (text == nullptr || !text->is_string() || text->get_string().empty()) return;
  if (in.reply.first_ms < 0) in.reply.first_ms = ms_since(in.begun);
  in.reply.text += text->get_string();
}

void read_usage(const json::value* value, LoadReply& reply) {
  const json::value* n = member(member(value, "usage"), "completion_tokens");
  if (n != nullptr && n->is_int64()) reply.n_tokens = n->get_int64();
}

void read_error(const json::value* value, LoadReply& reply) {
  const json::value* error = member(value, "error");
  if (error == nullptr || error->is_null()) return;
  const json::value* message = error->is_object() ? member(error, "message") : error;
  reply.error = message != nullptr && message->is_string() ? std::string(message->get_string())
                                                           : "the service told of an error";
}

void read_event(const std::string& event, Incoming& in) {
  if (event == "[DONE]") {
    in.done = true;
    return;
  }
  json::error_code not_json;
  const json::value value = json::parse(event, not_json);
  if (not_json) {
    in.reply.error = "an event is not JSON";
    return;
  }
  read_error(&value, in.reply);
  read_usage(&value, in.reply);
  if (in.route != LoadRoute::kCompletions) return add_text(member(&value, "token"), in);
  const json::value* choices = member(&value, "choices");
  if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) return;
  add_text(member(member(&choices->get_array()[0], "delta"), "content"), in);
}

void read_whole(Incoming& in) {
  json::error_code not_json;
  const json::value value = json::parse(in.body, not_json);
  if (not_json) {
    in.reply.error = "the answer is not JSON";
    return;
  }
  read_error(&value, in.reply);
  read_usage(&value, in.reply);
  const json::value* text = member(&value, in.route == LoadRoute::kChat ? "response" : "reply");
  if (text != nullptr && text->is_string()) in.reply.text = text->get_string();
}

std::size_t on_header(char* bytes, std::size_t size, std::size_t n, void* user) {
  auto& in = *static_cast<Incoming*>(user);
  std::string line(bytes, size * n);
  for (char& c : line) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  if (line.starts_with("content-type:") && line.find("text/event-stream") != std::string::npos) {
    in.streamed = true;
  }
  return size * n;
}

std::size_t on_body(char* bytes, std::size_t size, std::size_t n, void* user) {
  auto& in = *static_cast<Incoming*>(user);
  in.n_bytes += size * n;
  if (in.n_bytes > kMaxReplyBytes) return 0;  // ends the transfer
  if (in.streamed) {
    for (const std::string& event : in.events.push({bytes, size * n})) read_event(event, in);
  } else {
    in.body.append(bytes, size * n);
  }
  return size * n;
}

std::string path_of(LoadRoute route) {
  switch (route) {
    case LoadRoute::kPredict:
      return "/predict";
    case LoadRoute::kChat:
      return "/chat";
    case LoadRoute::kCompletions:
      return "/v1/chat/completions";
  }
  return "/";
}

std::string body_of(const LoadTarget& target, const std::string& text) {
  JsonWriter writer;
  writer.begin_object();
  if (target.route == LoadRoute::kCompletions) {
    writer.key("messages").begin_array().begin_object();
    writer.field("role", "user").field("content", text).end_object().end_array();
    writer.key("stream_options").begin_object().field("include_usage", true).end_object();
  } else {
    writer.field("text", text);
  }
  if (target.route != LoadRoute::kChat) writer.field("stream", true);
  writer.field("max_tokens", target.max_tokens).end_object();
  return writer.text();
}

}  // namespace

std::vector<std::string> EventReader::push(std::string_view bytes) {
  tail_ += bytes;
  std::vector<std::string> events;
  std::size_t begin = 0;
  for (std::size_t end; (end = tail_.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    constexpr std::string_view kData = "data: ";
    const std::string_view block = std::string_view(tail_).substr(begin, end - begin);
    if (block.starts_with(kData)) events.emplace_back(block.substr(kData.size()));
  }
  tail_.erase(0, begin);
  return events;
}

std::optional<LoadRoute> load_route(std::string_view name) {
  if (name == "predict") return LoadRoute::kPredict;
  if (name == "chat") return LoadRoute::kChat;
  if (name == "completions") return LoadRoute::kCompletions;
  return std::nullopt;
}

std::string check_load_url(const std::string& url, bool offline) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parts(curl_url(), curl_url_cleanup);
  char* scheme = nullptr;
  char* host = nullptr;
  std::string why;
  if (curl_url_set(parts.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK ||
      curl_url_get(parts.get(), CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
      curl_url_get(parts.get(), CURLUPART_HOST, &host, 0) != CURLUE_OK) {
    why = "must be an address such as http://127.0.0.1:8080";
  } else if (std::string_view(scheme) != "http") {
    why = "must begin with http://";
  } else if (const std::string_view h(host);
             offline && h != "127.0.0.1" && h != "localhost" && h != "[::1]") {
    why = "is not this machine, and --offline is set";
  }
  curl_free(scheme);
  curl_free(host);
  return why;
}

LoadClient::LoadClient(const LoadTarget& target) : target_(target), curl_(curl_easy_init()) {}

LoadClient::~LoadClient() { curl_easy_cleanup(curl_); }

LoadReply LoadClient::ask(const std::string& text) {
  Incoming in;
  in.route = target_.route;
  if (curl_ == nullptr) {
    in.reply.error = "the HTTP library cannot be started";
    return in.reply;
  }
  CURL* const curl = curl_;
  curl_easy_reset(curl);  // keeps the connection
  const std::string url = target_.url + path_of(target_.route);
  const std::string body = body_of(target_, text);
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
  if (!target_.api_key.empty()) {
    headers = curl_slist_append(headers, ("Authorization: Bearer " + target_.api_key).c_str());
  }
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> owner(headers,
                                                                          curl_slist_free_all);
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &in);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &in);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(target_.timeout_seconds * 1e3));
  in.begun = Clock::now();
  const CURLcode code = curl_easy_perform(curl);
  in.reply.total_ms = ms_since(in.begun);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  in.reply.status = static_cast<int>(status);
  if (code != CURLE_OK) {
    in.reply.error = curl_easy_strerror(code);
  } else if (!in.streamed) {
    read_whole(in);
  } else if (!in.done && in.reply.error.empty()) {
    in.reply.error = "the stream ended before [DONE]";
  }
  if (in.reply.error.empty() && status != 200) in.reply.error = "status " + std::to_string(status);
  in.reply.error = replace_invalid_utf8(in.reply.error.substr(0, kMaxShownBytes));
  return in.reply;
}

}  // namespace munia::cli
