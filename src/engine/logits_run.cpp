// Raw logits, and hidden states, of a prompt.
#include "engine/run.h"

namespace munia::engine {
namespace {

class LogitsRun : public Run {
 public:
  LogitsRun(std::shared_ptr<model::KvPool> pool, LogitsJob job)
      : job_(std::move(job)),
        sequence_{job_.prompt, model::KvCache(std::move(pool)), job_.all_rows} {
    result_.hidden.resize(job_.tap_layers.size());
  }

  void collect(std::vector<Sequence*>& sequences) override {
    if (sequence_.n_pending() > 0) sequences.push_back(&sequence_);
  }

  void on_logits(Sequence& /*sequence*/, std::int64_t index, std::span<float> logits) override {
    if (job_.on_row) job_.on_row(index, logits);
  }

  std::int64_t n_takeable(const Sequence& sequence) const override {
    return job_.tap_layers.empty() ? Run::n_takeable(sequence) : 0;
  }

  std::span<const std::int64_t> tap_layers() const override { return job_.tap_layers; }

  void on_hidden(std::size_t tap, std::int64_t /*first*/, std::int64_t /*n_tokens*/,
                 std::span<const float> hidden) override {
    std::vector<float>& out = result_.hidden[tap];
    out.insert(out.end(), hidden.begin(), hidden.end());
  }

  JobResult take_result(const Timings& timings) override {
    result_.usage.prompt_tokens = static_cast<std::int64_t>(job_.prompt.size());
    result_.timings = timings;
    return std::move(result_);
  }

 private:
  LogitsJob job_;
  Sequence sequence_;
  LogitsResult result_;
};

}  // namespace

std::unique_ptr<Run> make_run(std::shared_ptr<model::KvPool> pool, LogitsJob job) {
  return std::make_unique<LogitsRun>(std::move(pool), std::move(job));
}

}  // namespace munia::engine
