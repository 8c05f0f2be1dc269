#include "cli/sampling_flags.h"

#include <limits>

namespace munia::cli {

void describe_sampling_flags(CommandSpec& spec, SamplingFlags& flags) {
  spec.integer("--max-tokens", flags.max_tokens, 1, 1 << 20, "most new tokens", "最多生成的词元数");
  spec.number("--temperature", flags.temperature, 0, 100, "0: always the likeliest token",
              "0：总是取最可能的词元");
  spec.number("--top-p", flags.top_p, 0, 1, "smallest set of tokens with this probability",
              "只从累计概率达到此值的词元中取");
  spec.integer("--top-k", flags.top_k, 0, 1 << 20, "the likeliest tokens only; 0: all",
               "只从最可能的若干词元中取；0：全部");
  spec.number("--min-p", flags.min_p, 0, 1, "drops tokens below this share of the likeliest",
              "去掉低于最大概率此比例的词元");
  spec.integer("--seed", flags.seed, -1, std::numeric_limits<std::int64_t>::max(),
               "same seed, same draws; -1: a new one each time",
               "相同种子得到相同结果；-1：每次不同");
  spec.number("--repetition-penalty", flags.repetition_penalty, 0.01F, 10, "as in transformers",
              "重复惩罚，同 transformers");
  spec.option("--stop", flags.stops, "TEXT", "ends the reply; may be given several times",
              "遇到即结束；可多次给出");
}

GenerateRequest request_from_flags(const SamplingFlags& flags) {
  GenerateRequest request;
  request.job.max_tokens = flags.max_tokens;
  request.job.stops = flags.stops;
  decode::SamplingParams& sampling = request.job.sampling;
  sampling.temperature = flags.temperature;
  sampling.top_p = flags.top_p;
  sampling.top_k = flags.top_k;
  sampling.min_p = flags.min_p;
  sampling.repetition_penalty = flags.repetition_penalty;
  request.seeded = flags.seed >= 0;
  if (request.seeded) sampling.seed = static_cast<std::uint64_t>(flags.seed);
  GenerateRequest checked = request;
  settle_sampling(checked, ExitStatus::kUsage, "");
  return request;
}

}  // namespace munia::cli
