#include "server/http_server_session.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

namespace munia::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::size_t kReadBytes = 4096;
constexpr std::size_t kMaxReadAhead = std::size_t{16} << 10;  // requests sent before the answer
constexpr std::size_t kMaxLingerBytes = std::size_t{4} << 20;
constexpr auto kLingerTime = std::chrono::seconds(2);

std::chrono::nanoseconds duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

// The answer to a request that could not be read; nothing where there is nobody to tell.
std::optional<ApiError> read_failure(const beast::error_code& error, const HttpOptions& options) {
  if (error == http::error::header_limit) {
    return ApiError{431,
                    "the request's header is longer than " +
                        std::to_string(options.max_header_bytes) + " bytes (--max-header)",
                    "",
                    "header_too_large",
                    {}};
  }
  if (error == http::error::body_limit) {
    return ApiError{413,
                    "the request's body is longer than " + std::to_string(options.max_body_bytes) +
                        " bytes (--max-body)",
                    "",
                    "body_too_large",
                    {}};
  }
  if (error == http::error::end_of_stream || error == http::error::partial_message) {
    return std::nullopt;
  }
  if (error.category() == http::make_error_code(http::error::bad_method).category()) {
    return bad_request("not a request of HTTP/1.1: " + error.message(), "", "bad_http");
  }
  return std::nullopt;  // time-out, reset
}

}  // namespace

Session::Session(Socket socket, std::string peer, SessionShared& shared)
    : shared_(shared), peer_(std::move(peer)), stream_(std::move(socket)) {
  ++shared_.n_connections;
}

Session::~Session() {
  answer_closed();
  --shared_.n_connections;
}

void Session::start() {
  asio::dispatch(stream_.get_executor(), [self = shared_from_this()] { self->wait_request(); });
}

void Session::refuse(const ApiError& error) {
  std::uint64_t n = 0;
  {
    const std::lock_guard lock(mutex_);
    n = ++n_request_;
    keep_alive_ = answered_ = ended_ = is_head_ = is_http_1_0_ = false;
  }
  shared_.on_refused(error.status);
  Fields headers = error.headers;
  headers.emplace_back("content-type", "application/json");
  headers.emplace_back("x-request-id", make_request_id());
  send(n, error.status, headers, error_body(error));
}

// ---- Reading ----------------------------------------------------------------------------------

void Session::wait_request() {
  parser_.reset();
  if (buffer_.size() > 0) return read_header();
  buffer_.shrink_to_fit();  // idle connections are many
  stream_.expires_after(duration(shared_.options.idle_seconds));
  stream_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this()](ErrorCode error, std::size_t n) {
                            if (error) return self->close();
                            self->buffer_.commit(n);
                            self->read_header();
                          });
}

void Session::read_header() {
  arrived_ = Clock::now();
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(shared_.options.max_header_bytes));
  parser_->body_limit(shared_.options.max_body_bytes);
  stream_.expires_after(duration(shared_.options.read_seconds));
  http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](ErrorCode error, std::size_t) { self->on_header(error); });
}

void Session::on_header(ErrorCode error) {
  if (error) return on_read_error(error);
  const http::fields& fields = parser_->get();
  if (beast::iequals(fields[http::field::expect], "100-continue") &&
      parser_->get().version() == 11) {
    return send_continue();
  }
  read_body();
}

void Session::send_continue() {
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  stream_.expires_after(duration(shared_.options.write_seconds));
  asio::async_write(stream_, asio::buffer(kContinue),
                    [self = shared_from_this()](ErrorCode error, std::size_t) {
                      if (error) return self->close();
                      self->read_body();
                    });
}

void Session::read_body() {
  stream_.expires_after(duration(shared_.options.read_seconds));
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](ErrorCode error, std::size_t) {
                     if (error) return self->on_read_error(error);
                     self->deliver();
                   });
}

void Session::on_read_error(ErrorCode error) {
  const std::optional<ApiError> failure = read_failure(error, shared_.options);
  if (failure) {
    refuse(*failure);
  } else {
    close();
  }
}

namespace {

// The Responder of one request: a handle to its connection.
class Reply final : public Responder {
 public:
  Reply(std::shared_ptr<Session> session, std::uint64_t n) : session_(std::move(session)), n_(n) {}
  ~Reply() override { session_->drop(n_); }
  void send(int status, Fields headers, std::string body) override {
    session_->send(n_, status, headers, std::move(body));
  }
  void start_stream(int status, Fields headers) override {
    session_->start_stream(n_, status, headers);
  }
  bool write(std::string piece) override { return session_->write(n_, std::move(piece)); }
  void end() override { session_->end(n_); }
  void on_client_gone(std::function<void()> callback) override {
    session_->on_client_gone(n_, std::move(callback));
  }

