// Picks the next token from one row of logits: penalties, bias, temperature, top-k, top-p, min-p,
// seeded draw; greedy when the temperature is 0. Knows only numbers, no text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "decode/random.h"

namespace munia::decode {

struct SamplingParams {
  float temperature = 0;         // 0: greedy (the lowest id wins ties)
  std::int64_t top_k = 0;        // 0: off
  float top_p = 1;               // in (0, 1]
  float min_p = 0;               // in [0, 1): drops p < min_p * p_max
  std::uint64_t seed = 0;        // the same seed gives the same draws
  float repetition_penalty = 1;  // > 0, as in transformers: prompt and generated tokens
  float presence_penalty = 0;    // OpenAI: generated tokens only, in [-2, 2]
  float frequency_penalty = 0;   // OpenAI: generated tokens only, in [-2, 2]
  std::vector<std::pair<std::int32_t, float>> logit_bias;  // id, added to its logit
};

/// One sentence about the first value out of range, or success.
Status validate(const SamplingParams& params);
/// As above, and every id of logit_bias must be below `vocab_size`.
Status validate(const SamplingParams& params, std::int64_t vocab_size);

/// Sets the logits of `ids` in a row to -inf; ids outside of it are passed over.
void exclude(std::span<const std::int32_t> ids, std::span<float> logits);

/// State of one sequence's sampling. Not thread-safe; one per sequence.
///
/// Order, as transformers applies its processors: repetition penalty, presence and frequency
/// penalty, bias, temperature, top_k, top_p, min_p. Ties at the edge of top_k are all kept (as
/// there); at the edge of top_p, which the reference leaves open, the lower ids are kept.
///
/// Broken rows: a NaN logit counts as -inf, so it is never picked; where a logit is +inf, only such
/// tokens are left, with equal weight; a row without any logit above -inf gives id 0.
class Sampler {
 public:
  Sampler(SamplingParams params, std::span<const std::int32_t> prompt, std::int64_t vocab_size);

  /// Applies penalties and bias to `logits` [vocab_size] in place, then picks. The token is counted
  /// as generated.
  std::int32_t pick(std::span<float> logits);
  /// What `pick` does to a row before it chooses: penalties and bias, in place. Each is monotone:
  /// of two values of an id the larger never becomes the smaller one, so bounds stay bounds.
  void penalize(std::span<float> logits) const;
  /// Counts `id` as generated without drawing: a token that something else chose.
  void accept(std::int32_t id);
  /// The probabilities that the next `pick` of the same row would draw from, [vocab_size], sum 1;
  /// at temperature 0 all of it on one token. Changes `logits` as `pick` does; counts and draws
  /// nothing.
  std::vector<double> distribution(std::span<float> logits);
  /// True when pick is a plain argmax of untouched logits (no penalty, no bias, temperature 0).
  bool is_plain_greedy() const;

 private:
  struct Candidate {
    double weight;  // exp((logit - max) / temperature)
    std::int32_t id;
  };

  void select_candidates(std::span<const float> logits);
  float top_k_threshold(std::span<const float> logits);
  void exponentiate();
  void keep_top_p();

  SamplingParams params_;
  std::int64_t vocab_size_;
  Xoshiro256 random_;
  std::vector<std::int32_t> seen_ids_;  // ascending, distinct: prompt and generated
  std::vector<std::pair<std::int32_t, std::int64_t>> generated_counts_;  // id ascending, times
  std::vector<Candidate> candidates_;       // scratch: what is left to draw from
  std::vector<Candidate> edge_candidates_;  // scratch of top_p
  std::vector<float> largest_;              // scratch of top_k
};

}  // namespace munia::decode
