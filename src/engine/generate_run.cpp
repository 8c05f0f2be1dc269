// Continues a prompt token by token: pick, turn into whole characters, watch for stop strings.
#include <algorithm>

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
        sampler_(job_.sampling, job_.prompt, bundle.model->config().vocab_size),
        stop_(job_.stops) {
    const auto n_prompt = static_cast<std::int64_t>(job_.prompt.size());
    max_tokens_ = std::min(job_.max_tokens, bundle.model->context() - n_prompt);
  }

  void collect(std::vector<Sequence*>& sequences) override {
    if (finish_reason_ == nullptr) sequences.push_back(&sequence_);
  }

  model::LogitRow wanted_logits(const Sequence& /*sequence*/, std::int64_t index) override {
    model::LogitRow row = index;
    if (job_.sampling.temperature == 0) {
      row.want = model::LogitRow::Want::kLargest;
      row.change = {[](const void* sampler, std::span<float> values) {
                      static_cast<const decode::Sampler*>(sampler)->penalize(values);
                    },
                    &sampler_};
    }
    return row;
  }

  void on_logits(Sequence& sequence, std::int64_t /*index*/, std::span<float> logits) override {
    const std::int32_t id = sampler_.pick(logits);
    const std::vector<std::int32_t>& ends = bundle_.eos_ids;
    if (!job_.ignore_eos && std::find(ends.begin(), ends.end(), id) != ends.end()) {
      finish("stop");
      return;
    }
    result_.ids.push_back(id);
    if (!bundle_.tokenizer->is_special(id)) {
      emit(stop_.push(decoder_.push(bundle_.tokenizer->token_bytes(id))));
    }
    if (stop_.stopped()) {
      finish_reason_ = "stop";
    } else if (static_cast<std::int64_t>(result_.ids.size()) >= max_tokens_) {
      finish("length");
    } else {
      sequence.tokens.push_back(id);
      // Without a cache the next step computes the whole past again, as the measured alternative.
      if (!kv_cache_) sequence.kv.truncate(0);
    }
  }

  JobResult take_result(const Timings& timings) override {
    result_.finish_reason = finish_reason_;
    result_.usage.prompt_tokens = static_cast<std::int64_t>(job_.prompt.size());
    result_.usage.completion_tokens = static_cast<std::int64_t>(result_.ids.size());
    result_.timings = timings;
    return std::move(result_);
  }

 private:
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
  decode::Sampler sampler_;
  text::StreamDecoder decoder_;
  decode::StopMatcher stop_;
  std::int64_t max_tokens_;
  const char* finish_reason_ = nullptr;
  GenerateResult result_;
};

}  // namespace

std::unique_ptr<Run> make_run(const ModelBundle& bundle, std::shared_ptr<model::KvPool> pool,
                              GenerateJob job, bool kv_cache) {
  return std::make_unique<GenerateRun>(bundle, std::move(pool), std::move(job), kv_cache);
}

}  // namespace munia::engine
