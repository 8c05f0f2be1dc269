// Server-sent events in the form that the strictest clients read: "data: " and one line of JSON,
// then an empty line; LF only; no "event:" and no "id:" fields; "[DONE]" at the end.
#pragma once

#include <string>
#include <string_view>

#include "server/http.h"

namespace munia::server {

/// Content type, and what keeps caches and proxies from holding events back.
Fields sse_headers();
/// `json` is one line.
std::string sse_event(std::string_view json);
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

}  // namespace munia::server
