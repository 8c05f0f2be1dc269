#include "server/exchange.h"

#include <utility>

#include "server/sse.h"

namespace munia::server {

Exchange::Exchange(Request request, std::shared_ptr<Responder> responder, OnEnd on_end)
    : request_(std::move(request)), responder_(std::move(responder)), on_end_(std::move(on_end)) {
  common_headers_.emplace_back("x-request-id", request_.id);
}

Exchange::~Exchange() { fail({500, "the request was not answered", "", "internal_error", {}}); }

void Exchange::set_route(std::string pattern, std::string rest) {
  rest_ = std::move(rest);
  const std::lock_guard lock(mutex_);
  record_.route = std::move(pattern);
}

void Exchange::add_header(std::string name, std::string value) {
  common_headers_.emplace_back(std::move(name), std::move(value));
}

Fields Exchange::with_common(Fields headers) const {
  headers.insert(headers.end(), common_headers_.begin(), common_headers_.end());
  return headers;
}

void Exchange::json(int status, std::string json) {
  send(status, {{"content-type", "application/json"}}, std::move(json));
}

void Exchange::send(int status, Fields headers, std::string body) {
  const std::lock_guard lock(mutex_);
  if (ended_ || streaming_) return;
  record_.status = status;
  responder_->send(status, with_common(std::move(headers)), std::move(body));
  finish_locked();
}

void Exchange::fail(const ApiError& error) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  if (streaming_) {
    responder_->write(sse_event(error_body(error)));
    responder_->end();
    if (record_.finish_reason.empty()) record_.finish_reason = "error";
  } else {
    record_.status = error.status;
    Fields headers = error.headers;
    headers.emplace_back("content-type", "application/json");
    responder_->send(error.status, with_common(std::move(headers)), error_body(error));
  }
  finish_locked();
}

bool Exchange::event(std::string_view json) {
  const std::lock_guard lock(mutex_);
  if (ended_) return false;
  if (!streaming_) {
    streaming_ = true;
    record_.status = 200;
    responder_->start_stream(200, with_common(sse_headers()));
  }
  return responder_->write(sse_event(json));
}

void Exchange::done() {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  if (!streaming_) {
    streaming_ = true;
    record_.status = 200;
    responder_->start_stream(200, with_common(sse_headers()));
  }
  responder_->write(std::string(kSseDone));
  responder_->end();
  finish_locked();
}

void Exchange::abandon() {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  record_.client_gone = true;
  if (record_.finish_reason.empty()) record_.finish_reason = "cancelled";
  if (streaming_) responder_->end();
  finish_locked();
}

bool Exchange::started() const {
  const std::lock_guard lock(mutex_);
  return streaming_ || ended_;
}

void Exchange::on_client_gone(std::function<void()> callback) {
  responder_->on_client_gone(std::move(callback));
}

void Exchange::note_usage(std::int64_t prompt_tokens, std::int64_t cached_tokens,
                          std::int64_t completion_tokens, std::string_view finish_reason) {
  const std::lock_guard lock(mutex_);
  record_.prompt_tokens += prompt_tokens;
  record_.cached_tokens += cached_tokens;
  record_.completion_tokens += completion_tokens;
  if (!finish_reason.empty()) record_.finish_reason = finish_reason;
}

void Exchange::finish_locked() {
  ended_ = true;
  record_.total_ms =
      std::chrono::duration<double, std::milli>(Clock::now() - request_.arrived).count();
  if (on_end_) on_end_(request_, record_);
}

}  // namespace munia::server
