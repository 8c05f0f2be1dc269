// GET /health, /ready, /metrics, /stats: how the service is.
#include "server/routes.h"

namespace munia::server {
namespace {

void get_health(Service&, const ExchangePtr& exchange) {
  exchange->json(200, R"({"status":"ok"})");
}

void get_ready(Service& service, const ExchangePtr& exchange) {
  if (service.ready()) {
    exchange->json(200, R"({"status":"ready"})");
  } else if (service.draining()) {
    exchange->fail(unavailable_error("the server is shutting down"));
  } else {
    exchange->fail(unavailable_error("the model is still loading"));
  }
}

void get_metrics(Service& service, const ExchangePtr& exchange) {
  exchange->send(200, {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}},
                 service.metrics().text(service.gauges()));
}

void get_stats(Service& service, const ExchangePtr& exchange) {
  exchange->json(200, service.metrics().stats_json(service.gauges()));
}

}  // namespace

void add_status_routes(Router& router) {
  router.add({"GET", "/health", get_health, true, true});
  router.add({"GET", "/ready", get_ready, true, true});
  router.add({"GET", "/metrics", get_metrics});
  router.add({"GET", "/stats", get_stats});
}

}  // namespace munia::server
