#include "server/errors.h"

#include "base/json_writer.h"
#include "base/utf8.h"

namespace munia::server {
namespace {

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

void write_or_null(JsonWriter& writer, std::string_view key, const std::string& text) {
  writer.key(key);
  if (text.empty()) {
    writer.null();
  } else {
    writer.value(replace_invalid_utf8(text));
  }
}

}  // namespace

std::string error_body(const ApiError& error) {
  JsonWriter writer;
  writer.begin_object().key("error").begin_object();
  writer.field("message", replace_invalid_utf8(error.message));
  writer.field("type", type_of(error.status));
  write_or_null(writer, "param", error.param);
  write_or_null(writer, "code", error.code);
  writer.end_object().end_object();
  return writer.text();
}

ApiError bad_request(std::string message, std::string param, std::string code) {
  return {400, std::move(message), std::move(param), std::move(code), {}};
}

ApiError deadline_error(std::string message) {
  return {503, std::move(message), "", "deadline_exceeded", {{"x-should-retry", "false"}}};
}

ApiError unavailable_error(std::string message) {
  return {503, std::move(message), "", "unavailable", {{"retry-after", "1"}}};
}

ApiError busy_error(std::string message, int retry_after_seconds) {
  return {429,
          std::move(message),
          "",
          "queue_full",
          {{"retry-after", std::to_string(retry_after_seconds)}}};
}

ApiError to_api_error(const Error& error, std::string param) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kInvalidData:
      return bad_request(error.message, std::move(param));
    case ErrorCode::kLimit:
      return bad_request(error.message, std::move(param), "context_length_exceeded");
    case ErrorCode::kUnsupported:
      return bad_request(error.message, std::move(param), "unsupported");
    case ErrorCode::kNotFound:
      return {404, error.message, std::move(param), "not_found", {}};
    case ErrorCode::kDeadline:
      return deadline_error(error.message);
    case ErrorCode::kUnavailable:
      return unavailable_error(error.message);
    case ErrorCode::kCancelled:
      return {kClientGone, error.message, "", "cancelled", {}};
    case ErrorCode::kIo:
      break;
  }
  return {500, error.message, "", "internal_error", {}};
}

}  // namespace munia::server
