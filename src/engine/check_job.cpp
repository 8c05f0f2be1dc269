#include "engine/check_job.h"

#include <algorithm>

namespace munia::engine {
namespace {

const std::vector<std::int32_t>& prompt_of(const Job& job) {
  return std::visit([](const auto& j) -> const std::vector<std::int32_t>& { return j.prompt; },
                    job);
}

Status check_ids(const std::vector<std::int32_t>& ids, std::int64_t vocab_size, const char* what) {
  if (ids.empty()) {
    return Error{ErrorCode::kInvalidArgument, std::string("the ") + what + " has no tokens"};
  }
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size) {
      return Error{ErrorCode::kInvalidArgument, "token id " + std::to_string(id) + " in the " +
                                                    what + " is outside 0 to " +
                                                    std::to_string(vocab_size - 1)};
    }
  }
  return {};
}

Status check_layers(std::span<const std::int64_t> layers, std::int64_t n_layers) {
  for (const std::int64_t layer : layers) {
    if (layer < 0 || layer > n_layers) {
      return Error{ErrorCode::kInvalidArgument, "layer " + std::to_string(layer) +
                                                    " is outside 0 to " + std::to_string(n_layers)};
    }
  }
  return {};
}

Status check_features(const Features& features, std::int64_t n_prompt, std::int64_t n_layers) {
  if (features.layers.empty()) return {};
  MUNIA_RETURN_IF_ERROR(check_layers(features.layers, n_layers));
  if (features.mean_begin >= 0 && features.mean_begin < features.mean_end &&
      features.mean_end <= n_prompt) {
    return {};
  }
  return Error{ErrorCode::kInvalidArgument,
               "the mean over tokens " + std::to_string(features.mean_begin) + " to " +
                   std::to_string(features.mean_end) + " is not one over the prompt's " +
                   std::to_string(n_prompt)};
}

// What a beam search cannot give, and a vocabulary that its candidates do not fit into.
Status check_beams(const GenerateJob& job, const ModelBundle& bundle) {
  MUNIA_RETURN_IF_ERROR(decode::validate(job.beams, job.sampling));
  if (!job.beams.enabled()) return {};
  const std::string with = " with num_beams " + std::to_string(job.beams.num_beams);
  if (job.top_logprobs >= 0 || job.prompt_logprobs >= 0) {
    return Error{ErrorCode::kUnsupported,
                 "log-probabilities" + with + " are not supported; use num_beams 1"};
  }
  if (job.constraint) {
    return Error{ErrorCode::kUnsupported, "a reply held to a format or to choices" + with +
                                              " is not supported; use num_beams 1"};
  }
  const auto n_ends = static_cast<std::int64_t>(bundle.eos_ids.size());
  const std::int64_t vocab_size = bundle.model->config().vocab_size;
  const std::int64_t n_candidates =
      decode::BeamSearch(job.beams, n_ends, job.max_tokens).n_candidates();
  if (n_candidates <= vocab_size) return {};
  return Error{ErrorCode::kLimit, "num_beams " + std::to_string(job.beams.num_beams) +
                                      " looks at " + std::to_string(n_candidates) +
                                      " tokens a step; this model has " +
                                      std::to_string(vocab_size) + ": use fewer beams"};
}

Status check_fits(std::int64_t n_tokens, std::int64_t context, const std::string& what) {
  if (n_tokens <= context) return {};
  return Error{ErrorCode::kLimit, what + " " + std::to_string(n_tokens) +
                                      " tokens; the context holds " + std::to_string(context) +
                                      ": shorten the text or raise --context"};
}

}  // namespace

Status check_job(const Job& job, const ModelBundle& bundle) {
  const model::ModelConfig& config = bundle.model->config();
  const std::int64_t context = bundle.model->context();
  MUNIA_RETURN_IF_ERROR(check_ids(prompt_of(job), config.vocab_size, "prompt"));
  const auto n_prompt = static_cast<std::int64_t>(prompt_of(job).size());
  if (const auto* generate = std::get_if<GenerateJob>(&job)) {
    MUNIA_RETURN_IF_ERROR(decode::validate(generate->sampling, config.vocab_size));
    const std::int64_t least = generate->prompt_logprobs >= 0 ? 0 : 1;
    if (generate->max_tokens < least) {
      return Error{ErrorCode::kInvalidArgument,
                   "max_tokens is " + std::to_string(generate->max_tokens) +
                       "; it must be at least " + std::to_string(least)};
    }
    if (generate->min_tokens < 0 ||
        generate->min_tokens > std::max<std::int64_t>(generate->max_tokens, 0)) {
      return Error{ErrorCode::kInvalidArgument, "min_tokens is " +
                                                    std::to_string(generate->min_tokens) +
                                                    "; it must be from 0 to max_tokens, which is " +
                                                    std::to_string(generate->max_tokens)};
    }
    MUNIA_RETURN_IF_ERROR(check_beams(*generate, bundle));
    if (generate->max_tokens == 0) return check_fits(n_prompt, context, "the prompt takes");
    return check_fits(n_prompt + 1, context, "the prompt and one new token take");
  }
  if (const auto* score = std::get_if<ScoreJob>(&job)) {
    if (score->continuations.empty() && score->features.layers.empty()) {
      return Error{ErrorCode::kInvalidArgument, "there are no continuations to score"};
    }
    std::size_t longest = 1;  // without continuations: the whole prompt is computed
    for (const std::vector<std::int32_t>& continuation : score->continuations) {
      MUNIA_RETURN_IF_ERROR(check_ids(continuation, config.vocab_size, "continuation"));
      longest = std::max(longest, continuation.size());
    }
    MUNIA_RETURN_IF_ERROR(check_features(score->features, n_prompt, config.n_layers));
    // The last token of a continuation is scored, never computed.
    return check_fits(n_prompt + static_cast<std::int64_t>(longest) - 1, context,
                      "the prompt and its longest continuation take");
  }
  MUNIA_RETURN_IF_ERROR(check_layers(std::get<LogitsJob>(job).tap_layers, config.n_layers));
  return check_fits(n_prompt, context, "the prompt takes");
}

}  // namespace munia::engine
