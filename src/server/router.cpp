#include "server/router.h"

#include <algorithm>

namespace munia::server {
namespace {

bool fits(std::string_view pattern, std::string_view path, std::string& rest) {
  if (!pattern.ends_with('*')) return pattern == path;
  pattern.remove_suffix(1);
  if (path.size() <= pattern.size() || !path.starts_with(pattern)) return false;
  rest = path.substr(pattern.size());
  return true;
}

void add_word(std::string& list, std::string_view word) {
  if (!list.empty()) list += ", ";
  list += word;
}

}  // namespace

Router::Match Router::match(std::string_view method, std::string_view path) const {
  Match match;
  for (const Route& route : routes_) {
    std::string rest;
    if (!fits(route.pattern, path, rest)) continue;
    if (route.method == method || (route.method == "GET" && method == "HEAD")) {
      return {&route, std::move(rest), ""};
    }
    add_word(match.allowed, route.method);
    if (route.method == "GET") add_word(match.allowed, "HEAD");
  }
  if (!match.allowed.empty()) add_word(match.allowed, "OPTIONS");
  return match;
}

}  // namespace munia::server
