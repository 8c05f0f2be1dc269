// The bodies of /v1/chat/completions and /v1/completions as jobs of the engine. What OpenAI's API
// knows and munia does not is refused where ignoring it would change the answer; unknown fields are
// ignored; null is the same as absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/body_reader.h"
#include "server/service.h"

namespace munia::server {

struct CompletionRequest {
  bool chat = true;
  std::vector<std::vector<std::int32_t>> prompts;  // one for a chat
  std::int64_t n = 1;                              // choices for each prompt
  engine::GenerateJob job;                         // all but the prompt
  std::string form_param;                          // that asked for job.constraint
  bool stream = false;
  bool include_usage = false;  // of a stream
  bool logprobs = false;
  bool echo = false;  // /v1/completions: the prompt's text (and log-probabilities) come first
  std::optional<double> timeout;

  std::int64_t n_choices() const { return n * static_cast<std::int64_t>(prompts.size()); }
  /// The choices of one prompt that come from one job: all of a beam search.
  std::int64_t n_choices_of_job() const { return job.beams.enabled() ? n : 1; }
  /// The job of choice i (and of those behind it that come from the same): prompt i / n, and a
  /// seed of its own.
  engine::GenerateJob job_of(std::int64_t choice) const;
};

inline constexpr std::int64_t kMaxChoices = 16;        // n
inline constexpr std::int64_t kMaxPrompts = 64;        // of /v1/completions
inline constexpr std::int64_t kMaxTotalChoices = 128;  // n times prompts
/// Tokens of all prompts times n times (1 + top), where "echo" wants their log-probabilities: some
/// 80 bytes of the reply each.
inline constexpr std::int64_t kMaxEchoLogprobs = 400'000;
inline constexpr std::int64_t kDefaultMaxTokens = 512;  // where a request names no limit

/// Reads and checks everything before an answer begins: fields, model, template, room in the
/// context. The mistake, if any, is body.error().
CompletionRequest read_chat_request(BodyReader& body, const LoadedModel& model);
CompletionRequest read_completion_request(BodyReader& body, const LoadedModel& model);

}  // namespace munia::server
