// The web page inside the program: the files of web/dist, compressed and with their ETags, put here
// at build time by web/embed.cmake, and the answer to a GET for one of them. Plain values, no type
// of the HTTP library: the router calls page_answer() and sends what it says.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace munia::server {

/// One file of the page. The views point into the program's constants.
struct PageFile {
  std::string_view path;          // "/index.html", "/assets/index-D3adB33f.js"
  std::string_view content_type;  // "text/html; charset=utf-8"
  std::string_view etag;          // quoted, of the plain bytes
  std::string_view plain;
  std::string_view gzip;  // the same, compressed
};

/// The files, ordered by path; empty where the program was built without the page.
std::span<const PageFile> page_files();

/// What the page may do: run and style itself from its own files and talk to its own server. No
/// inline script or style, no eval, no other host, no frame around it; HTML is made by the
/// sanitizer alone (trusted types). web/mock/server.mjs reads this constant, so that the browser
/// test runs under it.
inline constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types dompurify";

/// Headers of every file of the page, the policy among them.
std::span<const std::pair<std::string_view, std::string_view>> page_security_headers();

struct PageAnswer {
  int status = 200;                                          // or 304
  std::vector<std::pair<std::string, std::string>> headers;  // lower-case names, no content-length
  std::string_view body;                                     // points into the program's constants
};

/// The answer for `path` ("/" is "/index.html"; without the page it tells how to get it), or
/// nothing where the page has no such file: then it is the router's 404. The other two are the
/// request's headers, empty where they are absent.
std::optional<PageAnswer> page_answer(std::string_view path, std::string_view accept_encoding,
                                      std::string_view if_none_match);

/// True where an Accept-Encoding header allows gzip (RFC 9110, 12.5.3). An absent header does not
/// ask for it: plain bytes are right for everyone.
bool accepts_gzip(std::string_view accept_encoding);
/// True where an If-None-Match header names `etag`, weakly compared, or is "*".
bool matches_etag(std::string_view if_none_match, std::string_view etag);

}  // namespace munia::server
