// One request of a load test: POSTs JSON to a running service, reads the answer (whole or as
// events) and notes when what came. load_client.cpp is the only file of this room that includes the
// HTTP library.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace munia::cli {

/// Splits a stream of server-sent events, however it is cut, into the texts behind "data: ".
class EventReader {
 public:
  /// Adds bytes; returns the events that are complete now.
  std::vector<std::string> push(std::string_view bytes);

 private:
  std::string tail_;
};

struct LoadReply {
  int status = 0;             // 0: there was no answer
  std::string error;          // why it does not count, one sentence; empty: it does
  std::string text;           // of the reply
  double first_ms = -1;       // to the first piece of text; -1: there was none, or no stream
  double total_ms = 0;        // to the last byte
  std::int64_t n_tokens = 0;  // as the service counted them; 0: it did not tell
};

/// Which route is asked, and how.
enum class LoadRoute { kPredict, kChat, kCompletions };
std::optional<LoadRoute> load_route(std::string_view name);  // "predict", "chat", "completions"

struct LoadTarget {
  std::string url;  // "http://127.0.0.1:8080"
  LoadRoute route = LoadRoute::kPredict;
  std::string api_key;  // may be empty
  std::int64_t max_tokens = 64;
  double timeout_seconds = 60;
};

/// A connection that is kept between requests. One per thread.
class LoadClient {
 public:
  explicit LoadClient(const LoadTarget& target);
  ~LoadClient();
  LoadClient(const LoadClient&) = delete;
  LoadClient& operator=(const LoadClient&) = delete;

  LoadReply ask(const std::string& text);

 private:
  const LoadTarget& target_;
  void* curl_;  // CURL
};

/// Empty, or why `url` cannot be asked: only http:// is spoken, and with `offline` only this
/// machine.
std::string check_load_url(const std::string& url, bool offline);

}  // namespace munia::cli
