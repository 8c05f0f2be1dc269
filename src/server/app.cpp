#include "server/app.h"

#include <utility>

#include "server/routes.h"

namespace munia::server {

App::App(Service& service, GuardOptions guard, Log& log, int n_workers)
    : service_(service), log_(log), guard_(std::move(guard)) {
  add_status_routes(router_);
  add_page_routes(router_);
  add_article_routes(router_);
  add_classify_routes(router_);
  add_text_routes(router_);
  add_openai_routes(router_);
  if (n_workers > 0) workers_ = std::make_unique<WorkerPool>(n_workers);
}

void App::stop_workers() { workers_.reset(); }

void App::note_refused(int status) { service_.metrics().request_done("other", status, 0); }

void App::on_end(const Request& request, const Record& record) {
  if (record.client_gone) service_.metrics().client_left();
  service_.metrics().request_done(record.route, record.client_gone ? kClientGone : record.status,
                                  record.total_ms * 1e-3);
  log_.request(request, record);
}

void App::handle(Request request, std::shared_ptr<Responder> responder) {
  const bool good_target = parse_target(std::string(request.target), request);
  const auto exchange = std::make_shared<Exchange>(
      std::move(request), std::move(responder),
      [this](const Request& asked, const Record& record) { on_end(asked, record); });
  for (auto& [name, value] : guard_.cors_headers(exchange->request())) {
    exchange->add_header(name, value);
  }
  if (!good_target) {
    exchange->fail(bad_request("the address holds a broken percent escape", "", "bad_target"));
    return;
  }
  dispatch(exchange);
}

void App::dispatch(const ExchangePtr& exchange) {
  const Request& request = exchange->request();
  if (request.method == "OPTIONS") {
    if (const auto error = guard_.check(request, true)) return exchange->fail(*error);
    exchange->set_route("preflight", "");
    return exchange->send(204, guard_.preflight_headers(request), "");
  }
  Router::Match match = router_.match(request.method, request.path);
  if (match.route != nullptr) exchange->set_route(match.route->pattern, std::move(match.rest));
  // Also before "not found", so that nobody without a key learns what is there.
  if (const auto error = guard_.check(request, match.route != nullptr && match.route->is_public)) {
    return exchange->fail(*error);
  }
  if (match.route == nullptr && match.allowed.empty()) {
    return exchange->fail({404, "there is nothing at this address", "", "not_found", {}});
  }
  if (match.route == nullptr) {
    return exchange->fail({405,
                           "this address does not take that method, but " + match.allowed,
                           "",
                           "method_not_allowed",
                           {{"allow", match.allowed}}});
  }
  if (request.method == "POST" && service_.draining()) {
    return exchange->fail(unavailable_error("the server is shutting down"));
  }
  auto work = [this, exchange, route = match.route] {
    const Outcome failed = guarded([&]() -> Outcome {
      route->handler(service_, exchange);
      return std::nullopt;
    });
    if (failed) exchange->fail(*failed);
  };
  if (match.route->is_quick || workers_ == nullptr) {
    work();
  } else {
    workers_->post(std::move(work));
  }
}

}  // namespace munia::server
