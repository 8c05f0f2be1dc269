#include "server/guard.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/sha256.h"

namespace munia::server {
namespace {

constexpr std::string_view kBearer = "bearer ";

// "[::1]:8080" -> "::1", "LocalHost.:80" -> "localhost"; empty for what is no host.
std::string host_name(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t bracket = host.find(']');
    return bracket == std::string_view::npos ? "" : lower(host.substr(1, bracket - 1));
  }
  std::string name = lower(host.substr(0, host.find(':')));
  if (name.ends_with('.')) name.pop_back();
  return name;
}

bool is_address(const std::string& name) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, name.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, name.c_str(), bytes) == 1;
}

// "http://host:port" -> "host:port"; empty for "null" and the like.
std::string_view origin_host(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

ApiError forbidden(std::string message, std::string code) {
  return {403, std::move(message), "", std::move(code), {}};
}

std::string digest_of(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); }

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 200;
  return "\"" + std::string(text.substr(0, kMost)) + "\"";
}

}  // namespace

bool is_loopback_host(std::string_view host) {
  const std::string name = lower(host);
  if (name == "localhost" || name.ends_with(".localhost") || name == "::1") return true;
  return name.starts_with("127.") && is_address(name);
}

Guard::Guard(GuardOptions options) : options_(std::move(options)) {
  for (std::string& host : options_.allowed_hosts) host = lower(host);
  for (const std::string& key : options_.api_keys) key_digests_.push_back(digest_of(key));
}

bool Guard::origin_allowed(const Request& request, std::string_view origin) const {
  if (contains(options_.cors_origins, "*") || contains(options_.cors_origins, origin)) return true;
  const std::string_view host = origin_host(origin);
  if (host.empty()) return false;
  if (is_loopback_host(host_name(host))) return true;
  return lower(host) == lower(request.header("host").value_or(""));
}

std::optional<ApiError> Guard::check_host(const Request& request) const {
  if (request.is_unix) return std::nullopt;
  if (request.count_headers("host") != 1) {
    return bad_request("the request must have one Host header, it has " +
                           std::to_string(request.count_headers("host")),
                       "", "bad_host");
  }
  const std::string name = host_name(*request.header("host"));
  if (is_loopback_host(name) || is_address(name) || contains(options_.allowed_hosts, "*") ||
      contains(options_.allowed_hosts, name)) {
    return std::nullopt;
  }
  return forbidden("the host name " + shown(name) +
                       " is not one that this server answers to; allow it with --allow-host",
                   "host_not_allowed");
}

std::optional<ApiError> Guard::check_site(const Request& request) const {
  if (const auto origin = request.header("origin")) {
    if (origin_allowed(request, *origin)) return std::nullopt;
    return forbidden(
        "web pages from " + shown(*origin) + " may not use this server; allow them with --cors",
        "origin_not_allowed");
  }
  const auto value = [&request](std::string_view name) {
    return lower(request.header(name).value_or(""));
  };
  if (value("sec-fetch-site") != "cross-site" || contains(options_.cors_origins, "*")) {
    return std::nullopt;
  }
  // A link to the page itself does nothing but show it.
  if (request.method == "GET" && request.path == "/" && value("sec-fetch-dest") == "document") {
    return std::nullopt;
  }
  return forbidden("requests from another web site are refused; allow its origin with --cors",
                   "cross_site");
}

bool Guard::key_is_known(const Request& request) const {
  const std::string_view header = request.header("authorization").value_or("");
  if (lower(header.substr(0, kBearer.size())) != kBearer) return false;
  const std::string digest = digest_of(header.substr(kBearer.size()));
  // Every key is compared whole, whatever comes out.
  int known = 0;
  for (const std::string& key : key_digests_) {
    known |= CRYPTO_memcmp(key.data(), digest.data(), digest.size()) == 0;
  }
  return known != 0;
}

std::optional<ApiError> Guard::check(const Request& request, bool is_public) const {
  if (auto error = check_host(request)) return error;
  if (auto error = check_site(request)) return error;
  if (!is_public && !key_digests_.empty() && !key_is_known(request)) {
    return ApiError{401,
                    "this server wants an API key: send \"Authorization: Bearer KEY\"",
                    "",
                    "invalid_api_key",
                    {{"www-authenticate", "Bearer"}}};
  }
  if (request.method == "POST") {
    const std::string_view type = request.header("content-type").value_or("");
    std::string media = lower(type.substr(0, type.find(';')));
    while (media.ends_with(' ') || media.ends_with('\t')) media.pop_back();
    if (media != "application/json") {
      return ApiError{415,
                      "the content type is " + shown(type) +
                          "; send JSON with \"Content-Type: application/json\"",
                      "",
                      "unsupported_media_type",
                      {}};
    }
  }
  return std::nullopt;
}

Fields Guard::cors_headers(const Request& request) const {
  const auto origin = request.header("origin");
  if (!origin || !origin_allowed(request, *origin)) return {};
  return {{"access-control-allow-origin", std::string(*origin)},
          {"access-control-expose-headers", "x-request-id, retry-after"},
          {"vary", "origin"}};
}

Fields Guard::preflight_headers(const Request& request) const {
  Fields headers = {{"access-control-allow-methods", "GET, POST, OPTIONS"},
                    {"access-control-max-age", "86400"}};
  // Echoed: clients send headers of their own, and "*" does not cover Authorization.
  if (const auto asked = request.header("access-control-request-headers")) {
    headers.emplace_back("access-control-allow-headers", std::string(*asked));
  }
  if (request.header("access-control-request-private-network")) {
    headers.emplace_back("access-control-allow-private-network", "true");
  }
  return headers;
}

}  // namespace munia::server
