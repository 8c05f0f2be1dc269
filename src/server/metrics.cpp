#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "base/json_writer.h"
#include "server/process_info.h"

namespace munia::server {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;
using Labels = std::map<std::string, std::string>;

constexpr std::size_t kMaxLabels = 64;
constexpr std::size_t kRecent = 256;

// vLLM's buckets, so that its dashboards need a rename only.
const Buckets kFirstTokenSeconds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                    0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                    20,    40,    80,   160,  640,  2560};
const Buckets kTokenSeconds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                               0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
const Buckets kRequestSeconds = {0.01, 0.03, 0.1, 0.3, 0.5, 0.8, 1,   1.5, 2,   2.5, 5,   10,
                                 15,   20,   30,  40,  50,  60,  120, 240, 480, 960, 1920};
const Buckets kTokens = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000};
const Buckets kShares = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1};

// The last values of something, for percentiles of the recent past.
class Recent {
 public:
  void add(double value) {
    values_[next_ % kRecent] = value;
    ++next_;
  }
  void write(JsonWriter& writer) const {
    std::vector<double> sorted(values_.begin(), values_.begin() + std::min(next_, kRecent));
    std::sort(sorted.begin(), sorted.end());
    const auto at = [&sorted](double share) {
      return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
    };
    writer.begin_object().field("count", next_);
    if (!sorted.empty()) {
      writer.field("last", values_[(next_ - 1) % kRecent])
          .field("p50", at(0.5))
          .field("p95", at(0.95))
          .field("p99", at(0.99));
    }
    writer.end_object();
  }

 private:
  std::array<double, kRecent> values_{};
  std::size_t next_ = 0;
};

}  // namespace

struct Metrics::State {
  prometheus::Registry registry;
  std::string prefix = "munia_";

  template <class T>
  using Family = prometheus::Family<T>;
  Family<prometheus::Counter>& counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(prefix + name).Help(help).Register(registry);
  }
  prometheus::Counter& counter(const char* name, const char* help) {
    return counters(name, help).Add({});
  }
  Family<prometheus::Gauge>& gauges(const std::string& name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }
  prometheus::Gauge& gauge(const char* name, const char* help) {
    return gauges(prefix + name, help).Add({});
  }
  Family<prometheus::Histogram>& histograms(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(prefix + name).Help(help).Register(registry);
  }
  prometheus::Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
    return histograms(name, help).Add({}, buckets);
  }

  prometheus::Family<prometheus::Counter>& requests =
      counters("requests_total", "Answered requests by route and HTTP status.");
  prometheus::Family<prometheus::Counter>& finished =
      counters("request_finished_total", "Jobs of the model by how they ended.");
  prometheus::Family<prometheus::Counter>& rejected =
      counters("queue_rejected_total", "Requests that were not let in, or waited too long.");
  prometheus::Counter& prompt_tokens = counter("prompt_tokens_total", "Tokens of prompts.");
  prometheus::Counter& cached_tokens =
      counter("cached_prompt_tokens_total", "Tokens of prompts that a cache already held.");
  prometheus::Counter& generated_tokens =
      counter("generated_tokens_total", "Tokens that were generated.");
  prometheus::Counter& disconnects =
      counter("stream_client_disconnects_total", "Clients that left before their answer ended.");
  prometheus::Counter& special_attempts = counter(
      "special_token_attempts_total", "Special tokens found, and defused, in users' texts.");
  prometheus::Family<prometheus::Counter>& predictions =
      counters("predictions_total", "Classified texts by label.");
  prometheus::Counter& abstained =
      counter("predictions_abstained_total", "Classified texts that matched no label.");

  prometheus::Gauge& running = gauge("requests_running", "Requests that the model works on.");
  prometheus::Gauge& waiting = gauge("requests_waiting", "Requests in the queue.");
  prometheus::Gauge& capacity = gauge("queue_capacity", "Requests that the queue holds.");
  prometheus::Gauge& kv_usage =
      gauge("kv_cache_usage_ratio", "Share of the KV memory in use, 0 to 1.");
  prometheus::Gauge& prefix_bytes =
      gauge("prefix_cache_bytes", "Bytes of KV pages that the prefix cache knows.");
  prometheus::Gauge& threads = gauge("threads", "Threads that compute.");
  prometheus::Gauge& ready = gauge("ready", "1 when requests are let in.");
  prometheus::Gauge& budget =
      gauge("memory_budget_bytes", "The limit set for weights and caches; 0: none.");
  prometheus::Family<prometheus::Gauge>& model_info =
      gauges("munia_model_info", "The model, as labels.");

  prometheus::Histogram& first_token = histogram(
      "time_to_first_token_seconds", "From arrival to the first token.", kFirstTokenSeconds);
  prometheus::Histogram& inter_token = histogram(
      "inter_token_latency_seconds", "Between two pieces of generated text.", kTokenSeconds);
  prometheus::Histogram& queue =
      histogram("request_queue_seconds", "From arrival to the start of the work.", kRequestSeconds);
  prometheus::Histogram& prefill =
      histogram("prefill_seconds", "Computing a prompt.", kRequestSeconds);
  prometheus::Histogram& decode =
      histogram("decode_seconds", "From a job's first token to its end.", kRequestSeconds);
  prometheus::Family<prometheus::Histogram>& request_seconds =
      histograms("request_seconds", "From arrival to the end of the answer, by route.");
  prometheus::Histogram& prompt_size =
      histogram("prompt_tokens", "Tokens of a job's prompt.", kTokens);
  prometheus::Histogram& generated_size =
      histogram("generated_tokens", "Tokens that a job generated.", kTokens);
  prometheus::Histogram& batch_size =
      histogram("batch_size", "Sequences that a step of the model brought on.",
                Buckets(engine::kStepSizes.begin(), engine::kStepSizes.end()));
  prometheus::Histogram& confidence =
      histogram("prediction_confidence", "Probability of the label that was told.", kShares);

  prometheus::Gauge& resident = gauges("process_resident_memory_bytes", "Resident memory.").Add({});
  prometheus::Gauge& peak =
      gauges("process_peak_resident_memory_bytes", "Peak of the resident memory.").Add({});
  prometheus::Counter& cpu = prometheus::BuildCounter()
                                 .Name("process_cpu_seconds_total")
                                 .Help("CPU time, user and system.")
                                 .Register(registry)
                                 .Add({});
  prometheus::Gauge& start =
      gauges("process_start_time_seconds", "Unix time of the start.").Add({});
  prometheus::Gauge& fds = gauges("process_open_fds", "Open files and sockets.").Add({});
  prometheus::Counter& throttled =
      counter("cgroup_throttled_periods_total", "Periods in which the CPU quota stopped us.");

  std::mutex mutex;  // guards what follows
  Recent recent_first_ms;
  Recent recent_request_ms;
  std::map<std::string, std::int64_t> label_counts;
  engine::EngineStats counted;  // in batch_size so far
  std::uint64_t n_requests = 0;
  std::uint64_t n_errors = 0;
  Model model;
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

