// Chooses file, encoding and headers for a GET of the page. The table itself is made by
// web/embed.cmake.
#include "server/page.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace munia::server {
namespace {

using namespace std::literals;

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kSecurityHeaders{{
    {"content-security-policy", kContentSecurityPolicy},
    {"x-content-type-options", "nosniff"},
    {"x-frame-options", "DENY"},
    {"referrer-policy", "no-referrer"},
    {"cross-origin-opener-policy", "same-origin"},
    {"cross-origin-resource-policy", "same-origin"},
    {"permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"},
}};

// What "/" says where the program was built without the page.
constexpr std::string_view kNoPage = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>munia</title>
<meta name="viewport" content="width=device-width"></head>
<body><h1>munia</h1>
<p>The service runs, but this program was built without its web page. <code>make serve</code> installs
Node.js and npm, builds the page and the program, and starts the service.</p>
<p lang="zh">服务正在运行，但这个程序编译时没有包含网页。<code>make serve</code> 会安装 Node.js 和
npm，编译网页和程序，然后启动服务。</p>
<pre>curl -H 'Content-Type: application/json' -d '{"text": "今天真开心"}' http://127.0.0.1:8080/predict</pre>
</body></html>
)html";

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

// Cuts the next part off `rest`, up to `separator` or the end.
std::string_view next_part(std::string_view& rest, char separator) {
  const auto end = std::min(rest.find(separator), rest.size());
  const auto part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return trim(part);
}

// "q=0", "q=0.0", "q=0.000": the encoding is refused.
bool is_zero_weight(std::string_view parameter) {
  if (parameter.size() < 3 || (parameter[0] != 'q' && parameter[0] != 'Q') || parameter[1] != '=') {
    return false;
  }
  return parameter.substr(2).find_first_not_of("0.") == std::string_view::npos;
}

}  // namespace

std::span<const std::pair<std::string_view, std::string_view>> page_security_headers() {
  return kSecurityHeaders;
}

bool accepts_gzip(std::string_view accept_encoding) {
  bool any_allowed = false;  // by "*"
  while (!accept_encoding.empty()) {
    std::string_view item = next_part(accept_encoding, ',');
    const std::string_view name = next_part(item, ';');
    bool refused = false;
    while (!item.empty()) refused = is_zero_weight(next_part(item, ';')) || refused;
    if (equal_ignoring_case(name, "gzip") || equal_ignoring_case(name, "x-gzip")) return !refused;
    if (name == "*") any_allowed = !refused;
  }
  return any_allowed;
}

bool matches_etag(std::string_view if_none_match, std::string_view etag) {
  if (trim(if_none_match) == "*") return true;
  while (!if_none_match.empty()) {
    std::string_view tag = next_part(if_none_match, ',');
    if (tag.starts_with("W/")) tag.remove_prefix(2);
    if (tag == etag) return true;
  }
  return false;
}

std::optional<PageAnswer> page_answer(std::string_view path, std::string_view accept_encoding,
                                      std::string_view if_none_match) {
  if (path == "/") path = "/index.html"sv;
  const auto files = page_files();
  PageAnswer answer;
  for (const auto& [name, value] : kSecurityHeaders) answer.headers.emplace_back(name, value);
  if (files.empty() && path == "/index.html") {
    answer.headers.emplace_back("content-type", "text/html; charset=utf-8");
    answer.headers.emplace_back("cache-control", "no-store");
    answer.body = kNoPage;
    return answer;
  }
  const auto file = std::find_if(files.begin(), files.end(),
                                 [&](const PageFile& candidate) { return candidate.path == path; });
  if (file == files.end()) return std::nullopt;

  answer.headers.emplace_back("etag", file->etag);
  answer.headers.emplace_back("vary", "accept-encoding");
  // Names below /assets/ hold a hash of the content; everything else is asked for again.
  answer.headers.emplace_back("cache-control", path.starts_with("/assets/")
                                                   ? "public, max-age=31536000, immutable"
                                                   : "no-cache");
  if (matches_etag(if_none_match, file->etag)) {
    answer.status = 304;
    return answer;
  }
  answer.headers.emplace_back("content-type", file->content_type);
  answer.body = file->plain;
  if (accepts_gzip(accept_encoding)) {
    answer.headers.emplace_back("content-encoding", "gzip");
    answer.body = file->gzip;
  }
  return answer;
}

}  // namespace munia::server
