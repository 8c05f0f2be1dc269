#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "engine/run.h"
#include "engine/scheduler.h"

namespace munia::engine {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

constexpr std::int64_t kMaxLogitRows = 32;

const std::vector<std::int32_t>& prompt_of(const Job& job) {
  return std::visit([](const auto& j) -> const std::vector<std::int32_t>& { return j.prompt; },
                    job);
}

Status check_ids(const std::vector<std::int32_t>& ids, std::int64_t vocab_size, const char* what) {
  if (ids.empty()) {
    return Error{ErrorCode::kInvalidArgument, std::string("the ") + what + " has no tokens"};
  }
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size) {
      return Error{ErrorCode::kInvalidArgument, "token id " + std::to_string(id) + " in the " +
                                                    what + " is outside 0 to " +
                                                    std::to_string(vocab_size - 1)};
    }
  }
  return {};
}

Status check_fits(std::int64_t n_tokens, std::int64_t context, const std::string& what) {
  if (n_tokens <= context) return {};
  return Error{ErrorCode::kLimit, what + " " + std::to_string(n_tokens) +
                                      " tokens; the context holds " + std::to_string(context) +
                                      ": shorten the text or raise --context"};
}

Status check_job(const Job& job, const ModelBundle& bundle) {
  const model::ModelConfig& config = bundle.model->config();
  const std::int64_t context = bundle.model->context();
  MUNIA_RETURN_IF_ERROR(check_ids(prompt_of(job), config.vocab_size, "prompt"));
  const auto n_prompt = static_cast<std::int64_t>(prompt_of(job).size());
  if (const auto* generate = std::get_if<GenerateJob>(&job)) {
    MUNIA_RETURN_IF_ERROR(decode::validate(generate->sampling, config.vocab_size));
    const std::int64_t least = generate->prompt_logprobs >= 0 ? 0 : 1;
    if (generate->max_tokens < least) {
      return Error{ErrorCode::kInvalidArgument,
                   "max_tokens is " + std::to_string(generate->max_tokens) +
                       "; it must be at least " + std::to_string(least)};
    }
    if (generate->max_tokens == 0) return check_fits(n_prompt, context, "the prompt takes");
    return check_fits(n_prompt + 1, context, "the prompt and one new token take");
  }
  if (const auto* score = std::get_if<ScoreJob>(&job)) {
    if (score->continuations.empty()) {
      return Error{ErrorCode::kInvalidArgument, "there are no continuations to score"};
    }
    std::size_t longest = 0;
    for (const std::vector<std::int32_t>& continuation : score->continuations) {
      MUNIA_RETURN_IF_ERROR(check_ids(continuation, config.vocab_size, "continuation"));
      longest = std::max(longest, continuation.size());
    }
    // The last token of a continuation is scored, never computed.
    return check_fits(n_prompt + static_cast<std::int64_t>(longest) - 1, context,
                      "the prompt and its longest continuation take");
  }
  for (const std::int64_t layer : std::get<LogitsJob>(job).tap_layers) {
    if (layer < 0 || layer > config.n_layers) {
      return Error{
          ErrorCode::kInvalidArgument,
          "layer " + std::to_string(layer) + " is outside 0 to " + std::to_string(config.n_layers)};
    }
  }
  return check_fits(n_prompt, context, "the prompt takes");
}

class EngineTicket : public Ticket {
 public:
  Result<JobResult> wait() override {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return result_.has_value(); });
    return *std::move(result_);
  }
  void cancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  void finish(Result<JobResult> result) {
    const std::lock_guard lock(mutex_);
    result_.emplace(std::move(result));
    done_.notify_all();
  }

 private:
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::condition_variable done_;
  std::optional<Result<JobResult>> result_;
};

}  // namespace

// The engine thread and all that only it touches.
class Engine::Loop {
 public:
  Loop(const ModelBundle& bundle, std::unique_ptr<ThreadPool> pool, const EngineOptions& options)
      : bundle_(bundle),
        options_(options),
        pool_(std::move(pool)),
        kv_pool_(std::make_shared<model::KvPool>(bundle.model->kv_layout(), options.max_kv_bytes)),
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