 private:
  const std::shared_ptr<Session> session_;
  const std::uint64_t n_;
};

}  // namespace

void Session::deliver() {
  auto message = parser_->release();
  Request request;
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  request.peer = peer_;
  request.is_unix = !shared_.options.unix_path.empty();
  request.arrived = arrived_;
  for (const auto& field : message) {
    request.headers.emplace_back(lower(field.name_string()), field.value());
  }
  request.body = std::move(message.body());
  request.id = make_request_id(request.header("x-request-id"));
  std::uint64_t n = 0;
  {
    const std::lock_guard lock(mutex_);
    n = ++n_request_;
    is_head_ = request.method == "HEAD";
    is_http_1_0_ = message.version() == 10;
    keep_alive_ = message.keep_alive();
    answered_ = chunked_ = ended_ = false;
  }
  parser_.reset();
  answer_open_ = true;
  ++shared_.n_open_answers;
  watch();
  shared_.on_request(std::move(request), std::make_shared<Reply>(shared_from_this(), n));
}

// ---- Watching for the client to leave ---------------------------------------------------------

void Session::watch() {
  if (watching_ || buffer_.size() >= kMaxReadAhead) return;
  watching_ = true;
  stream_.expires_never();
  stream_.async_read_some(
      buffer_.prepare(kReadBytes),
      [self = shared_from_this()](ErrorCode error, std::size_t n) { self->on_watched(error, n); });
}

void Session::on_watched(ErrorCode error, std::size_t n_bytes) {
  watching_ = false;
  buffer_.commit(n_bytes);
  const After after = std::exchange(after_watch_, After::kNothing);
  if (error && error != asio::error::operation_aborted) return client_gone();
  if (after == After::kLinger) return drain_input();
  if (after == After::kNextRequest) return wait_request();
  if (error) return client_gone();  // the write timer closed the socket
  watch();
}

// ---- Writing ------------------------------------------------------------------------------------

void Session::pump() {
  bool all_written = false;
  {
    std::unique_lock lock(mutex_);
    if (gone_) {
      out_.clear();
      lock.unlock();
      return close();
    }
    if (writing_) return;
    all_written = out_.empty() && ended_ && answered_;
    in_flight_.swap(out_);
  }
  if (all_written) return finish_answer();
  if (in_flight_.empty()) return;
  writing_ = true;
  stream_.expires_after(duration(shared_.options.write_seconds));
  asio::async_write(
      stream_, asio::buffer(in_flight_),
      [self = shared_from_this()](ErrorCode error, std::size_t) { self->on_written(error); });
}

void Session::on_written(ErrorCode error) {
  writing_ = false;
  in_flight_.clear();
  if (error) return client_gone();
  pump();
}

void Session::finish_answer() {
  bool keep = false;
  {
    const std::lock_guard lock(mutex_);
    answered_ = false;  // so that this happens once
    keep = keep_alive_;
  }
  answer_closed();
  in_flight_ = {};
  if (!keep) return linger();
  if (watching_) {
    // The pending read has no time-out: it ends, and the next one has the idle time-out.
    after_watch_ = After::kNextRequest;
    stream_.cancel();
  } else {
    wait_request();
  }
}

// Closing with unread input would reset the connection, and the answer could be lost on its way.
void Session::linger() {
  ErrorCode ignored;
  stream_.socket().shutdown(Socket::shutdown_send, ignored);
  if (watching_) {
    after_watch_ = After::kLinger;
    stream_.cancel();
  } else {
    drain_input();
  }
}

void Session::drain_input() {
  buffer_.clear();
  if (n_lingered_ == 0) stream_.expires_after(kLingerTime);
  if (n_lingered_ > kMaxLingerBytes) return close();
  stream_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this()](ErrorCode error, std::size_t n) {
                            if (error) return self->close();
                            self->n_lingered_ += n;
                            self->drain_input();
                          });
}

void Session::client_gone() {
  std::function<void()> on_gone;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    on_gone = std::exchange(on_gone_, nullptr);
  }
  close();
  if (on_gone) on_gone();
}

void Session::close() {
  answer_closed();
  stream_.close();
}

void Session::answer_closed() {
  if (std::exchange(answer_open_, false)) --shared_.n_open_answers;
}

}  // namespace munia::server