void Metrics::request_done(std::string_view route, int status, double seconds) {
  const std::string name(route);
  state_->requests.Add({{"route", name}, {"code", std::to_string(status)}}).Increment();
  state_->request_seconds.Add({{"route", name}}, kRequestSeconds).Observe(seconds);
  const std::lock_guard lock(state_->mutex);
  ++state_->n_requests;
  state_->n_errors += status >= 400;
  state_->recent_request_ms.add(seconds * 1e3);
}

void Metrics::client_left() { state_->disconnects.Increment(); }

void Metrics::rejected(std::string_view why) {
  state_->rejected.Add({{"why", std::string(why)}}).Increment();
}

void Metrics::job_finished(std::string_view reason) {
  state_->finished.Add({{"reason", std::string(reason)}}).Increment();
}

void Metrics::tokens(std::int64_t prompt, std::int64_t cached, std::int64_t generated) {
  state_->prompt_tokens.Increment(static_cast<double>(prompt));
  state_->cached_tokens.Increment(static_cast<double>(cached));
  state_->generated_tokens.Increment(static_cast<double>(generated));
  state_->prompt_size.Observe(static_cast<double>(prompt));
  if (generated > 0) state_->generated_size.Observe(static_cast<double>(generated));
}

void Metrics::queue_time(double seconds) { state_->queue.Observe(seconds); }

void Metrics::first_token(double seconds) {
  state_->first_token.Observe(seconds);
  const std::lock_guard lock(state_->mutex);
  state_->recent_first_ms.add(seconds * 1e3);
}

void Metrics::between_tokens(double seconds) { state_->inter_token.Observe(seconds); }
void Metrics::prefill_time(double seconds) { state_->prefill.Observe(seconds); }
void Metrics::decode_time(double seconds) { state_->decode.Observe(seconds); }

void Metrics::prediction(std::string_view label, double confidence) {
  if (label.empty()) {
    state_->abstained.Increment();
    return;
  }
  std::string name(label);
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->label_counts.contains(name) && state_->label_counts.size() >= kMaxLabels) {
      name = "other";
    }
    ++state_->label_counts[name];
  }
  state_->predictions.Add({{"label", name}}).Increment();
  state_->confidence.Observe(confidence);
}

void Metrics::special_token_attempts(std::int64_t n) {
  state_->special_attempts.Increment(static_cast<double>(n));
}

void Metrics::set_model(const Model& model) {
  state_->model_info
      .Add({{"model", model.name},
            {"dtype", model.dtype},
            {"isa", model.isa},
            {"threads", std::to_string(model.n_threads)}})
      .Set(1);
  state_->threads.Set(static_cast<double>(model.n_threads));
  state_->budget.Set(static_cast<double>(model.memory_budget_bytes));
  const std::lock_guard lock(state_->mutex);
  state_->model = model;
}

