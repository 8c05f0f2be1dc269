// The flags of chat and generate that shape a reply.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/request_json.h"

namespace munia::cli {

struct SamplingFlags {
  std::int64_t max_tokens = 128;
  float temperature = 0;
  float top_p = 1;
  std::int64_t top_k = 0;
  float min_p = 0;
  std::int64_t seed = -1;  // -1: drawn anew each time
  float repetition_penalty = 1;
  std::vector<std::string> stops;
};
void describe_sampling_flags(CommandSpec& spec, SamplingFlags& flags);
/// A request with these values and no prompt yet. Fails with status 2 at a value out of range.
GenerateRequest request_from_flags(const SamplingFlags& flags);

}  // namespace munia::cli
