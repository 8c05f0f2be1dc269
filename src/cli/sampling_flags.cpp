#include "cli/sampling_flags.h"

#include <limits>

#include "cli/output.h"

namespace munia::cli {

void describe_beam_flags(CommandSpec& spec, BeamFlags& flags) {
  spec.integer("--num-beams", flags.num_beams, 1, decode::kMaxBeams,
               "beam search with so many beams, as in transformers; 1: off; the text comes whole",
               "束搜索的束数，同 transformers；1：不用；文本一次给出");
  spec.number("--length-penalty", flags.length_penalty, -10, 10,
              "of a beam search: above 0 favours long texts, below 0 short ones",
              "束搜索的长度惩罚：大于 0 偏向长文本，小于 0 偏向短文本");
  spec.option("--early-stopping", flags.early_stopping, "true|false|never",
              "when a beam search ends that has found as many texts as beams: at once, when a "
              "better one is unlikely, when none can come",
              "束搜索找到与束数相同的文本后何时结束：立即（true）、不太可能更好时（false）、"
              "不可能更好时（never）");
}

decode::BeamParams beams_from_flags(const BeamFlags& flags) {
  decode::BeamParams beams;
  beams.num_beams = flags.num_beams;
  beams.length_penalty = flags.length_penalty;
  const Result<decode::EarlyStopping> early = decode::early_stopping_named(flags.early_stopping);
  if (!early) fail(ExitStatus::kUsage, "--early-stopping: " + early.error().message);
  beams.early_stopping = *early;
  return beams;
}

void describe_sampling_flags(CommandSpec& spec, SamplingFlags& flags) {
  spec.integer("--max-tokens", flags.max_tokens, 1, 1 << 20, "most new tokens", "最多生成的词元数");
  spec.integer("--min-tokens", flags.min_tokens, 0, 1 << 20,
               "no end token before so many new tokens", "至少生成这么多词元才可结束");
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
  describe_beam_flags(spec, flags.beams);
}

GenerateRequest request_from_flags(const SamplingFlags& flags) {
  GenerateRequest request;
  request.job.max_tokens = flags.max_tokens;
  request.job.min_tokens = flags.min_tokens;
  request.job.stops = flags.stops;
  request.job.beams = beams_from_flags(flags.beams);
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
