// Continues a prompt token by token: pick within the constraint, turn into whole characters, watch
// for stop strings.
#include <algorithm>
#include <memory>

#include "decode/constraint.h"
#include "decode/sampler.h"
#include "decode/stop.h"
#include "engine/run.h"
#include "text/stream_decoder.h"

namespace munia::engine {
namespace {

class GenerateRun : public Run {
 public:
  GenerateRun(const ModelBundle& bundle, std::shared_ptr<model::KvPool> pool, GenerateJob job,
              bool kv_cache)
      : bundle_(bundle),
        job_(std::move(job)),
        kv_cache_(kv_cache),
        sequence_{job_.prompt, model::KvCache(std::move(pool))},
        constraint_(std::move(job_.begun_constraint)),
        sampler_(job_.sampling, job_.prompt, bundle.model->config().vocab_size),
        stop_(job_.stops) {
    const auto n_prompt = static_cast<std::int64_t>(job_.prompt.size());
    max_tokens_ = std::min(job_.max_tokens, bundle.model->context() - n_prompt);
    sequence_.all_rows = job_.prompt_logprobs >= 0;
  }

  void collect(std::vector<Sequence*>& sequences) override {
    if (finish_reason_ == nullptr) sequences.push_back(&sequence_);
  }

  // A greedy token needs the largest logit; a constraint that leaves few tokens, theirs alone.
  model::LogitRow wanted_logits(const Sequence& /*sequence*/, std::int64_t index) override {
    model::LogitRow row = index;
    if (job_.top_logprobs >= 0 || is_in_prompt(index)) return row;
    if (constraint_ && !constraint_->few_allowed().empty()) {
      row.want = model::LogitRow::Want::kIds;
      const auto few = constraint_->few_allowed();
      wanted_ids_.assign(few.begin(), few.end());
      if (constraint_->can_end()) {
        wanted_ids_.insert(wanted_ids_.end(), bundle_.eos_ids.begin(), bundle_.eos_ids.end());
      }
      row.ids = wanted_ids_;
    } else if (job_.sampling.temperature == 0) {
      row.want = model::LogitRow::Want::kLargest;
      row.change = {[](const void* run, std::span<float> values) {
                      static_cast<const GenerateRun*>(run)->change(values);
                    },
                    this};
    }
    return row;
  }

  // A token drawn from a whole row takes up to a millisecond: rows of several users go side by
  // side.
  void choose(const Sequence& /*sequence*/, std::int64_t index, std::span<float> logits) override {
    if (is_in_prompt(index) || max_tokens_ == 0) return;
    // Penalties and the mask change the row, so the model's own opinion is read before.
    const std::vector<float> raw = job_.top_logprobs >= 0
                                       ? std::vector<float>(logits.begin(), logits.end())
                                       : std::vector<float>();
    if (constraint_) mask_out(logits);
    exclude_early_ends(logits);
    chosen_ = sampler_.pick(logits);
    if (!raw.empty()) chosen_logprob_ = decode::token_logprob(raw, chosen_, job_.top_logprobs);
    if (!constraint_) return;
    // Nothing is allowed where no token has the byte that must follow.
    stuck_ = !constraint_->allowed().has(chosen_);
    if (stuck_ || is_end(chosen_)) return;
    constraint_->accept(chosen_);
    (void)constraint_->allowed();  // the next step's, here where runs go side by side
  }

  void on_logits(Sequence& /*sequence*/, std::int64_t index, std::span<float> logits) override {
    if (is_in_prompt(index)) {
      const std::int32_t next = job_.prompt[static_cast<std::size_t>(index) + 1];
      result_.prompt_logprobs.push_back(decode::token_logprob(logits, next, job_.prompt_logprobs));
    } else if (max_tokens_ == 0) {
      finish("length");
    } else {
      take_chosen();
    }
  }

  // A constraint that failed, or a row that had no number for what it allows.
  Status end_step() override {
    if (!constraint_) return {};
    if (stuck_ && constraint_->status() && !constraint_->can_end()) {
      return Error{ErrorCode::kUnsupported,
                   "the reply cannot go on as its schema, regular expression or choices want: the "
                   "model gives no token that may follow"};
    }
    return constraint_->status();
  }

