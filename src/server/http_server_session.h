// One connection: reads a request, waits for its answer while one pending read watches for the
// client to leave, writes the answer from a bounded queue, and goes on with the next request.
// Reading and writing happen on the connection's strand; answers come from any thread.
#pragma once

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/errors.h"
#include "server/http_server.h"

namespace munia::server {

/// What the connections of a server share.
struct SessionShared {
  HttpOptions options;
  HttpServer::OnRequest on_request;
  HttpServer::OnRefused on_refused;
  std::atomic<std::size_t> n_connections{0};
  std::atomic<std::size_t> n_open_answers{0};  // requests whose answer is not written yet
  std::atomic<bool> draining{false};
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  Session(Socket socket, std::string peer, SessionShared& shared);
  ~Session();

  /// Begins to read requests.
  void start();
  /// Answers without reading a request, then closes.
  void refuse(const ApiError& error);

  // For the Responder of request number `n`; any thread.
  void send(std::uint64_t n, int status, const Fields& headers, std::string body);
  void start_stream(std::uint64_t n, int status, const Fields& headers);
  bool write(std::uint64_t n, std::string piece);
  void end(std::uint64_t n);
  void on_client_gone(std::uint64_t n, std::function<void()> callback);
  void drop(std::uint64_t n);  // nobody will answer it

 private:
  using ErrorCode = boost::beast::error_code;
  enum class After { kNothing, kNextRequest, kLinger };  // what follows the watching read

  void wait_request();
  void read_header();
  void on_header(ErrorCode error);
  void send_continue();
  void read_body();
  void deliver();
  void on_read_error(ErrorCode error);
  void watch();
  void on_watched(ErrorCode error, std::size_t n_bytes);
  void post_pump();
  void pump();
  void on_written(ErrorCode error);
  void finish_answer();
  void linger();
  void drain_input();
  void client_gone();
  void close();
  void answer_closed();
  std::string head(int status, const Fields& headers, std::optional<std::size_t> body_size);

  SessionShared& shared_;
  const std::string peer_;
  boost::beast::basic_stream<boost::asio::generic::stream_protocol> stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  Clock::time_point arrived_;
  bool watching_ = false;  // the pending read is out
  After after_watch_ = After::kNothing;
  bool answer_open_ = false;
  bool writing_ = false;
  std::string in_flight_;  // being written
  std::size_t n_lingered_ = 0;

  std::mutex mutex_;  // guards what follows
  std::uint64_t n_request_ = 0;
  bool is_head_ = false;      // the method HEAD: an answer without its body
  bool is_http_1_0_ = false;  // no chunks
  bool keep_alive_ = false;
  bool answered_ = true;  // send() or start_stream() came
  bool chunked_ = false;
  bool ended_ = true;  // nothing more will be queued
  bool gone_ = false;
  std::string out_;  // queued
  std::function<void()> on_gone_;
};

}  // namespace munia::server
