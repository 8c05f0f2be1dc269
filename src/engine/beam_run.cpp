// Continues a prompt by beam search: each beam is a sequence of the batch, with its own penalties
// and stop texts. Beams share whole pages of keys and values; one that goes on several ways is
// forked, which copies its last, partly filled page. Which beams go on is decode/beam.h's to say.
#include <algorithm>
#include <utility>

#include "decode/beam.h"
#include "decode/logprobs.h"
#include "decode/sampler.h"
#include "decode/stop.h"
#include "engine/run.h"
#include "text/stream_decoder.h"

namespace munia::engine {
namespace {

using decode::BeamCandidate;
using decode::BeamEnd;

// The text of a beam as far as stop texts need it.
class BeamText {
 public:
  BeamText(const text::Tokenizer& tokenizer, const std::vector<std::string>& stops)
      : tokenizer_(&tokenizer), stop_(stops) {}

  std::string push(std::int32_t id) {
    if (tokenizer_->is_special(id)) return {};
    return stop_.push(decoder_.push(tokenizer_->token_bytes(id)));
  }
  std::string finish() {
    std::string rest = stop_.push(decoder_.finish());
    if (!stop_.stopped()) rest += stop_.finish();
    return rest;
  }
  bool stopped() const { return stop_.stopped(); }

 private:
  const text::Tokenizer* tokenizer_;
  text::StreamDecoder decoder_;
  decode::StopMatcher stop_;
};

class BeamRun : public Run {
 public:
  BeamRun(const ModelBundle& bundle, std::shared_ptr<model::KvPool> pool, GenerateJob job,
          bool kv_cache)
      : job_(std::move(job)),
        tokenizer_(*bundle.tokenizer),
        kv_cache_(kv_cache),
        end_ids_(job_.ignore_eos ? std::vector<std::int32_t>() : bundle.eos_ids),
        search_(job_.beams, static_cast<std::int64_t>(end_ids_.size()),
                std::min(job_.max_tokens,
                         bundle.model->context() - static_cast<std::int64_t>(job_.prompt.size()))) {
    beams_.push_back(std::make_unique<Beam>(
        Beam{{job_.prompt, model::KvCache(std::move(pool))},
             decode::Sampler(job_.sampling, job_.prompt, bundle.model->config().vocab_size),
             BeamText(tokenizer_, job_.stops),
             {}}));
  }

  void collect(std::vector<Sequence*>& sequences) override {
    for (const std::unique_ptr<Beam>& beam : beams_) {
      if (beam->sequence.n_pending() > 0) sequences.push_back(&beam->sequence);
    }
  }

  // Processors see log-probabilities here, where they see logits without beams: so does the
  // reference.
  void choose(const Sequence& sequence, std::int64_t /*index*/, std::span<float> logits) override {
    Beam& beam = beam_of(sequence);
    decode::LogSoftmax(logits).apply(logits);
    beam.sampler.penalize(logits);
    if (n_tokens_ < job_.min_tokens) decode::exclude(end_ids_, logits);
    beam.best = decode::largest(logits, search_.n_candidates());
  }

  void on_logits(Sequence& /*sequence*/, std::int64_t /*index*/,
                 std::span<float> /*logits*/) override {}

  // Of the tokens of beams, most lead nowhere.
  bool is_kept(const Sequence& /*sequence*/) const override { return n_tokens_ == 0; }

  Status end_step() override {
    std::vector<BeamCandidate> candidates;
    for (std::size_t b = 0; b < beams_.size(); ++b) {
      if (beams_[b]->sequence.n_pending() > 0) return {};  // its turn comes in the next step
      const auto beam = static_cast<std::int32_t>(b);
      for (const auto& [logprob, id] : beams_[b]->best) {
        candidates.push_back({beam, id, search_.score(beam) + static_cast<double>(logprob)});
      }
    }
    ++n_tokens_;
    return go_on(search_.advance(std::move(candidates), [this](const BeamCandidate& candidate) {
      return end_of(candidate);
    }));
  }

  JobResult take_result(const Timings& timings) override {
    std::vector<GenerateResult> texts;
    for (decode::Hypothesis& text : search_.take_best()) {
      texts.push_back(result_of(std::move(text)));
      texts.back().timings = timings;
    }
    MUNIA_CHECK(!texts.empty());  // check_job() leaves room for as many candidates as beams
    GenerateResult result = std::move(texts.front());
    result.usage.prompt_tokens = static_cast<std::int64_t>(job_.prompt.size());
    result.others.assign(std::make_move_iterator(texts.begin() + 1),
                         std::make_move_iterator(texts.end()));
    if (job_.on_text && !result.text.empty()) job_.on_text(result.text);
    return result;
  }

