// What a Responder does to its connection, from any thread: it fills the connection's bounded queue
// under the mutex; the strand writes it out (http_server_session.cpp).
#include <array>
#include <boost/asio/post.hpp>
#include <boost/beast/http/status.hpp>
#include <cstdio>
#include <ctime>
#include <utility>

#include "server/http_server_session.h"

namespace munia::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 64> text{};
  const std::size_t n = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return {text.data(), n};
}

std::string chunk(std::string_view piece) {
  std::array<char, 20> size{};
  const int n = std::snprintf(size.data(), size.size(), "%zx\r\n", piece.size());
  std::string out(size.data(), static_cast<std::size_t>(n));
  out += piece;
  out += "\r\n";
  return out;
}

}  // namespace

std::string Session::head(int status, const Fields& headers, std::optional<std::size_t> body_size) {
  std::string out = is_http_1_0_ ? "HTTP/1.0 " : "HTTP/1.1 ";
  out += std::to_string(status);
  out += ' ';
  const auto reason = http::obsolete_reason(static_cast<http::status>(status));
  out.append(reason.data(), reason.size());
  out += "\r\n";
  const auto add = [&out](std::string_view name, std::string_view value) {
    out += name;
    out += ": ";
    // A line break in a value would begin another header.
    for (const char c : value) out += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
    out += "\r\n";
  };
  for (const auto& [name, value] : headers) add(name, value);
  add("date", http_date());
  if (chunked_) {
    add("transfer-encoding", "chunked");
  } else if (body_size && status != 204 && status != 304) {
    add("content-length", std::to_string(*body_size));
  }
  if (shared_.draining) keep_alive_ = false;
  if (!keep_alive_) {
    add("connection", "close");
  } else if (is_http_1_0_) {
    add("connection", "keep-alive");
  }
  out += "\r\n";
  return out;
}

void Session::send(std::uint64_t n, int status, const Fields& headers, std::string body) {
  {
    const std::lock_guard lock(mutex_);
    if (n != n_request_ || answered_ || gone_) return;
    answered_ = ended_ = true;
    chunked_ = false;
    out_ += head(status, headers, body.size());
    if (!is_head_) out_ += body;
    on_gone_ = nullptr;
  }
  post_pump();
}

void Session::start_stream(std::uint64_t n, int status, const Fields& headers) {
  {
    const std::lock_guard lock(mutex_);
    if (n != n_request_ || answered_ || gone_) return;
    answered_ = true;
    chunked_ = !is_http_1_0_;
    if (is_http_1_0_) keep_alive_ = false;  // the end of the connection is the end of the stream
    out_ += head(status, headers, std::nullopt);
  }
  post_pump();
}

bool Session::write(std::uint64_t n, std::string piece) {
  std::function<void()> on_gone;
  {
    const std::lock_guard lock(mutex_);
    if (n != n_request_ || !answered_ || ended_ || gone_) return false;
    if (piece.empty() || is_head_) return true;
    if (out_.size() + piece.size() > shared_.options.max_queued_bytes) {
      gone_ = true;
      out_.clear();
      on_gone = std::exchange(on_gone_, nullptr);
    } else {
      out_ += chunked_ ? chunk(piece) : std::move(piece);
    }
  }
  if (on_gone) on_gone();
  post_pump();
  const std::lock_guard lock(mutex_);
  return !gone_;
}

void Session::end(std::uint64_t n) {
  {
    const std::lock_guard lock(mutex_);
    if (n != n_request_ || !answered_ || ended_ || gone_) return;
    ended_ = true;
    if (chunked_ && !is_head_) out_ += "0\r\n\r\n";
    on_gone_ = nullptr;
  }
  post_pump();
}

void Session::on_client_gone(std::uint64_t n, std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (n != n_request_ || (ended_ && !gone_)) return;
    if (!gone_) {
      on_gone_ = std::move(callback);
      return;
    }
  }
  callback();
}

void Session::drop(std::uint64_t n) {
  {
    const std::lock_guard lock(mutex_);
    if (n != n_request_ || ended_ || gone_) return;
    gone_ = true;
    on_gone_ = nullptr;
  }
  post_pump();
}

void Session::post_pump() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] { self->pump(); });
}

}  // namespace munia::server
