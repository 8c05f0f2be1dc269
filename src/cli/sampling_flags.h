// The flags of chat and generate that shape a reply; those of a beam search predict has too.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/request_json.h"

namespace munia::cli {

struct BeamFlags {
  std::int64_t num_beams = 1;
  float length_penalty = 1;
  std::string early_stopping = "false";
};
void describe_beam_flags(CommandSpec& spec, BeamFlags& flags);
/// Fails with status 2 at a value out of range.
decode::BeamParams beams_from_flags(const BeamFlags& flags);

struct SamplingFlags {
  std::int64_t max_tokens = 128;
  float temperature = 0;
  float top_p = 1;
  std::int64_t top_k = 0;
  float min_p = 0;
  std::int64_t seed = -1;  // -1: drawn anew each time
  float repetition_penalty = 1;
  std::vector<std::string> stops;
  std::int64_t min_tokens = 0;
  BeamFlags beams;
};
void describe_sampling_flags(CommandSpec& spec, SamplingFlags& flags);
/// A request with these values and no prompt yet. Fails with status 2 at a value out of range.
GenerateRequest request_from_flags(const SamplingFlags& flags);

}  // namespace munia::cli