void Metrics::update(const Gauges& gauges) {
  state_->running.Set(static_cast<double>(gauges.running));
  state_->waiting.Set(static_cast<double>(gauges.waiting));
  state_->capacity.Set(static_cast<double>(gauges.queue_capacity));
  state_->ready.Set(gauges.ready ? 1 : 0);
  const engine::EngineStats& engine = gauges.engine;
  state_->prefix_bytes.Set(static_cast<double>(engine.prefix_cache_bytes));
  state_->kv_usage.Set(engine.kv_max_bytes == 0 ? 0
                                                : static_cast<double>(engine.kv_used_bytes) /
                                                      static_cast<double>(engine.kv_max_bytes));
  const ProcessInfo process = read_process_info();
  state_->resident.Set(static_cast<double>(process.resident_bytes));
  state_->peak.Set(static_cast<double>(process.peak_resident_bytes));
  state_->start.Set(process.start_time_seconds);
  state_->fds.Set(static_cast<double>(process.n_open_fds));
  // Counters of the library only grow by steps; two scrapes at once must not count one twice.
  const std::lock_guard lock(state_->mutex);
  engine::EngineStats& counted = state_->counted;
  if (engine.n_steps > counted.n_steps) {
    std::vector<double> steps;
    for (std::size_t i = 0; i < engine.steps_by_size.size(); ++i) {
      steps.push_back(static_cast<double>(engine.steps_by_size[i] - counted.steps_by_size[i]));
    }
    state_->batch_size.ObserveMultiple(
        steps, static_cast<double>(engine.n_step_sequences - counted.n_step_sequences));
    counted = engine;
  }
  state_->cpu.Increment(std::max(0.0, process.cpu_seconds - state_->cpu.Value()));
  if (process.n_throttled_periods) {
    const auto periods = static_cast<double>(*process.n_throttled_periods);
    state_->throttled.Increment(std::max(0.0, periods - state_->throttled.Value()));
  }
}

std::string Metrics::text(const Gauges& gauges) {
  update(gauges);
  return prometheus::TextSerializer().Serialize(state_->registry.Collect());
}

std::string Metrics::stats_json(const Gauges& gauges) {
  update(gauges);
  const ProcessInfo process = read_process_info();
  const auto whole = [](const prometheus::Counter& counter) {
    return static_cast<std::int64_t>(counter.Value());
  };
  JsonWriter writer;
  const std::lock_guard lock(state_->mutex);
  const Model& model = state_->model;
  writer.begin_object().field("ready", gauges.ready);
  writer.field("start_time", process.start_time_seconds);
  writer.key("model").begin_object();
  writer.field("name", model.name).field("dtype", model.dtype).field("isa", model.isa);
  writer.field("threads", model.n_threads).end_object();
  writer.key("requests").begin_object();
  writer.field("running", gauges.running).field("waiting", gauges.waiting);
  writer.field("queue_capacity", gauges.queue_capacity);
  writer.field("total", state_->n_requests).field("errors", state_->n_errors);
  writer.field("clients_gone", whole(state_->disconnects));
  writer.field("mean_seconds", gauges.mean_request_seconds).end_object();
  writer.key("tokens").begin_object();
  writer.field("prompt", whole(state_->prompt_tokens));
  writer.field("cached", whole(state_->cached_tokens));
  writer.field("generated", whole(state_->generated_tokens)).end_object();
  writer.key("engine").begin_object();
  writer.field("steps", gauges.engine.n_steps)
      .field("prefill_tokens", gauges.engine.n_computed_tokens - gauges.engine.n_decode_tokens)
      .field("decode_tokens", gauges.engine.n_decode_tokens)
      .field("kv_used_bytes", gauges.engine.kv_used_bytes)
      .field("kv_max_bytes", gauges.engine.kv_max_bytes)
      .field("prefix_cache_bytes", gauges.engine.prefix_cache_bytes)
      .end_object();
  writer.key("first_token_ms");
  state_->recent_first_ms.write(writer);
  writer.key("request_ms");
  state_->recent_request_ms.write(writer);
  writer.key("labels").begin_object();
  for (const auto& [label, n] : state_->label_counts) writer.field(label, n);
  writer.end_object();
  writer.key("memory").begin_object();
  writer.field("resident_bytes", process.resident_bytes);
  writer.field("peak_bytes", process.peak_resident_bytes);
  writer.field("budget_bytes", model.memory_budget_bytes).end_object();
  writer.key("cpu").begin_object().field("seconds", process.cpu_seconds);
  writer.field("threads", process.n_threads).end_object();
  writer.end_object();
  return writer.text();
}

}  // namespace munia::server
