#include "engine/scheduler.h"

#include <algorithm>

namespace munia::engine {

std::vector<StepShare> plan_step(std::span<const SequenceDemand> demands,
                                 const StepLimits& limits) {
  std::vector<StepShare> shares(demands.size());
  std::int64_t tokens_left = limits.max_tokens;
  std::int64_t rows_left = limits.max_logit_rows;
  const auto give = [&](bool decoding, bool is_bulk) {
    for (std::size_t i = 0; i < demands.size(); ++i) {
      const SequenceDemand& demand = demands[i];
      if ((demand.n_pending == 1) != decoding || demand.is_bulk != is_bulk) continue;
      std::int64_t n_tokens = std::min(demand.n_pending, tokens_left);
      std::int64_t n_rows = 0;
      if (demand.all_rows) {
        n_tokens = std::min(n_tokens, rows_left);
        n_rows = n_tokens;
      } else if (n_tokens == demand.n_pending) {
        n_rows = 1;
        // Without a row for the last token, the prompt waits with it for the next step.
        if (rows_left == 0) {
          n_rows = 0;
          --n_tokens;
        }
      }
      shares[i] = {n_tokens, n_rows};
      tokens_left -= n_tokens;
      rows_left -= n_rows;
    }
  };
  const auto any_interactive = [&](auto holds) {
    return std::any_of(demands.begin(), demands.end(), [&](const SequenceDemand& demand) {
      return !demand.is_bulk && holds(demand);
    });
  };
  give(true, false);
  give(true, true);
  if (any_interactive([](const SequenceDemand& demand) { return demand.n_pending == 1; })) {
    tokens_left = std::min(tokens_left, limits.max_prompt_beside_replies);
  }
  give(false, false);
  if (any_interactive([](const SequenceDemand&) { return true; })) {
    tokens_left = std::min(tokens_left, limits.max_bulk_beside_interactive);
  }
  give(false, true);
  return shares;
}

}  // namespace munia::engine
