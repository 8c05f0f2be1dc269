// The service's counters, gauges and histograms, with the names that /metrics shows. The only file
// pair that includes the metrics library. Every method is safe from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace munia::server {

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void request_done(std::string_view route, int status, double seconds);
  void client_left();
  void rejected(std::string_view why);  // "queue_full", "wait", "deadline", "draining"

  /// A job of the engine has ended: "stop", "length", "cancelled", "deadline" or "error".
  void job_finished(std::string_view reason);
  void tokens(std::int64_t prompt, std::int64_t cached, std::int64_t generated);
  void queue_time(double seconds);
  void first_token(double seconds);
  void between_tokens(double seconds);
  void prefill_time(double seconds);
  void decode_time(double seconds);
  /// A text got a label, or (empty) none. Labels beyond the first 64 count as "other".
  void prediction(std::string_view label, double confidence);
  void special_token_attempts(std::int64_t n);

  struct Model {
    std::string name;
    std::string dtype;
    std::string isa;
    std::int64_t n_threads = 0;
    std::uint64_t memory_budget_bytes = 0;
  };
  void set_model(const Model& model);

  /// What the caller reads from elsewhere at each scrape.
  struct Gauges {
    std::size_t running = 0;
    std::size_t waiting = 0;
    std::size_t queue_capacity = 0;
    bool ready = false;
    double mean_request_seconds = 0;
    engine::EngineStats engine;
  };
  /// The text format of Prometheus; figures of the process are read now.
  std::string text(const Gauges& gauges);
  /// The figures that the page draws, as one line of JSON.
  std::string stats_json(const Gauges& gauges);

 private:
  struct State;
  void update(const Gauges& gauges);
  std::unique_ptr<State> state_;
};

}  // namespace munia::server
