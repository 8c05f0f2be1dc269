// The one thread that owns the model's KV caches. Jobs come in by a queue, are computed several at
// a time in ragged batches (chunked prefill mixed with decode), and end in their tickets. The
// result of a job is the same bytes whatever else is being computed (kernels.h, order of
// additions).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/thread_pool.h"
#include "engine/job.h"
#include "engine/model_bundle.h"
#include "engine/prefix_cache.h"

namespace munia::engine {

struct EngineOptions {
  std::int64_t max_sequences = 16;   // computed at the same time
  std::int64_t prefill_chunk = 512;  // most tokens in one step
  std::size_t max_kv_bytes = 0;      // 0: enough for max_sequences of the whole context, never
                                     // reserved before it is used
  std::size_t max_queue = 1024;      // waiting jobs; more are refused with kUnavailable
  int decode_threads = 0;            // of the pool, for steps that only decode; 0: all
  bool kv_cache = true;              // false: every token recomputes its whole past
  /// Keys and values kept of prompts and replies that have ended, within max_kv_bytes. Nothing: as
  /// much as one whole context; 0, or no kv_cache: none.
  std::optional<std::size_t> prefix_cache_bytes = std::nullopt;
};

/// Steps are counted by how many sequences they bring on: up to each of these, or more.
inline constexpr std::array<std::int64_t, 6> kStepSizes = {1, 2, 4, 8, 16, 32};

/// Memory and work of an engine. KV bytes are pages times page_bytes.
struct EngineStats {
  std::size_t page_bytes = 0;
  std::size_t kv_max_bytes = 0;
  std::size_t kv_used_bytes = 0;       // by running jobs and the prefix cache
  std::size_t prefix_cache_bytes = 0;  // pages that the cache knows, also those that jobs use
  std::size_t pinned_bytes = 0;        // of prefix_cache_bytes
  std::int64_t n_steps = 0;
  std::int64_t n_computed_tokens = 0;  // that went through the model
  std::int64_t n_decode_tokens = 0;    // of them, tokens of replies
  std::int64_t n_cached_tokens = 0;    // that came from the prefix cache instead
  std::array<std::int64_t, kStepSizes.size() + 1> steps_by_size = {};
  std::int64_t n_step_sequences = 0;  // of all steps together
};

class Engine {
 public:
  /// `pool` belongs to the engine thread from now on.
  Engine(std::shared_ptr<const ModelBundle> bundle, std::unique_ptr<ThreadPool> pool,
         const EngineOptions& options);
  /// Cancels what is running and joins the thread.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ModelBundle& bundle() const { return *bundle_; }
  const EngineOptions& options() const { return options_; }

  /// Queues a job. Errors at once: an id out of range, an empty prompt, a prompt that the context
  /// cannot hold (kLimit, with both numbers), a parameter out of range, a full queue.
  Result<std::shared_ptr<Ticket>> submit(Job job);
  /// The same for several jobs, whose prompts then share their first steps.
  Result<std::vector<std::shared_ptr<Ticket>>> submit_together(std::vector<Job> jobs);
  /// submit() and wait() for one kind of job.
  Result<GenerateResult> generate(GenerateJob job);
  Result<ScoreResult> score(ScoreJob job);
  Result<LogitsResult> logits(LogitsJob job);

  /// Keeps the keys and values of `prefix` in the prefix cache, from the first job on that begins
  /// with it until the result is let go (before or after the engine).
  PinnedPrefix pin(Tokens prefix);
  /// As they were after the last step, or when a job last ended; from any thread.
  EngineStats stats() const;

 private:
  class Loop;
  std::shared_ptr<const ModelBundle> bundle_;
  EngineOptions options_;
  std::unique_ptr<Loop> loop_;
};

}  // namespace munia::engine
