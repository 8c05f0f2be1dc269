#include "engine/engine.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "engine/check_job.h"
#include "engine/prefix_cache.h"
#include "engine/run.h"
#include "engine/scheduler.h"
#include "engine/ticket.h"

namespace munia::engine {
namespace {

constexpr std::int64_t kMaxLogitRows = 32;

// A prompt waits a step for another one that computes at least so many tokens that both begin with:
// about what one more step over the weights costs.
constexpr std::int64_t kMinSharedTokens = 8;

}  // namespace

// The engine thread and all that only it touches.
class Engine::Loop {
 public:
  Loop(const ModelBundle& bundle, std::unique_ptr<ThreadPool> pool, const EngineOptions& options)
      : bundle_(bundle),
        options_(options),
        pool_(std::move(pool)),
        kv_pool_(std::make_shared<model::KvPool>(bundle.model->kv_layout(), options.max_kv_bytes)),
        prefix_cache_(kv_pool_->layout(), options.kv_cache ? *options.prefix_cache_bytes : 0),
        activations_(bundle.model->config(), bundle.model->kernels(), pool_->n_threads(),
                     {.max_tokens = options.prefill_chunk,
                      .max_logit_rows = kMaxLogitRows,
                      .max_sequences = options.prefill_chunk,
                      .max_keys = bundle.model->context()}),
        thread_([this] { run(); }) {}

  ~Loop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  // All jobs or none.
  Result<std::vector<std::shared_ptr<Ticket>>> submit(std::vector<Job> jobs) {
    std::vector<std::shared_ptr<Ticket>> tickets;
    {
      const std::lock_guard lock(mutex_);
      if (n_waiting() + jobs.size() > options_.max_queue) {
        return Error{ErrorCode::kUnavailable,
                     "the engine's queue is full: " + std::to_string(n_waiting()) +
                         " jobs are waiting; try again later"};
      }
      for (Job& job : jobs) {
        auto ticket = std::make_shared<EngineTicket>();
        tickets.push_back(ticket);
        queue_of(priority_of(job)).push_back({std::move(job), std::move(ticket), Clock::now()});
      }
    }
    wake_.notify_all();
    return tickets;
  }

  void pin(PinnedPrefix prefix) {
    const std::lock_guard lock(mutex_);
    // While no job comes nobody takes them: those that were let go meanwhile must not pile up.
    std::erase_if(new_pins_, [](const PinnedPrefix& pin) { return pin.use_count() == 1; });
    new_pins_.push_back(std::move(prefix));
  }

  EngineStats stats() const {
    const std::lock_guard lock(stats_mutex_);
    return stats_;
  }

 private:
  struct Waiting {
    Job job;
    std::shared_ptr<EngineTicket> ticket;
    Clock::time_point submitted;
  };
  struct Active {
    std::unique_ptr<Run> run;
    std::shared_ptr<EngineTicket> ticket;
    std::int64_t kv_tokens;  // set aside for it
    std::int64_t n_slots;    // of max_sequences
    Clock::time_point submitted;
    Clock::time_point started;
    std::optional<Clock::time_point> first_logits;
    bool keep = true;  // what it computes, in the prefix cache
    bool is_bulk = false;
    std::int64_t cached_tokens = 0;  // taken from there
  };

