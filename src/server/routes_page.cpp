// GET / and the page's files. They ask for no key: the page itself asks the user for one. Without a
// built page, / says how to get it.
#include <algorithm>
#include <array>

#include "server/page_files.h"
#include "server/routes.h"

namespace munia::server {
namespace {

constexpr std::string_view kNoPage = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>munia</title>
<meta name="viewport" content="width=device-width"></head>
<body>
<h1>munia</h1>
<p>The service runs, but this program was built without the web page. Build it with
<code>make serve</code>, or use the routes directly:</p>
<p lang="zh">服务正在运行，但本程序构建时没有包含网页。请用 <code>make serve</code>
构建，或直接使用接口：</p>
<pre>curl -H 'Content-Type: application/json' -d '{"text": "今天真开心"}' http://127.0.0.1:8080/predict</pre>
</body></html>
)html";

// Nothing from elsewhere, no inline script, in nobody's frame.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

struct Type {
  std::string_view ending;
  const char* name;
};
constexpr std::array kTypes = {
    Type{".html", "text/html; charset=utf-8"},
    Type{".js", "text/javascript; charset=utf-8"},
    Type{".css", "text/css; charset=utf-8"},
    Type{".svg", "image/svg+xml"},
    Type{".json", "application/json"},
    Type{".png", "image/png"},
    Type{".ico", "image/x-icon"},
    Type{".webmanifest", "application/manifest+json"},
    Type{".txt", "text/plain; charset=utf-8"},
    Type{".woff2", "font/woff2"},
};

const char* type_of(std::string_view path) {
  for (const Type& type : kTypes) {
    if (path.ends_with(type.ending)) return type.name;
  }
  return "application/octet-stream";
}

const PageFile* find_file(std::string_view path) {
  const std::span<const PageFile> files = page_files();
  const auto found = std::lower_bound(
      files.begin(), files.end(), path,
      [](const PageFile& file, std::string_view wanted) { return file.path < wanted; });
  return found != files.end() && found->path == path ? &*found : nullptr;
}

Fields page_headers(std::string_view path) {
  return {{"content-type", type_of(path)},
          {"content-security-policy", kPolicy},
          {"x-content-type-options", "nosniff"},
          {"referrer-policy", "no-referrer"},
          {"cross-origin-opener-policy", "same-origin"},
          // Names of files below assets/ hold a digest of the content.
          {"cache-control",
           path.starts_with("assets/") ? "public, max-age=31536000, immutable" : "no-cache"}};
}

void get_file(const ExchangePtr& exchange, const std::string& path) {
  Fields headers = page_headers(path);
  const bool takes_gzip = exchange->request().header("accept-encoding").value_or("").find("gzip") !=
                          std::string_view::npos;
  const PageFile* file = takes_gzip ? find_file(path + ".gz") : nullptr;
  if (file != nullptr) {
    headers.emplace_back("content-encoding", "gzip");
    headers.emplace_back("vary", "accept-encoding");
  } else {
    file = find_file(path);
  }
  if (file != nullptr) {
    exchange->send(200, std::move(headers), std::string(file->content));
  } else if (path == "index.html") {
    exchange->send(200, std::move(headers), std::string(kNoPage));
  } else {
    exchange->fail({404, "there is nothing at this address", "", "not_found", {}});
  }
}

}  // namespace

void add_page_routes(Router& router) {
  router.add({"GET", "/", [](Service&, const ExchangePtr& e) { get_file(e, "index.html"); }, true});
  for (const PageFile& file : page_files()) {
    if (file.path == "index.html" || file.path.ends_with(".gz")) continue;
    router.add(
        {"GET", "/" + std::string(file.path),
         [path = std::string(file.path)](Service&, const ExchangePtr& e) { get_file(e, path); },
         true});
  }
}

}  // namespace munia::server
