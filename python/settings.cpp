#include "python/settings.h"

#include <new>
#include <utility>

#include "base/affinity.h"
#include "base/cpu_topology.h"
#include "grammar/choices.h"
#include "grammar/regex.h"
#include "grammar/schema.h"
#include "kernels/kernels.h"
#include "model/weight_mode.h"

namespace munia::python {
namespace {

namespace nb = nanobind;

constexpr int kMostThreads = 1024;
constexpr std::int64_t kMostSequences = 1024;

void check(const LoadSettings& settings) {
  if (settings.threads < 0 || settings.threads > kMostThreads) {
    raise_value_error("threads is " + std::to_string(settings.threads) + "; it must be 1 to " +
                      std::to_string(kMostThreads) + ", or None for as many as are allowed");
  }
  if (settings.max_sequences < 1 || settings.max_sequences > kMostSequences) {
    raise_value_error("max_sequences is " + std::to_string(settings.max_sequences) +
                      "; it must be 1 to " + std::to_string(kMostSequences));
  }
  if (settings.context < 0) {
    raise_value_error("context is " + std::to_string(settings.context) +
                      "; it must be positive, or None for the model's own");
  }
  if (!settings.isa.empty() && kernels::select_kernels(settings.isa) == nullptr) {
    raise_value_error("isa is \"" + settings.isa +
                      "\": this machine cannot run it, or there is no such instruction set; munia "
                      "doctor lists what it can run");
  }
  if (!settings.weights.empty() && !model::weight_mode_named(settings.weights)) {
    raise_value_error("weights is \"" + settings.weights +
                      "\"; it must be \"exact\", \"int8\" or \"int4\"");
  }
  const CpuTopology topology = detect_cpu_topology();
  for (const int cpu : settings.cpus) {
    bool allowed = false;
    for (const int one : topology.allowed_cpus) allowed = allowed || one == cpu;
    if (allowed) continue;
    raise_value_error("cpus: this process may not use CPU " + std::to_string(cpu) +
                      "; it may use the CPUs " + format_cpu_list(topology.allowed_cpus));
  }
}

int thread_count(const LoadSettings& settings) {
  if (settings.threads > 0) return settings.threads;
  if (!settings.cpus.empty()) return static_cast<int>(settings.cpus.size());
  return detect_cpu_topology().n_threads;
}

std::unique_ptr<Loaded> load(const std::string& path, const LoadSettings& settings) {
  ThreadPool::Options pool_options;
  pool_options.n_threads = thread_count(settings);
  pool_options.cpus = settings.cpus;
  const CpuTopology topology = detect_cpu_topology();
  if (settings.cpus.empty() &&
      pool_options.n_threads <= static_cast<int>(topology.node_cpus.size())) {
    pool_options.within = topology.node_cpus;  // of several memory nodes, one
  }
  auto pool = std::make_unique<ThreadPool>(pool_options);
  engine::BundleOptions options;
  options.isa = settings.isa;
  options.context = settings.context;
  options.weights = model::weight_mode_named(settings.weights);
  options.load = settings.map_packed ? model::LoadWay::kMap : model::LoadWay::kCopy;
  options.verify = settings.verify;
  auto bundle = engine::load_bundle(path, options, *pool);
  engine::EngineOptions engine_options;
  engine_options.max_sequences = settings.max_sequences;
  engine_options.kv_cache = settings.kv_cache;
  return std::make_unique<Loaded>(std::move(bundle), std::move(pool), engine_options);
}

}  // namespace

engine::GenerateJob ReplySettings::job(std::vector<std::int32_t> prompt) const {
  engine::GenerateJob job;
  job.prompt = std::move(prompt);
  job.max_tokens = max_tokens;
  job.min_tokens = min_tokens;
  job.sampling = sampling;
  job.beams = beams;
  job.stops = stops;
  job.constraint = constraint;
  return job;
}

void ReplySettings::set_early_stopping(const std::string& name) {
  beams.early_stopping = take(decode::early_stopping_named(name));
}

void ReplySettings::set_json_schema(const std::string& schema) {
  constraint = take(grammar::schema_text_grammar(schema));
}

void ReplySettings::set_regex(const std::string& pattern) {
  constraint = take(grammar::regex_grammar(pattern));
}

void ReplySettings::set_choice(std::vector<std::string> choices) {
  constraint = take(grammar::choice_grammar(std::move(choices)));
}

std::shared_ptr<Core> load_core(const std::string& path, const LoadSettings& settings) {
  check(settings);
  std::unique_ptr<Loaded> loaded;
  std::optional<LoadError> problem;
  {
    const nb::gil_scoped_release release;
    try {
      loaded = load(path, settings);
    } catch (const LoadError& error) {
      problem.emplace(error);
    }
  }
  if (problem) raise_load_error(*problem);
  return std::make_shared<Core>(std::move(loaded));
}

}  // namespace munia::python
