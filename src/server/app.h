// From a whole request to a route: common headers, guard, routing, and which thread runs it. Tests
// and the fuzzer call handle() with a Responder of their own.
#pragma once

#include <memory>

#include "server/guard.h"
#include "server/log.h"
#include "server/router.h"
#include "server/service.h"
#include "server/worker_pool.h"

namespace munia::server {

class App {
 public:
  /// `n_workers` 0: routes run on the calling thread.
  App(Service& service, GuardOptions guard, Log& log, int n_workers);

  void handle(Request request, std::shared_ptr<Responder> responder);
  /// Counts an answer that was given before there was a request.
  void note_refused(int status);
  /// Does what is queued and ends the workers; afterwards routes run on the calling thread.
  void stop_workers();

 private:
  void on_end(const Request& request, const Record& record);
  void dispatch(const ExchangePtr& exchange);

  Service& service_;
  Log& log_;
  const Guard guard_;
  Router router_;
  std::unique_ptr<WorkerPool> workers_;
};

}  // namespace munia::server
