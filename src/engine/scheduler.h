// Decides how many tokens of which sequence the next step computes. Pure arithmetic: no clock, no
// I/O, no model, so that every rule can be tested by itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace munia::engine {

struct StepLimits {
  std::int64_t max_tokens = 512;     // rows in one step
  std::int64_t max_logit_rows = 32;  // rows whose logits are computed in one step
};

/// One active sequence, in order of arrival.
struct SequenceDemand {
  std::int64_t n_pending = 0;  // tokens not computed yet, > 0
  bool all_rows = false;       // logits wanted behind every pending token, not only the last
};

struct StepShare {
  std::int64_t n_tokens = 0;      // of n_pending, 0: not in this step
  std::int64_t n_logit_rows = 0;  // at the end of these tokens
};

/// A share for each demand. Sequences with one pending token (decoding) come first, so that a long
/// prompt never stops a reply; the rest of the step goes to prompts in order of arrival. Every step
/// moves at least one sequence.
std::vector<StepShare> plan_step(std::span<const SequenceDemand> demands, const StepLimits& limits);

}  // namespace munia::engine