  JobResult take_result(const Timings& timings) override {
    result_.finish_reason = finish_reason_;
    result_.usage.prompt_tokens = static_cast<std::int64_t>(job_.prompt.size());
    result_.usage.completion_tokens = static_cast<std::int64_t>(result_.ids.size());
    result_.timings = timings;
    return std::move(result_);
  }

 private:
  bool is_in_prompt(std::int64_t index) const {
    return index + 1 < static_cast<std::int64_t>(job_.prompt.size());
  }

  void take_chosen() {
    // Then end_step() tells of it, and no text comes before.
    if (!end_step()) return;
    if (stuck_ || is_end(chosen_)) {
      finish("stop");
      return;
    }
    if (job_.top_logprobs >= 0) {
      result_.logprobs.push_back(std::move(chosen_logprob_));
      if (job_.on_token) job_.on_token(result_.logprobs.back());
    }
    take(chosen_);
  }

  // What pick() does to a row, for its bounds. The mask is at hand: wanted_logits() asked for it.
  void change(std::span<float> values) const {
    if (constraint_) mask_out(values);
    exclude_early_ends(values);
    sampler_.penalize(values);
  }

  // The tokens that the constraint allows, and the end where the text may end.
  void mask_out(std::span<float> logits) const {
    std::vector<float> ends;
    for (const std::int32_t id : bundle_.eos_ids)
      ends.push_back(logits[static_cast<std::size_t>(id)]);
    constraint_->allowed().apply(logits);
    for (std::size_t i = 0; constraint_->can_end() && i < ends.size(); ++i) {
      logits[static_cast<std::size_t>(bundle_.eos_ids[i])] = ends[i];
    }
  }

  void exclude_early_ends(std::span<float> logits) const {
    const auto n_tokens = static_cast<std::int64_t>(result_.ids.size());
    if (n_tokens < job_.min_tokens && !job_.ignore_eos) decode::exclude(bundle_.eos_ids, logits);
  }

  bool is_end(std::int32_t id) const {
    const std::vector<std::int32_t>& ends = bundle_.eos_ids;
    return !job_.ignore_eos && std::find(ends.begin(), ends.end(), id) != ends.end();
  }

  // The reply goes on with `id`.
  void take(std::int32_t id) {
    result_.ids.push_back(id);
    if (!bundle_.tokenizer->is_special(id)) {
      emit(stop_.push(decoder_.push(bundle_.tokenizer->token_bytes(id))));
    }
    if (stop_.stopped()) {
      finish_reason_ = "stop";
    } else if (constraint_ && constraint_->must_end()) {
      finish("stop");
    } else if (static_cast<std::int64_t>(result_.ids.size()) >= max_tokens_) {
      finish("length");
    } else {
      sequence_.tokens.push_back(id);
      sequence_.all_rows = false;
      // Without a cache the next step computes the whole past again, as the measured alternative.
      if (!kv_cache_) sequence_.kv.truncate(0);
    }
  }

  void finish(const char* reason) {
    emit(stop_.push(decoder_.finish()));
    if (stop_.stopped()) {
      reason = "stop";
    } else {
      emit(stop_.finish());
    }
    finish_reason_ = reason;
  }

  void emit(const std::string& piece) {
    if (piece.empty()) return;
    result_.text += piece;
    if (job_.on_text) job_.on_text(piece);
  }

  const ModelBundle& bundle_;
  GenerateJob job_;
  bool kv_cache_;
  Sequence sequence_;
  std::shared_ptr<decode::Constraint> constraint_;  // may be empty; nobody else's
  decode::Sampler sampler_;
  text::StreamDecoder decoder_;
  decode::StopMatcher stop_;
  std::vector<std::int32_t> wanted_ids_;  // by wanted_logits()
  std::int64_t max_tokens_;
  std::int32_t chosen_ = 0;  // by choose(), for on_logits() of the same step
  bool stuck_ = false;       // the same
  decode::TokenLogprob chosen_logprob_;
  const char* finish_reason_ = nullptr;
  GenerateResult result_;
};

}  // namespace

std::unique_ptr<Run> make_run(const ModelBundle& bundle, std::shared_ptr<model::KvPool> pool,
                              GenerateJob job, bool kv_cache) {
  if (job.beams.enabled()) {
    return make_beam_run(bundle, std::move(pool), std::move(job), kv_cache);
  }
  return std::make_unique<GenerateRun>(bundle, std::move(pool), std::move(job), kv_cache);
}

}  // namespace munia::engine
