// Failures as HTTP tells them: a status and one envelope,
// {"error":{"message","type","param","code"}}, the same on every route.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "server/http.h"

namespace munia::server {

/// The status by which "the client left" is logged; it is never sent.
inline constexpr int kClientGone = 499;

struct ApiError {
  int status = 400;
  std::string message;
  std::string param;  // the field that is wrong; empty: null
  std::string code;   // for programs; empty: null
  Fields headers;     // retry-after, x-should-retry, …
};

/// The envelope as one line of JSON; its "type" follows from the status. Bytes of the message that
/// are not UTF-8 are replaced.
std::string error_body(const ApiError& error);

ApiError bad_request(std::string message, std::string param = "", std::string code = "");
/// 503 that a client should not try again at once: the work took or would take too long.
ApiError deadline_error(std::string message);
/// 503 while loading or shutting down.
ApiError unavailable_error(std::string message);
/// 429 with Retry-After in whole seconds.
ApiError busy_error(std::string message, int retry_after_seconds);
/// An Error of engine, text or tasks: kLimit is a text too long for context or memory (400,
/// context_length_exceeded).
ApiError to_api_error(const Error& error, std::string param = "");

}  // namespace munia::server
