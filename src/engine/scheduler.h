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
  /// Rows of prompts in a step that also brings interactive replies on: what such a step takes is
  /// how long those replies pause. Above some 100 rows a row costs the same however many there are.
  std::int64_t max_prompt_beside_replies = 128;
  /// Rows of bulk prompts in a step with anything interactive. From some 16 rows on a row costs at
  /// most half as much again, so little is lost.
  std::int64_t max_bulk_beside_interactive = 32;
};

/// One active sequence, in order of arrival.
struct SequenceDemand {
  std::int64_t n_pending = 0;  // tokens not computed yet, > 0
  bool all_rows = false;       // logits wanted behind every pending token, not only the last
  bool is_bulk = false;        // gives way to those that are not
};

struct StepShare {
  std::int64_t n_tokens = 0;      // of n_pending, 0: not in this step
  std::int64_t n_logit_rows = 0;  // at the end of these tokens
};

/// A share for each demand. Sequences with one pending token (decoding) come first, so that a long
/// prompt never stops a reply; the rest of the step goes to prompts. Of both, interactive ones come
/// before bulk, then the earlier one. Every step moves at least one sequence.
std::vector<StepShare> plan_step(std::span<const SequenceDemand> demands, const StepLimits& limits);

}  // namespace munia::engine