 private:
  struct Beam {
    Sequence sequence;
    decode::Sampler sampler;                           // its penalties alone: nothing is drawn
    BeamText text;                                     // only where there are stop texts
    std::vector<std::pair<float, std::int32_t>> best;  // log p and id, of the step at hand
  };

  Beam& beam_of(const Sequence& sequence) const {
    const auto found = std::find_if(beams_.begin(), beams_.end(),
                                    [&](const auto& beam) { return &beam->sequence == &sequence; });
    MUNIA_CHECK(found != beams_.end());
    return **found;
  }

  bool is_end(std::int32_t id) const {
    return std::find(end_ids_.begin(), end_ids_.end(), id) != end_ids_.end();
  }

  BeamEnd end_of(const BeamCandidate& candidate) const {
    if (is_end(candidate.id)) return BeamEnd::kEndToken;
    if (job_.stops.empty()) return BeamEnd::kNone;
    BeamText text = beams_[static_cast<std::size_t>(candidate.beam)]->text;
    text.push(candidate.id);
    return text.stopped() ? BeamEnd::kStopText : BeamEnd::kNone;
  }

  // The beams of the next step. Those that nothing follows give their pages back first, so that
  // there are never more than num_beams; the last one that follows a beam takes what it has.
  Status go_on(const std::vector<BeamCandidate>& next) {
    std::vector<std::size_t> n_following(beams_.size(), 0);
    for (const BeamCandidate& candidate : next) {
      ++n_following[static_cast<std::size_t>(candidate.beam)];
    }
    for (std::size_t b = 0; b < beams_.size(); ++b) {
      if (n_following[b] == 0) beams_[b].reset();
    }
    std::vector<std::unique_ptr<Beam>> beams;
    for (const BeamCandidate& candidate : next) {
      const auto parent = static_cast<std::size_t>(candidate.beam);
      if (--n_following[parent] == 0) {
        beams.push_back(std::move(beams_[parent]));
      } else {
        const Beam& from = *beams_[parent];
        MUNIA_ASSIGN_OR_RETURN(model::KvCache kv, from.sequence.kv.fork());
        beams.push_back(std::make_unique<Beam>(
            Beam{{from.sequence.tokens, std::move(kv)}, from.sampler, from.text, {}}));
      }
    }
    for (std::size_t b = 0; b < beams.size(); ++b) {
      Beam& beam = *beams[b];
      beam.sequence.tokens.push_back(next[b].id);
      beam.sampler.accept(next[b].id);
      if (!job_.stops.empty()) beam.text.push(next[b].id);
      // Without a cache the next step computes the whole past again.
      if (!kv_cache_) beam.sequence.kv.truncate(0);
    }
    beams_ = std::move(beams);
    return {};
  }

  GenerateResult result_of(decode::Hypothesis hypothesis) const {
    GenerateResult result;
    result.score = hypothesis.score;
    result.ids = std::move(hypothesis.ids);
    if (hypothesis.end == BeamEnd::kEndToken) result.ids.pop_back();
    BeamText text(tokenizer_, job_.stops);
    for (const std::int32_t id : result.ids) result.text += text.push(id);
    result.text += text.finish();
    const bool by_length = hypothesis.end == BeamEnd::kLength && !text.stopped();
    result.finish_reason = by_length ? "length" : "stop";
    result.usage.completion_tokens = static_cast<std::int64_t>(result.ids.size());
    return result;
  }

  GenerateJob job_;
  const text::Tokenizer& tokenizer_;
  bool kv_cache_;
  std::vector<std::int32_t> end_ids_;
  decode::BeamSearch search_;
  std::int64_t n_tokens_ = 0;  // of every beam, behind the prompt
  std::vector<std::unique_ptr<Beam>> beams_;
};

}  // namespace

std::unique_ptr<Run> make_beam_run(const ModelBundle& bundle, std::shared_ptr<model::KvPool> pool,
                                   GenerateJob job, bool kv_cache) {
  return std::make_unique<BeamRun>(bundle, std::move(pool), std::move(job), kv_cache);
}

}  // namespace munia::engine
