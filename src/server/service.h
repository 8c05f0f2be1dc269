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
  std::string id;            // bundle->name
  std::int64_t created = 0;  // Unix time of the load
  std::int64_t n_threads = 0;
  std::map<std::string, Result<tasks::Classifier>> classifiers;  // by task name
};

/// What work says at its end: nothing, or why it failed (then the exchange is answered with it).
using Outcome = std::optional<ApiError>;

class Service {
 public:
  explicit Service(ServiceOptions options);

  const ServiceOptions& options() const { return options_; }
  Metrics& metrics() { return metrics_; }
  Admission& admission() { return admission_; }

  // Loading -> ready -> draining.
  void set_model(LoadedModel model);  // also warms the model up; then ready() is true
  bool ready() const { return ready_ && !draining_; }
  bool draining() const { return draining_; }
  void drain();
  /// The model; nullptr while it loads.
  const LoadedModel* model() const { return ready_ ? model_.get() : nullptr; }
  /// The model, or the exchange is answered with 503 and nullptr comes back.
  const LoadedModel* model_or_fail(const ExchangePtr& exchange) const;

  /// Runs `work` on the model's side: queued, cancelled when the client leaves, ended at the
  /// deadline (`asked_seconds` may shorten it). An ApiError that it returns answers the exchange.
  void run(const ExchangePtr& exchange, Priority priority, std::optional<double> asked_seconds,
           std::function<Outcome(JobScope&)> work);

  /// Submits a job within `scope` and waits for it; counts tokens and times. A stopped scope gives
  /// its reason as the Error. `exchange` is for the time of arrival and the log.
  Result<engine::GenerateResult> generate(Exchange& exchange, JobScope& scope,
                                          engine::GenerateJob job);

  /// 400 context_length_exceeded when a prompt leaves no room for one token, with both numbers.
  static Outcome check_prompt(const LoadedModel& model, std::size_t n_prompt_tokens);

 private:
  const ServiceOptions options_;
  Metrics metrics_;
  std::unique_ptr<LoadedModel> model_;
  std::atomic<bool> ready_{false};
  std::atomic<bool> draining_{false};
  Admission admission_;  // last: its threads use the rest
};

/// The common body field "timeout": seconds, from 0.001 to a day.
std::optional<double> read_timeout(class BodyReader& body);

}  // namespace munia::server
