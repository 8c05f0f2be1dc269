// Who may ask: API keys, and the defence of a service on this machine against web pages that run in
// a browser on it (Host allow-list against DNS rebinding, Origin, Sec-Fetch-Site, content type).
// Pure functions of the request's header.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/errors.h"
#include "server/http.h"

namespace munia::server {

struct GuardOptions {
  std::vector<std::string> api_keys;       // empty: everybody may ask
  std::vector<std::string> cors_origins;   // "https://app.example", or "*"
  std::vector<std::string> allowed_hosts;  // beside localhost and addresses; "*": any
};

class Guard {
 public:
  explicit Guard(GuardOptions options);

  /// The first reason to refuse, or nothing. `is_public`: the route asks for no key.
  std::optional<ApiError> check(const Request& request, bool is_public) const;
  /// CORS headers of every answer, errors too.
  Fields cors_headers(const Request& request) const;
  /// What a preflight (OPTIONS) gets beside them.
  Fields preflight_headers(const Request& request) const;

 private:
  bool origin_allowed(const Request& request, std::string_view origin) const;
  std::optional<ApiError> check_host(const Request& request) const;
  std::optional<ApiError> check_site(const Request& request) const;
  bool key_is_known(const Request& request) const;

  GuardOptions options_;
  std::vector<std::string> key_digests_;  // SHA-256, so that all have one length
};

/// True for "localhost", names below it, and addresses that only this machine reaches.
bool is_loopback_host(std::string_view host);

}  // namespace munia::server
