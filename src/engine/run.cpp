#include "engine/run.h"

#include <algorithm>

namespace munia::engine {
namespace {

std::int64_t whole_pages(std::int64_t n_tokens) {
  return (n_tokens + kernels::kPageTokens - 1) / kernels::kPageTokens * kernels::kPageTokens;
}

}  // namespace

std::int64_t max_kv_tokens(const Job& job, std::int64_t context) {
  if (const auto* generate = std::get_if<GenerateJob>(&job)) {
    const auto n_prompt = static_cast<std::int64_t>(generate->prompt.size());
    return whole_pages(n_prompt + std::min(generate->max_tokens, context - n_prompt));
  }
  if (const auto* score = std::get_if<ScoreJob>(&job)) {
    // Each branch shares the whole pages before it and holds a copy of the last, partly filled one.
    std::int64_t branches = 0;
    for (const std::vector<std::int32_t>& continuation : score->continuations) {
      const auto n_computed = static_cast<std::int64_t>(continuation.size()) - 1;
      if (n_computed > 0) branches += kernels::kPageTokens + whole_pages(n_computed);
    }
    return whole_pages(static_cast<std::int64_t>(score->prompt.size())) + branches;
  }
  return whole_pages(static_cast<std::int64_t>(std::get<LogitsJob>(job).prompt.size()));
}

}  // namespace munia::engine
