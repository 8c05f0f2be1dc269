// What a reply can be asked for beside its text, on a tiny model: log-probabilities of its tokens
// and of the prompt's, and constraints on its bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <map>

#include "engine/engine.h"

namespace munia::engine {
namespace {

std::unique_ptr<Engine> new_engine(EngineOptions options = {}) {
  const ThreadPool::Options pool{.n_threads = 2, .cpus = {}, .spin_us = 20};
  auto threads = std::make_unique<ThreadPool>(pool);
  auto bundle = load_bundle(MUNIA_SOURCE_DIR "/tests/models/qwen2-tied-bf16", {}, *threads);
  return std::make_unique<Engine>(std::move(bundle), std::move(threads), options);
}

GenerateJob job_of(std::uint64_t seed, std::int64_t max_tokens) {
  GenerateJob job;
  for (std::int32_t i = 0; i < 40; ++i) {
    job.prompt.push_back((i * 37 + static_cast<std::int32_t>(seed) * 101) % 380);
  }
  job.max_tokens = max_tokens;
  job.sampling.temperature = 1.5F;
  job.sampling.seed = seed;
  return job;
}

// The row behind each token of `ids`: its log-softmax by the definition.
std::vector<std::vector<double>> logprob_rows(Engine& engine, std::vector<std::int32_t> ids) {
  std::vector<std::vector<double>> rows;
  LogitsJob job;
  job.prompt = std::move(ids);
  job.all_rows = true;
  job.on_row = [&](std::int64_t, std::span<const float> logits) {
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    std::vector<double> row;
    for (const float logit : logits) row.push_back(static_cast<double>(logit) - std::log(sum));
    rows.push_back(std::move(row));
  };
  (void)engine.logits(std::move(job)).value_or_throw();
  return rows;
}

TEST(Generate, LogprobsAreTheModelsOwn) {
  for (const bool kv_cache : {true, false}) {
    const auto engine = new_engine({.prefill_chunk = 16, .kv_cache = kv_cache});
    GenerateJob job = job_of(3, 12);
    job.ignore_eos = true;
    job.top_logprobs = 4;
    job.prompt_logprobs = 0;
    job.sampling.repetition_penalty = 1.3F;  // changes the pick, not the log-probability
    std::vector<std::int32_t> told;
    job.on_token = [&](const decode::TokenLogprob& token) { told.push_back(token.id); };
    const GenerateResult result = engine->generate(job).value_or_throw();
    EXPECT_EQ(told, result.ids);
    ASSERT_EQ(result.logprobs.size(), 12U);
    ASSERT_EQ(result.prompt_logprobs.size(), job.prompt.size() - 1);

    std::vector<std::int32_t> ids = job.prompt;
    ids.insert(ids.end(), result.ids.begin(), result.ids.end());
    const auto rows = logprob_rows(*engine, ids);
    for (std::size_t i = 1; i < ids.size(); ++i) {
      const bool in_prompt = i < job.prompt.size();
      const decode::TokenLogprob& token =
          in_prompt ? result.prompt_logprobs[i - 1] : result.logprobs[i - job.prompt.size()];
      EXPECT_EQ(token.id, ids[i]);
      EXPECT_NEAR(token.logprob, rows[i - 1][static_cast<std::size_t>(ids[i])], 1e-9) << i;
      ASSERT_EQ(token.top.size(), in_prompt ? 0U : 4U);
      if (in_prompt) continue;
      EXPECT_NEAR(token.top[0].second, *std::max_element(rows[i - 1].begin(), rows[i - 1].end()),
                  1e-9);
    }
  }
}

TEST(Generate, APromptCanBeScoredWithoutAnyNewToken) {
  const auto engine = new_engine();
  GenerateJob job = job_of(1, 0);
  job.prompt_logprobs = 2;
  const GenerateResult result = engine->generate(job).value_or_throw();
  EXPECT_TRUE(result.ids.empty());
  EXPECT_EQ(result.finish_reason, "length");
  EXPECT_EQ(result.prompt_logprobs.size(), job.prompt.size() - 1);
  job.prompt_logprobs = -1;
  EXPECT_EQ(engine->generate(job).error().code, ErrorCode::kInvalidArgument);
}

TEST(Generate, AChoiceIsOneOfTheChoices) {
  const auto engine = new_engine();
  const std::vector<std::string> choices = {"愤怒", "喜悦", "good", "goodness"};
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    GenerateJob job = job_of(seed, 40);
    job.sampling.temperature = seed % 2 == 0 ? 0.0F : 1.5F;
    job.constraint = decode::choice_automaton(choices).value_or_throw();
    std::string streamed;
    job.on_text = [&](std::string_view piece) { streamed += piece; };
    const GenerateResult result = engine->generate(job).value_or_throw();
    EXPECT_EQ(result.finish_reason, "stop");
    EXPECT_NE(std::find(choices.begin(), choices.end(), result.text), choices.end()) << result.text;
    EXPECT_EQ(streamed, result.text);
    ++seen[result.text];
  }
  EXPECT_GE(seen.size(), 2U);
}

// As a choice whose next byte no token of the model has.
class NothingMayFollow : public decode::Automaton {
 public:
  decode::AutomatonState start() const override { return {}; }
  bool advance(decode::AutomatonState&, std::uint8_t) const override { return false; }
  bool accepts(const decode::AutomatonState&) const override { return false; }
};

TEST(Generate, AConstraintThatNoTokenFitsEndsTheReply) {
  const auto engine = new_engine();
  for (const float temperature : {0.0F, 1.0F}) {
    GenerateJob job = job_of(1, 5);
    job.sampling.temperature = temperature;
    job.constraint = std::make_shared<NothingMayFollow>();
    const GenerateResult result = engine->generate(job).value_or_throw();
    EXPECT_EQ(result.finish_reason, "stop");
    EXPECT_EQ(result.text, "");
  }
}

TEST(Generate, AJsonObjectParses) {
  const auto engine = new_engine();
  int n_whole = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    GenerateJob job = job_of(seed, 150);
    job.constraint = decode::json_object_automaton();
    const GenerateResult result = engine->generate(job).value_or_throw();
    if (result.finish_reason != "stop") continue;
    ++n_whole;
    boost::json::error_code error;
    const boost::json::value value = boost::json::parse(result.text, error);
    EXPECT_FALSE(error) << result.text;
    EXPECT_TRUE(value.is_object()) << result.text;
  }
  EXPECT_GE(n_whole, 5) << "a random model ends few objects in 150 tokens, but not none";
}

}  // namespace
}  // namespace munia::engine
