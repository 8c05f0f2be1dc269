// One request and its answer, as routes see it: JSON, errors and events go out by this. Adds the
// headers that every reply carries (x-request-id, CORS), and tells the log and the metrics when the
// answer is complete. Safe from any thread; held by shared_ptr until the answer is complete.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "server/errors.h"
#include "server/http.h"

namespace munia::server {

/// What the log and the metrics are told about an exchange. No text of the user stands in it.
struct Record {
  std::string route = "other";  // the route's pattern, never the path as it was sent
  int status = 0;               // 0: the client left before there was one
  bool client_gone = false;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::string finish_reason;  // of a generation
  double total_ms = 0;
};

class Exchange {
 public:
  using OnEnd = std::function<void(const Request&, const Record&)>;

  Exchange(Request request, std::shared_ptr<Responder> responder, OnEnd on_end);
  /// An exchange that nobody answered is answered with status 500.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const Request& request() const { return request_; }
  /// What follows the route's pattern: "qwen/0.5b" of "/v1/models/qwen/0.5b".
  const std::string& rest() const { return rest_; }

  /// A whole answer. `json` is the body.
  void json(int status, std::string json);
  void send(int status, Fields headers, std::string body);
  /// Before the answer has begun: the error's status and envelope. In a stream: an event that holds
  /// the envelope, and the stream ends without [DONE].
  void fail(const ApiError& error);

  /// An event of a stream; the first one sends the headers. False: nobody listens any more.
  bool event(std::string_view json);
  /// [DONE], and the end of the stream.
  void done();
  /// Nobody is there to be answered: the client left.
  void abandon();
  /// True once a status has been sent.
  bool started() const;

  void on_client_gone(std::function<void()> callback);

  /// Adds to the record; shown when the answer is complete.
  void note_usage(std::int64_t prompt_tokens, std::int64_t cached_tokens,
                  std::int64_t completion_tokens, std::string_view finish_reason);

  // For the application, before a route is called.
  void set_route(std::string pattern, std::string rest);
  void add_header(std::string name, std::string value);

 private:
  void finish_locked();
  Fields with_common(Fields headers) const;

  const Request request_;
  const std::shared_ptr<Responder> responder_;
  const OnEnd on_end_;
  std::string rest_;
  Fields common_headers_;
  mutable std::mutex mutex_;  // guards what follows
  Record record_;
  bool streaming_ = false;
  bool ended_ = false;
};

using ExchangePtr = std::shared_ptr<Exchange>;

}  // namespace munia::server
