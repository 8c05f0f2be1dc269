// A model made ready for a command: found by name or path, checked against the memory limit,
// loaded, with an engine around it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu_topology.h"
#include "base/thread_pool.h"
#include "cli/context.h"
#include "engine/engine.h"

namespace munia::cli {

struct Threads {
  int n = 1;
  int n_decode = 1;         // of them, for steps that only decode
  std::vector<int> cpus;    // empty: not bound
  std::vector<int> within;  // empty: anywhere; else the CPUs of one memory node
  std::string reason;       // one line
  std::string tuned_from;   // the file that n and n_decode came from; empty: not tuned
};
/// --threads and --cpus, or what tune found for the model at `model_path` (may be empty), or what
/// the machine allows. Fails with status 2 at CPUs that this process may not use.
Threads choose_threads(const Context& context, const std::string& model_path);
ThreadPool::Options pool_options(const Context& context, const Threads& threads);

/// What a command wants otherwise than the settings say.
struct SessionNeeds {
  std::int64_t context = 0;         // positions, as far as the model has them
  std::int64_t max_sequences = 16;  // computed at the same time
  bool greedy = true;               // false: no step takes the argmax of all logits
  std::optional<model::WeightMode> weights = std::nullopt;  // in place of --weights
};

struct Session {
  std::shared_ptr<const engine::ModelBundle> bundle;
  std::unique_ptr<engine::Engine> engine;
  Threads threads;
};

/// What the settings say about loading. `file_bytes` of the model, 0 if unknown: where memory is
/// tight, and where `needs` has no use for it, the copy of the head is left out.
engine::BundleOptions bundle_options(const Context& context, std::uint64_t file_bytes,
                                     const SessionNeeds& needs = {});
/// The path of --model. Fails with status 3; for a catalogue name the message holds the pull line.
std::string find_model_path(const Context& context, const std::string& model);
/// The same without a word, or nothing: for what can do without a model.
std::optional<std::string> known_model_path(const Context& context);
/// Loads the model. Fails with status 3 when it cannot be loaded or does not fit --max-memory.
Session open_session(const Context& context, const SessionNeeds& needs = {});
/// The same with another model than --model (eval --compare-model).
Session open_session(const Context& context, const std::string& model,
                     const SessionNeeds& needs = {});
/// Tokenizer and template only.
std::shared_ptr<const engine::ModelBundle> open_text(const Context& context);

/// Bytes as "943.1 MiB".
std::string show_bytes(std::uint64_t bytes);

}  // namespace munia::cli
