#include "engine/run.h"

#include <algorithm>
#include <utility>

namespace munia::engine {
namespace {

std::int64_t whole_pages(std::int64_t n_tokens) {
  return (n_tokens + kernels::kPageTokens - 1) / kernels::kPageTokens * kernels::kPageTokens;
}

}  // namespace

std::int64_t max_kv_tokens(const Job& job, std::int64_t context, bool kv_cache) {
  if (const auto* generate = std::get_if<GenerateJob>(&job)) {
    const auto n_prompt = static_cast<std::int64_t>(generate->prompt.size());
    const std::int64_t n_tokens = n_prompt + std::min(generate->max_tokens, context - n_prompt);
    // Beams share the whole pages of the prompt; with luck more.
    const std::int64_t n_shared =
        kv_cache ? n_prompt / kernels::kPageTokens * kernels::kPageTokens : 0;
    return n_shared + n_sequences(job) * whole_pages(n_tokens - n_shared);
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

std::int64_t n_sequences(const Job& job) {
  // The branches of a score are few and short-lived.
  const auto* generate = std::get_if<GenerateJob>(&job);
  return generate == nullptr ? 1 : generate->beams.num_beams;
}

std::vector<GenerateResult> texts_of(GenerateResult result) {
  std::vector<GenerateResult> texts;
  std::vector<GenerateResult> others = std::move(result.others);
  texts.push_back(std::move(result));
  for (GenerateResult& other : others) texts.push_back(std::move(other));
  return texts;
}

}  // namespace munia::engine
