// What routes work with: the model once it is loaded, admission, metrics, and the way to run
// something on the model for an exchange. Made once by `munia serve`; outlives every exchange.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/admission.h"
#include "server/exchange.h"
#include "server/metrics.h"
#include "tasks/classify.h"

namespace munia::server {

struct ServiceOptions {
  AdmissionOptions admission;
  tasks::Task default_task;
  std::string version;
  std::int64_t max_texts = 1024;  // of one /classify
};

/// The model and what is made from it once.
struct LoadedModel {
  std::shared_ptr<const engine::ModelBundle> bundle;
  engine::Engine* engine = nullptr;
  std::string id;                                                // bundle->name
  std::int64_t created = 0;                                      // Unix time of the load
  std::map<std::string, Result<tasks::Classifier>> classifiers;  // by task name
};

/// What work says at its end: nothing, or why it failed (then the exchange is answered with it).
using Outcome = std::optional<ApiError>;

/// Runs `body`; an exception becomes an ApiError.
Outcome guarded(const std::function<Outcome()>& body);

class Service {
 public:
  explicit Service(ServiceOptions options);

  const ServiceOptions& options() const { return options_; }
  Metrics& metrics() { return metrics_; }
  Admission& admission() { return admission_; }
  Metrics::Gauges gauges() const;

  // Loading, then ready, then draining.
  /// Prepares the tasks, warms the model up, and lets requests in.
  void set_model(LoadedModel model);
  bool ready() const { return ready_ && !draining_; }
  bool draining() const { return draining_; }
  /// No new work from now on; what waits and runs is finished.
  void drain();
  /// The model; nullptr while it loads.
  const LoadedModel* model() const { return ready_ ? model_.get() : nullptr; }
  /// The model, or the exchange is answered with 503 and nullptr comes back.
  const LoadedModel* model_or_fail(const ExchangePtr& exchange);

  /// Runs `work` on a thread that may wait for the model: queued, cancelled when the client leaves,
  /// ended at the deadline (`asked_seconds` may shorten it). An ApiError that it returns answers
  /// the exchange; it may be returned in the middle of a stream too.
  void run(const ExchangePtr& exchange, Priority priority, std::optional<double> asked_seconds,
           std::function<Outcome(JobScope&)> work);

  /// Submits a job within `scope` and waits for it; counts tokens and times. A stopped scope gives
  /// its reason as the Error.
  Result<engine::GenerateResult> generate(Exchange& exchange, JobScope& scope,
                                          engine::GenerateJob job);
  // The parts of generate(), for work that submits several jobs.
  /// Counts the time to the first piece and between pieces; then calls `on_text` (may be empty).
  std::function<void(std::string_view)> timed(std::function<void(std::string_view)> on_text,
                                              Clock::time_point arrived);
  void note_job(const engine::Usage& usage, const engine::Timings& timings,
                std::string_view finish_reason);
  /// The Error to tell of a failed job: the scope's reason where that is what ended it.
  Error told_reason(const Error& error, const JobScope& scope);

  /// 400 context_length_exceeded when a prompt leaves no room for one token, with both numbers.
  static Outcome check_prompt(const LoadedModel& model, std::size_t n_prompt_tokens,
                              std::string param = "");

 private:
  void warm_up(const LoadedModel& model);
  const ServiceOptions options_;
  Metrics metrics_;
  std::unique_ptr<LoadedModel> model_;
  std::atomic<bool> ready_{false};
  std::atomic<bool> draining_{false};
  Admission admission_;  // last: its threads use the rest
};

class BodyReader;
/// The common body field "timeout": seconds, up to a day.
std::optional<double> read_timeout(BodyReader& body);

}  // namespace munia::server
