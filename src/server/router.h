// From method and path to the function that answers. A pattern is a path ("/chat"), or a path with
// a rest of at least one character ("/v1/models/*").
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/exchange.h"

namespace munia::server {

class Service;
using Handler = std::function<void(Service& service, const ExchangePtr& exchange)>;

struct Route {
  std::string method;  // GET (also answers HEAD) or POST
  std::string pattern;
  Handler handler;
  bool is_public = false;  // asks for no API key
  bool is_quick = false;   // runs on the I/O thread: must not parse, block or compute
};

class Router {
 public:
  void add(Route route) { routes_.push_back(std::move(route)); }

  struct Match {
    const Route* route = nullptr;
    std::string rest;     // what "*" stands for
    std::string allowed;  // without a route: the methods that the path has, "GET, HEAD"; empty: 404
  };
  Match match(std::string_view method, std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

}  // namespace munia::server