  Result<std::shared_ptr<Ticket>> submit(Job job) {
    auto ticket = std::make_shared<EngineTicket>();
    Waiting waiting{std::move(job), ticket, Clock::now()};
    {
      const std::lock_guard lock(mutex_);
      if (queue_.size() >= options_.max_queue) {
        return Error{ErrorCode::kLimit,
                     "the queue is full: " + std::to_string(queue_.size()) + " jobs are waiting"};
      }
      queue_.push_back(std::move(waiting));
    }
    wake_.notify_all();
    return std::shared_ptr<Ticket>(std::move(ticket));
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
    Clock::time_point submitted;
    Clock::time_point started;
    std::optional<Clock::time_point> first_logits;
  };

  void run() {
    while (true) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stopping_ || !queue_.empty() || !active_.empty(); });
        if (stopping_) break;
        admit();
      }
      drop_cancelled();
      step();
    }
    const Error stopped{ErrorCode::kUnavailable, "the engine is shutting down"};
    for (Active& active : active_) active.ticket->finish(stopped);
    active_.clear();
    const std::lock_guard lock(mutex_);
    for (Waiting& waiting : queue_) waiting.ticket->finish(stopped);
    queue_.clear();
  }

  // Starts waiting jobs in order of arrival while slots and KV memory last. Holds mutex_.
  void admit() {
    const std::int64_t capacity = kv_capacity_tokens();
    while (!queue_.empty()) {
      Waiting& next = queue_.front();
      if (next.ticket->cancelled()) {
        next.ticket->finish(cancelled_error());
        queue_.pop_front();
        continue;
      }
      const std::int64_t kv_tokens = max_kv_tokens(next.job, bundle_.model->context());
      if (kv_tokens > capacity) {
        next.ticket->finish(
            Error{ErrorCode::kLimit, "the job needs a KV cache of " + std::to_string(kv_tokens) +
                                         " tokens; memory is set for " + std::to_string(capacity)});
        queue_.pop_front();
        continue;
      }
      if (static_cast<std::int64_t>(active_.size()) >= options_.max_sequences ||
          kv_tokens_in_use_ + kv_tokens > capacity) {
        return;
      }
      if (Result<std::unique_ptr<Run>> run = make_run_for(std::move(next.job))) {
        kv_tokens_in_use_ += kv_tokens;
        active_.push_back({*std::move(run), std::move(next.ticket), kv_tokens, next.submitted,
                           Clock::now(), std::nullopt});
      } else {
        next.ticket->finish(run.error());
      }
      queue_.pop_front();
    }
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
        slice.logit_rows.push_back(part.share.n_tokens - part.share.n_logit_rows + i);
      }
      batch.sequences.push_back(std::move(slice));
    }
    const std::vector<std::vector<float>> hidden = add_taps(parts, batch);
    bundle_.model->forward(batch, activations_, *pool_);
    deliver(parts, batch, hidden);
    finish_steps();
  }

  std::vector<Part> plan() {
    std::vector<Part> parts;
    std::vector<SequenceDemand> demands;
    std::vector<Sequence*> sequences;
    for (Active& active : active_) {
      sequences.clear();
      active.run->collect(sequences);
      for (Sequence* sequence : sequences) {
        parts.push_back({&active, sequence, {}, sequence->kv.n_tokens()});
        demands.push_back({sequence->n_pending(), sequence->all_rows});
      }
    }
    const std::vector<StepShare> shares = plan_step(
        demands, {activations_.limits().max_tokens, activations_.limits().max_logit_rows});
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].share = shares[i];
    std::erase_if(parts, [](const Part& part) { return part.share.n_tokens == 0; });
    return parts;
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
              tap, std::span(hidden[i]).subspan(first_token * hidden_dim, n_tokens * hidden_dim));
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
      end(active,
          active.run->take_result({ms_between(active.submitted, active.started),
                                   ms_between(active.submitted, active.first_logits.value_or(now)),
                                   ms_between(active.submitted, now)}));
      return true;
    });
  }

  const ModelBundle& bundle_;
  const EngineOptions options_;
  const std::unique_ptr<ThreadPool> pool_;
  const std::shared_ptr<model::KvPool> kv_pool_;
  model::Activations activations_;
  std::deque<Active> active_;
  std::int64_t kv_tokens_in_use_ = 0;

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<Waiting> queue_;
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
  loop_ = std::make_unique<Loop>(*bundle_, std::move(pool), options_);
}

Engine::~Engine() = default;

Result<std::shared_ptr<Ticket>> Engine::submit(Job job) {
  MUNIA_RETURN_IF_ERROR(check_job(job, *bundle_));
  return loop_->submit(std::move(job));
}

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
