// Beam search without a model: which beams go on, which have finished, and when no better text can
// come. The rules are those of transformers' beam search (generation/utils.py, _beam_search), with
// sums in double. Knows token ids and scores, no text and no cache; the engine computes the beams.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "decode/sampler.h"

namespace munia::decode {

inline constexpr std::int64_t kMaxBeams = 32;

/// When a search ends that has found num_beams texts.
enum class EarlyStopping : std::uint8_t {
  kFalse,  // when the best running beam, at its present length, scores below the worst of them
  kTrue,   // at once
  kNever,  // when no running beam can come to score better: with a positive length_penalty by its
           // score at the greatest length
};

struct BeamParams {
  std::int64_t num_beams = 1;   // 1: no beam search
  std::int64_t n_returned = 1;  // at most num_beams texts, the best first
  float length_penalty = 1;     // a text scores (sum of log p) / length^length_penalty
  EarlyStopping early_stopping = EarlyStopping::kFalse;

  bool enabled() const { return num_beams > 1; }
};

/// One sentence about the first value out of range, or success. Beams are not sampled: with them
/// the temperature is 0.
Status validate(const BeamParams& params, const SamplingParams& sampling);

/// "true", "false" or "never"; kInvalidArgument for anything else.
Result<EarlyStopping> early_stopping_named(std::string_view name);

/// A running beam with one more token.
struct BeamCandidate {
  std::int32_t beam = 0;  // index among the running beams
  std::int32_t id = 0;
  double score = 0;  // sum of log p with the token
};

/// How a candidate ends.
enum class BeamEnd : std::uint8_t { kNone, kEndToken, kStopText, kLength };

/// A finished text.
struct Hypothesis {
  std::vector<std::int32_t> ids;  // with the end token where it has one
  double score = 0;               // divided by length^length_penalty
  BeamEnd end = BeamEnd::kNone;
};

class BeamSearch {
 public:
  /// At first one beam runs, without any token. `n_ends` end tokens may close a text; it has
  /// `max_tokens` > 0 tokens at most, the end token counted.
  BeamSearch(const BeamParams& params, std::int64_t n_ends, std::int64_t max_tokens);

  /// How many of a step's best candidates are looked at: enough that num_beams of them go on, if
  /// every beam ends by every end token. advance() needs each beam's own best so many.
  std::int64_t n_candidates() const { return n_candidates_; }
  /// The sum of log p of a running beam.
  double score(std::int32_t beam) const { return running_[static_cast<std::size_t>(beam)].score; }

  /// Takes one step's candidates (any order) and says which go on as running beams 0, 1, …, best
  /// first; none when the search has ended. Equal scores: the lower beam, then the lower id comes
  /// first. `end_of` tells whether a candidate ends by a token or its text; the length is looked
  /// at here.
  std::vector<BeamCandidate> advance(std::vector<BeamCandidate> candidates,
                                     const std::function<BeamEnd(const BeamCandidate&)>& end_of);

  /// After the end: at most n_returned finished texts, the best first.
  std::vector<Hypothesis> take_best();

 private:
  struct Beam {
    std::vector<std::int32_t> ids;
    double score = 0;
  };
  double final_score(double score, std::int64_t length) const;
  void finish(const BeamCandidate& candidate, BeamEnd end);
  bool may_improve() const;

  BeamParams params_;
  std::int64_t n_candidates_;
  std::int64_t max_tokens_;
  std::int64_t n_tokens_ = 0;  // of every running beam
  std::vector<Beam> running_;
  std::vector<Hypothesis> finished_;  // the best num_beams, falling
};

}  // namespace munia::decode
