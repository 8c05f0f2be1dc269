#include "server/http.h"

#include <random>

namespace munia::server {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Percent escapes, and "+" as a space where `plus_is_space`.
std::optional<std::string> decode_percent(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

std::optional<std::string_view> find(const Fields& fields, std::string_view name) {
  for (const auto& [key, value] : fields) {
    if (key == name) return value;
  }
  return std::nullopt;
}

}  // namespace

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::optional<std::string_view> Request::header(std::string_view name) const {
  return find(headers, name);
}

std::size_t Request::count_headers(std::string_view name) const {
  std::size_t n = 0;
  for (const auto& [key, value] : headers) n += key == name;
  return n;
}

std::optional<std::string_view> Request::query_value(std::string_view name) const {
  return find(query, name);
}

bool parse_target(std::string_view target, Request& request) {
  request.target = target;
  request.query.clear();
  // "http://host/path", as a client of a proxy sends it.
  if (const std::size_t scheme = target.find("://");
      scheme != std::string_view::npos && !target.starts_with('/')) {
    const std::size_t slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  target = target.substr(0, target.find('#'));
  const std::size_t mark = target.find('?');
  const std::optional<std::string> path = decode_percent(target.substr(0, mark), false);
  if (!path) return false;
  request.path = *path;
  if (mark == std::string_view::npos) return true;
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const std::size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    const auto name = decode_percent(pair.substr(0, equals), true);
    const auto value = equals == std::string_view::npos
                           ? std::optional<std::string>("")
                           : decode_percent(pair.substr(equals + 1), true);
    if (!name || !value) return false;
    request.query.emplace_back(*name, *value);
  }
  return true;
}

std::string make_request_id(std::optional<std::string_view> asked) {
  constexpr std::size_t kMaxId = 128;
  const auto sensible = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-';
  };
  if (asked && !asked->empty() && asked->size() <= kMaxId) {
    bool good = true;
    for (const char c : *asked) good = good && sensible(c);
    if (good) return std::string(*asked);
  }
  constexpr const char* kHex = "0123456789abcdef";
  constexpr int kDigits = 24;
  thread_local std::mt19937_64 random(std::random_device{}());
  std::string id = "req_";
  for (int i = 0; i < kDigits; ++i) id += kHex[random() % 16];
  return id;
}

}  // namespace munia::server
