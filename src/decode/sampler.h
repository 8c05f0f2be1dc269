// Picks the next token from one row of logits: penalties, bias, temperature, top-k, top-p, min-p,
// seeded draw; greedy when the temperature is 0. Knows only numbers, no text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

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

/// State of one sequence's sampling. Not thread-safe; one per sequence.
class Sampler {
 public:
  Sampler(SamplingParams params, std::span<const std::int32_t> prompt, std::int64_t vocab_size);

  /// Applies penalties and bias to `logits` [vocab_size] in place, then picks. The token is counted
  /// as generated.
  std::int32_t pick(std::span<float> logits);
  /// True when pick is a plain argmax of untouched logits (no penalty, no bias, temperature 0).
  bool is_plain_greedy() const;

 private:
  SamplingParams params_;
  std::uint64_t random_state_[4];
  std::vector<std::int32_t> prompt_ids_;                                 // distinct
  std::vector<std::pair<std::int32_t, std::int64_t>> generated_counts_;  // id, times
  std::vector<std::pair<float, std::int32_t>> candidates_;               // scratch
};

}  // namespace munia::decode
