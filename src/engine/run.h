// A job while the engine computes it: which sequences still have tokens to compute, and what their
// logits lead to. One subclass per kind of job (generate_run, beam_run, score_run, logits_run).
// Lives on the engine thread, but for choose().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/job.h"
#include "engine/model_bundle.h"
#include "model/head.h"
#include "model/kv_cache.h"

namespace munia::engine {

/// Tokens of one sequence and how far they are computed.
struct Sequence {
  std::vector<std::int32_t> tokens;
  model::KvCache kv;
  bool all_rows = false;  // logits wanted behind every token, not only behind the last

  std::int64_t n_pending() const {
    return static_cast<std::int64_t>(tokens.size()) - kv.n_tokens();
  }
};

class Run {
 public:
  virtual ~Run() = default;

  /// Appends the sequences that have pending tokens; empty when the job has ended.
  virtual void collect(std::vector<Sequence*>& sequences) = 0;
  /// What is wanted of the logits behind tokens[index]. Its spans must live until on_logits().
  virtual model::LogitRow wanted_logits(const Sequence& /*sequence*/, std::int64_t index) {
    return index;
  }
  /// The work on the logits behind tokens[index] that touches nothing but what this run has for
  /// this sequence and calls nobody: before on_logits(), on any thread of the pool, beside other
  /// sequences and runs. Only for the last row of a sequence in a step.
  virtual void choose(const Sequence& /*sequence*/, std::int64_t /*index*/,
                      std::span<float> /*logits*/) {}
  /// The logits behind tokens[index] of `sequence` (may be changed in place): as far as
  /// wanted_logits() asked for them.
  virtual void on_logits(Sequence& sequence, std::int64_t index, std::span<float> logits) = 0;
  /// How many of the sequence's first tokens may come from the prefix cache: tokens taken from
  /// there have neither logits nor hidden states.
  virtual std::int64_t n_takeable(const Sequence& sequence) const {
    return sequence.all_rows ? 0 : static_cast<std::int64_t>(sequence.tokens.size()) - 1;
  }
  /// Whether what the sequence computes is worth keeping in the prefix cache.
  virtual bool is_kept(const Sequence& /*sequence*/) const { return true; }
  /// The model's first so many blocks suffice: the run gets no logits, and leaves nothing in the
  /// prefix cache, since later layers have no keys and values. Nothing: all blocks.
  virtual std::optional<std::int64_t> n_blocks() const { return std::nullopt; }
  /// Layers whose hidden states are wanted (model::HiddenTap); most runs want none.
  virtual std::span<const std::int64_t> tap_layers() const { return {}; }
  /// Hidden states [n_tokens, hidden_dim] of layer tap_layers()[tap] for consecutive tokens of the
  /// run's only sequence, from tokens[first] on.
  virtual void on_hidden(std::size_t /*tap*/, std::int64_t /*first*/, std::int64_t /*n_tokens*/,
                         std::span<const float> /*hidden*/) {}
  /// After all logits of a step: the place to grow sequences. An Error ends the job.
  virtual Status end_step() { return {}; }
  /// The finished job's result, once collect() gives nothing.
  virtual JobResult take_result(const Timings& timings) = 0;
};

/// Most KV tokens that a job can hold at once, over all its sequences and rounded up to pages.
/// `kv_cache`: whether its sequences keep what they computed, and so share it.
std::int64_t max_kv_tokens(const Job& job, std::int64_t context, bool kv_cache);
/// How many sequences a job brings on at once.
std::int64_t n_sequences(const Job& job);

/// kInvalidArgument when the continuations do not make a tree (none, an empty one, too many
/// tokens).
Result<std::unique_ptr<Run>> make_run(std::shared_ptr<model::KvPool> pool, ScoreJob job);
std::unique_ptr<Run> make_run(const ModelBundle& bundle, std::shared_ptr<model::KvPool> pool,
                              GenerateJob job, bool kv_cache);
/// A job whose beams are enabled().
std::unique_ptr<Run> make_beam_run(const ModelBundle& bundle, std::shared_ptr<model::KvPool> pool,
                                   GenerateJob job, bool kv_cache);
std::unique_ptr<Run> make_run(std::shared_ptr<model::KvPool> pool, LogitsJob job);

}  // namespace munia::engine