  void run() {
    counted_.page_bytes = kv_pool_->layout().page_bytes();
    counted_.kv_max_bytes = kv_pool_->max_bytes();
    kv_pool_->set_reclaim([this] { return prefix_cache_.drop_one(); });
    while (true) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stopping_ || n_waiting() > 0 || !active_.empty(); });
        if (stopping_) break;
        for (const PinnedPrefix& prefix : new_pins_) prefix_cache_.pin(prefix);
        new_pins_.clear();
        drop_cancelled_waiting();
        admit();
      }
      drop_cancelled();
      step();
    }
    const Error stopped{ErrorCode::kUnavailable, "the engine is shutting down"};
    for (Active& active : active_) active.ticket->finish(stopped);
    active_.clear();
    const std::lock_guard lock(mutex_);
    for (std::deque<Waiting>& queue : queues_) {
      for (Waiting& waiting : queue) waiting.ticket->finish(stopped);
      queue.clear();
    }
  }

  // Also behind a job that waits for memory: whoever cancelled one waits for its end. Holds mutex_.
  void drop_cancelled_waiting() {
    for (std::deque<Waiting>& queue : queues_) {
      std::erase_if(queue, [](const Waiting& waiting) {
        if (!waiting.ticket->cancelled()) return false;
        waiting.ticket->finish(cancelled_error());
        return true;
      });
    }
  }

  static Priority priority_of(const Job& job) {
    return std::visit([](const auto& job_of_kind) { return job_of_kind.priority; }, job);
  }
  std::deque<Waiting>& queue_of(Priority priority) {
    return queues_[static_cast<std::size_t>(priority)];
  }
  std::size_t n_waiting() const { return queues_[0].size() + queues_[1].size(); }

  // Starts waiting jobs while slots and KV memory last: interactive ones first, then in order of
  // arrival. Bulk leaves a quarter of the slots to jobs that may come. Every beam takes a slot; a
  // job with more beams than there are slots starts when all are free. Holds mutex_.
  // A job is counted with all pages that it can ever hold, as if it found none in the prefix cache;
  // pages that only the cache holds are not counted, since they are given back when a job needs
  // them. So a started job never runs out of memory.
  void admit() {
    if (admit_from(Priority::kInteractive)) admit_from(Priority::kBulk);
  }

  // False when slots or memory did not suffice for the first in the queue.
  bool admit_from(Priority priority) {
    std::deque<Waiting>& queue = queue_of(priority);
    const bool is_bulk = priority == Priority::kBulk;
    const std::int64_t most_slots =
        options_.max_sequences - (is_bulk ? options_.max_sequences / 4 : 0);
    const std::int64_t capacity = kv_capacity_tokens();
    while (!queue.empty()) {
      Waiting& next = queue.front();
      const std::int64_t kv_tokens =
          max_kv_tokens(next.job, bundle_.model->context(), options_.kv_cache);
      const std::int64_t n_slots = std::min(n_sequences(next.job), most_slots);
      if (kv_tokens > capacity) {
        next.ticket->finish(
            Error{ErrorCode::kLimit, "the job needs a KV cache of " + std::to_string(kv_tokens) +
                                         " tokens; memory is set for " + std::to_string(capacity)});
        queue.pop_front();
        continue;
      }
      if ((is_bulk && n_slots_in_use(true) + n_slots > most_slots) ||
          n_slots_in_use(false) + n_slots > options_.max_sequences ||
          kv_tokens_in_use_ + kv_tokens > capacity) {
        return false;
      }
      const bool keep = std::visit([](const auto& job) { return job.keep; }, next.job);
      if (Result<std::unique_ptr<Run>> run = make_run_for(std::move(next.job))) {
        kv_tokens_in_use_ += kv_tokens;
        active_.push_back({*std::move(run), std::move(next.ticket), kv_tokens, n_slots,
                           next.submitted, Clock::now(), std::nullopt, keep, is_bulk});
      } else {
        next.ticket->finish(run.error());
      }
      queue.pop_front();
    }
    return true;
  }

  std::int64_t n_slots_in_use(bool only_bulk) const {
    std::int64_t n = 0;
    for (const Active& active : active_) n += active.is_bulk || !only_bulk ? active.n_slots : 0;
    return n;
  }

  std::int64_t kv_capacity_tokens() const {
    const auto n_pages =
        static_cast<std::int64_t>(kv_pool_->max_bytes() / kv_pool_->layout().page_bytes());
    return n_pages * kernels::kPageTokens;
  }

  Result<std::unique_ptr<Run>> make_run_for(Job job) {
    if (auto* generate = std::get_if<GenerateJob>(&job)) {
      return make_run(bundle_, kv_pool_, std::move(*generate), options_.kv_cache);
    }
    if (auto* score = std::get_if<ScoreJob>(&job)) return make_run(kv_pool_, std::move(*score));
    return make_run(kv_pool_, std::move(std::get<LogitsJob>(job)));
  }

  static Error cancelled_error() { return {ErrorCode::kCancelled, "the job was cancelled"}; }

  void end(Active& active, Result<JobResult> result) {
    kv_tokens_in_use_ -= active.kv_tokens;
    active.run.reset();
    prefix_cache_.trim();
    publish_stats();
    active.ticket->finish(std::move(result));
  }

  void drop_cancelled() {
    std::erase_if(active_, [this](Active& active) {
      if (!active.ticket->cancelled()) return false;
      end(active, cancelled_error());
      return true;
    });
  }

  // A sequence's part in the step at hand.
  struct Part {
    Active* active;
    Sequence* sequence;
    StepShare share;
    std::int64_t first_index;  // of its tokens in this step
  };

  // What it computes lacks the keys and values of later layers (in a step with others it has them,
  // but nobody should count on that).
  static bool is_shallow(const Part& part) { return part.active->run->n_blocks().has_value(); }

  void step() {
    std::vector<Part> parts = plan();
    if (parts.empty()) return;
    model::Batch batch;
    for (Part& part : parts) {
      Sequence& sequence = *part.sequence;
      // Set aside by admit(), so it cannot fail.
      MUNIA_CHECK(sequence.kv.reserve(part.share.n_tokens).ok());
      model::SequenceSlice slice;
      slice.kv = &sequence.kv;
      slice.tokens = std::span(sequence.tokens)
                         .subspan(static_cast<std::size_t>(part.first_index),
                                  static_cast<std::size_t>(part.share.n_tokens));
      for (std::int64_t i = 0; i < part.share.n_logit_rows; ++i) {
        const std::int64_t index = part.share.n_tokens - part.share.n_logit_rows + i;
        slice.logit_rows.push_back(
            part.active->run->wanted_logits(sequence, part.first_index + index));
        slice.logit_rows.back().index = index;
      }
      batch.sequences.push_back(std::move(slice));
    }
    const std::vector<std::vector<float>> hidden = add_taps(parts, batch);
    if (std::all_of(parts.begin(), parts.end(), is_shallow)) {
      batch.n_blocks = 0;
      for (const Part& part : parts) {
        batch.n_blocks = std::max(*batch.n_blocks, *part.active->run->n_blocks());
      }
    }
    choose_threads(parts);
    bundle_.model->forward(batch, activations_, *pool_);
    keep_computed(parts);
    deliver(parts, batch, hidden);
    finish_steps();
  }

  // Decoding is bound by memory, which fewer threads may saturate.
  void choose_threads(const std::vector<Part>& parts) {
    const bool decodes = std::all_of(parts.begin(), parts.end(),
                                     [](const Part& part) { return part.share.n_tokens == 1; });
    const int n_all = pool_->n_threads();
    const bool fewer = decodes && options_.decode_threads > 0 && options_.decode_threads < n_all;
    pool_->use_threads(fewer ? options_.decode_threads : n_all);
  }

  std::vector<Part> plan() {
    std::vector<Part> parts;
    std::vector<SequenceDemand> demands;
    std::vector<Sequence*> sequences;
    for (Active& active : active_) {
      sequences.clear();
      active.run->collect(sequences);
      for (Sequence* sequence : sequences) {
        if (take_or_wait(active, *sequence, parts)) continue;
        parts.push_back({&active, sequence, {}, sequence->kv.n_tokens()});
        demands.push_back({sequence->n_pending(), sequence->all_rows, active.is_bulk});
      }
    }
    StepLimits limits;
    limits.max_tokens = activations_.limits().max_tokens;
    limits.max_logit_rows = activations_.limits().max_logit_rows;
    const std::vector<StepShare> shares = plan_step(demands, limits);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i].share = shares[i];
      if (is_shallow(parts[i])) parts[i].share.n_logit_rows = 0;
    }
    std::erase_if(parts, [](const Part& part) { return part.share.n_tokens == 0; });
    return parts;
  }

  // Extends a prompt by what the prefix cache knows now. True when it should wait because an
  // earlier prompt of this step computes what comes next.
  bool take_or_wait(Active& active, Sequence& sequence, const std::vector<Part>& earlier) {
    // Decoding has nothing to take.
    if (!prefix_cache_.enabled() || sequence.n_pending() < 2) return false;
    const std::int64_t n_takeable = active.run->n_takeable(sequence);
    if (n_takeable <= sequence.kv.n_tokens()) return false;
    const TokenSpan takeable =
        TokenSpan(sequence.tokens).first(static_cast<std::size_t>(n_takeable));
    const std::int64_t n_taken = prefix_cache_.take(takeable, sequence.kv);
    active.cached_tokens += n_taken;
    counted_.n_cached_tokens += n_taken;
    const std::int64_t n_tokens = sequence.kv.n_tokens();
    return std::any_of(earlier.begin(), earlier.end(), [&](const Part& part) {
      if (is_shallow(part)) return false;  // it keeps nothing
      const TokenSpan other = part.sequence->tokens;
      // Only from where the other one stands: what it computed before is in the cache, or was not
      // kept.
      if (n_tokens < part.first_index || part.sequence->n_pending() < kMinSharedTokens) {
        return false;
      }
      const std::int64_t n_common = common_prefix(takeable, other);
      return n_common - n_tokens >= kMinSharedTokens &&
             std::min(n_common, prefix_cache_.n_kept(other, part.active->keep)) - n_tokens >=
                 kMinSharedTokens;
    });
  }

  void keep_computed(const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      if (!is_shallow(part)) {
        prefix_cache_.keep(part.sequence->tokens, part.sequence->kv,
                           part.active->keep && part.active->run->is_kept(*part.sequence));
      }
      counted_.n_computed_tokens += part.share.n_tokens;
      // One token with its logits behind others: a reply goes on.
      if (part.share.n_tokens == 1 && part.first_index > 0) counted_.n_decode_tokens += 1;
    }
    ++counted_.n_steps;
    const auto n_sequences = static_cast<std::int64_t>(parts.size());
    const auto size = std::lower_bound(kStepSizes.begin(), kStepSizes.end(), n_sequences);
    ++counted_.steps_by_size[static_cast<std::size_t>(size - kStepSizes.begin())];
    counted_.n_step_sequences += n_sequences;
    publish_stats();
  }

  void publish_stats() {
    counted_.kv_used_bytes = kv_pool_->used_bytes();
    counted_.prefix_cache_bytes = prefix_cache_.held_bytes();
    counted_.pinned_bytes = prefix_cache_.pinned_bytes();
    const std::lock_guard lock(stats_mutex_);
    stats_ = counted_;
  }

  // One buffer [n_tokens of the batch, hidden_dim] per layer that any run of this step taps.
  std::vector<std::vector<float>> add_taps(const std::vector<Part>& parts, model::Batch& batch) {
    std::int64_t n_tokens = 0;
    std::vector<std::int64_t> layers;
    for (const Part& part : parts) {
      n_tokens += part.share.n_tokens;
      for (const std::int64_t layer : part.active->run->tap_layers()) {
        if (std::find(layers.begin(), layers.end(), layer) == layers.end()) layers.push_back(layer);
      }
    }
    std::vector<std::vector<float>> hidden(layers.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      hidden[i].resize(static_cast<std::size_t>(n_tokens * bundle_.model->config().hidden_dim));
      batch.taps.push_back({layers[i], hidden[i].data()});
    }
    return hidden;
  }

  void deliver(const std::vector<Part>& parts, const model::Batch& batch,
               const std::vector<std::vector<float>>& hidden) {
    choose(parts);
    const auto hidden_dim = static_cast<std::size_t>(bundle_.model->config().hidden_dim);
    std::int64_t logit_row = 0;
    std::size_t first_token = 0;
    for (const Part& part : parts) {
      const auto n_tokens = static_cast<std::size_t>(part.share.n_tokens);
      const std::span<const std::int64_t> layers = part.active->run->tap_layers();
      for (std::size_t tap = 0; tap < layers.size(); ++tap) {
        for (std::size_t i = 0; i < batch.taps.size(); ++i) {
          if (batch.taps[i].layer != layers[tap]) continue;
          part.active->run->on_hidden(
              tap, part.first_index, part.share.n_tokens,
              std::span(hidden[i]).subspan(first_token * hidden_dim, n_tokens * hidden_dim));
        }
      }
      first_token += n_tokens;
      if (part.share.n_logit_rows > 0 && !part.active->first_logits) {
        part.active->first_logits = Clock::now();
      }
      const std::int64_t first_index =
          part.first_index + part.share.n_tokens - part.share.n_logit_rows;
      for (std::int64_t i = 0; i < part.share.n_logit_rows; ++i) {
        part.active->run->on_logits(*part.sequence, first_index + i,
                                    activations_.logits(logit_row++));
      }
    }
  }

  // The last row of each part, by its run.
  void choose(const std::vector<Part>& parts) {
    std::vector<std::pair<const Part*, std::int64_t>> rows;  // of the step's logits
    std::int64_t n_rows = 0;
    for (const Part& part : parts) {
      n_rows += part.share.n_logit_rows;
      if (part.share.n_logit_rows > 0) rows.emplace_back(&part, n_rows - 1);
    }
    pool_->parallel_for(
        static_cast<std::int64_t>(rows.size()), 1, [&](std::int64_t begin, std::int64_t end, int) {
          for (std::int64_t i = begin; i < end; ++i) {
            const auto& [part, row] = rows[static_cast<std::size_t>(i)];
            part->active->run->choose(*part->sequence, part->first_index + part->share.n_tokens - 1,
                                      activations_.logits(row));
          }
        });
  }

  void finish_steps() {
    std::erase_if(active_, [this](Active& active) {
      if (const Status status = active.run->end_step(); !status) {
        end(active, status.error());
        return true;
      }
      std::vector<Sequence*> sequences;
      active.run->collect(sequences);
      if (!sequences.empty()) return false;
      const Clock::time_point now = Clock::now();
      JobResult result =
          active.run->take_result({ms_between(active.submitted, active.started),
                                   ms_between(active.submitted, active.first_logits.value_or(now)),
                                   ms_between(active.submitted, now)});
      std::visit([&](auto& r) { r.usage.cached_tokens = active.cached_tokens; }, result);
      end(active, std::move(result));
      return true;
    });
  }

  const ModelBundle& bundle_;
  const EngineOptions options_;
  const std::unique_ptr<ThreadPool> pool_;
  const std::shared_ptr<model::KvPool> kv_pool_;
  PrefixCache prefix_cache_;  // its pages belong to kv_pool_
  model::Activations activations_;
  std::deque<Active> active_;
  std::int64_t kv_tokens_in_use_ = 0;

  EngineStats counted_;  // the engine thread's own

  mutable std::mutex stats_mutex_;
  EngineStats stats_;  // as they were after the last step, or when a job last ended

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<Waiting> queues_[2];  // by Priority
  std::vector<PinnedPrefix> new_pins_;
  bool stopping_ = false;

  std::thread thread_;  // last: it uses all of the above
};

