// The network side: accepts connections (TCP or a Unix socket), reads whole requests within limits,
// hands each to one callback and sends what its Responder is given. Asynchronous: an idle
// connection costs memory but no thread. Knows no route. The files http_server* are the only ones
// that include the HTTP library.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "server/http.h"

namespace munia::server {

struct HttpOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free one
  std::string unix_path;      // instead of host and port
  int io_threads = 1;
  std::size_t max_connections = 1024;
  std::size_t max_header_bytes = std::size_t{16} << 10;
  std::size_t max_body_bytes = std::size_t{1} << 20;
  double idle_seconds = 75;   // between two requests of a connection
  double read_seconds = 30;   // for a header, then for a body
  double write_seconds = 30;  // for what is queued; then the client counts as gone
  std::size_t max_queued_bytes = std::size_t{256} << 10;  // of a stream, not yet taken
};

class HttpServer {
 public:
  /// Called on an I/O thread with each whole request; must be quick.
  using OnRequest = std::function<void(Request request, std::shared_ptr<Responder> responder)>;
  /// Called when a connection or request was refused before it was whole, with the status sent.
  using OnRefused = std::function<void(int status)>;

  HttpServer(HttpOptions options, OnRequest on_request, OnRefused on_refused);
  /// Stops. Every Responder must be gone by then.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Binds and starts the I/O threads. An Error (address in use, no such host, …) is one sentence.
  Status start();
  /// "http://127.0.0.1:8080" or "unix:/path"; after start().
  const std::string& address() const { return address_; }
  /// From now on every answer closes its connection.
  void drain();
  /// True once every request that has arrived is answered; waits at most `seconds`.
  bool wait_answered(double seconds) const;
  /// Ends the I/O threads and closes all connections.
  void stop();

 private:
  struct Core;
  std::string address_;
  std::unique_ptr<Core> core_;
};

}  // namespace munia::server
