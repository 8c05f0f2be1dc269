// HTTP as the rest of this room sees it: a request that has arrived whole, and a way to answer it.
// No type of the HTTP library stands here; http_server.cpp makes requests and implements Responder,
// tests make their own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace munia::server {

/// Name and value, in order.
using Fields = std::vector<std::pair<std::string, std::string>>;

/// ASCII letters in lower case; other bytes stay.
std::string lower(std::string_view text);

struct Request {
  std::string method;  // "GET"
  std::string target;  // as it was sent, "/stream?q=%E5%A5%BD"
  std::string path;    // decoded, without the query; not necessarily UTF-8
  Fields query;        // decoded; not necessarily UTF-8
  Fields headers;      // names in lower case
  std::string body;
  std::string peer;  // "127.0.0.1:54321", or "unix"
  bool is_unix = false;
  Clock::time_point arrived;
  std::string id;  // goes back as x-request-id

  /// The header of that name in lower case (the first one), or nothing.
  std::optional<std::string_view> header(std::string_view name) const;
  std::size_t count_headers(std::string_view name) const;
  std::optional<std::string_view> query_value(std::string_view name) const;
};

/// Splits `target` into request.path and request.query. False where a percent escape is broken.
bool parse_target(std::string_view target, Request& request);

/// `asked` where it is a sensible id (up to 128 letters, digits, ".", "_", "-"), else a new one.
std::string make_request_id(std::optional<std::string_view> asked = std::nullopt);

/// Answers one request: send() once, or start_stream(), any number of write() and end(). Every
/// method may be called from any thread, returns at once, and does nothing once the client is gone.
/// Dropping the last reference without an answer closes the connection.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void send(int status, Fields headers, std::string body) = 0;
  virtual void start_stream(int status, Fields headers) = 0;
  /// Queues a piece. False: nobody will read it (the client is gone, or reads so slowly that the
  /// queue is full); then stop what makes pieces.
  virtual bool write(std::string piece) = 0;
  virtual void end() = 0;
  /// `callback` runs once, on another thread, when the client leaves or stops reading before the
  /// answer is complete; at once if that has happened already.
  virtual void on_client_gone(std::function<void()> callback) = 0;
};

}  // namespace munia::server