Engine::Engine(std::shared_ptr<const ModelBundle> bundle, std::unique_ptr<ThreadPool> pool,
               const EngineOptions& options)
    : bundle_(std::move(bundle)), options_(options) {
  const model::KvLayout layout = bundle_->model->kv_layout();
  const std::int64_t pages_per_sequence =
      (bundle_->model->context() + kernels::kPageTokens - 1) / kernels::kPageTokens;
  const std::size_t one_sequence =
      static_cast<std::size_t>(pages_per_sequence) * layout.page_bytes();
  if (options_.max_kv_bytes == 0) {
    options_.max_kv_bytes = one_sequence * static_cast<std::size_t>(options_.max_sequences);
  }
  // As much as one whole context, unless more or less was asked for; always within the KV memory.
  options_.prefix_cache_bytes =
      std::min(options_.prefix_cache_bytes.value_or(one_sequence), options_.max_kv_bytes);
  loop_ = std::make_unique<Loop>(*bundle_, std::move(pool), options_);
}

Engine::~Engine() = default;

Result<std::shared_ptr<Ticket>> Engine::submit(Job job) {
  std::vector<Job> jobs;
  jobs.push_back(std::move(job));
  MUNIA_ASSIGN_OR_RETURN(auto tickets, submit_together(std::move(jobs)));
  return std::move(tickets.front());
}

Result<std::vector<std::shared_ptr<Ticket>>> Engine::submit_together(std::vector<Job> jobs) {
  for (Job& job : jobs) {
    MUNIA_RETURN_IF_ERROR(check_job(job, *bundle_));
    // Sorting the vocabulary and the first mask take a while: here, not on the engine thread where
    // all would wait.
    auto* generate = std::get_if<GenerateJob>(&job);
    if (generate == nullptr || !generate->constraint) continue;
    std::shared_ptr<decode::Constraint>& begun = generate->begun_constraint;
    if (begun != nullptr) {
      begun = std::make_shared<decode::Constraint>(*begun);
    } else {
      MUNIA_ASSIGN_OR_RETURN(begun, bundle_->begin_constraint(generate->constraint));
    }
  }
  return loop_->submit(std::move(jobs));
}

PinnedPrefix Engine::pin(Tokens prefix) {
  auto pinned = std::make_shared<const Tokens>(std::move(prefix));
  loop_->pin(pinned);
  return pinned;
}

EngineStats Engine::stats() const { return loop_->stats(); }

namespace {

template <class Kind, class Work>
Result<Kind> run_and_wait(Engine& engine, Work job) {
  MUNIA_ASSIGN_OR_RETURN(const std::shared_ptr<Ticket> ticket, engine.submit(std::move(job)));
  MUNIA_ASSIGN_OR_RETURN(JobResult result, ticket->wait());
  return std::get<Kind>(std::move(result));
}

}  // namespace

Result<GenerateResult> Engine::generate(GenerateJob job) {
  return run_and_wait<GenerateResult>(*this, std::move(job));
}
Result<ScoreResult> Engine::score(ScoreJob job) {
  return run_and_wait<ScoreResult>(*this, std::move(job));
}
Result<LogitsResult> Engine::logits(LogitsJob job) {
  return run_and_wait<LogitsResult>(*this, std::move(job));
}

}  // namespace munia::engine
