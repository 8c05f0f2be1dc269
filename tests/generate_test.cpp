// What a reply can be asked for beside its text, on a tiny model: log-probabilities of its tokens
// and of the prompt's, and constraints on its bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <map>

#include "decode/constraint.h"
#include "engine/engine.h"
#include "grammar/choices.h"
#include "grammar/json_parts.h"
#include "grammar/schema.h"

namespace munia::engine {
namespace {

std::unique_ptr<Engine> new_engine(EngineOptions options = {}, BundleOptions bundle_options = {}) {
  const ThreadPool::Options pool{.n_threads = 2, .cpus = {}, .spin_us = 20};
  auto threads = std::make_unique<ThreadPool>(pool);
  auto bundle =
      load_bundle(MUNIA_SOURCE_DIR "/tests/models/qwen2-tied-bf16", bundle_options, *threads);
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
    job.constraint = grammar::choice_grammar(choices).value_or_throw();
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

TEST(Generate, AJsonObjectParses) {
  const auto engine = new_engine();
  int n_whole = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    GenerateJob job = job_of(seed, 150);
    job.constraint = grammar::json_object_grammar();
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

grammar::GrammarPtr person_schema() {
  return grammar::schema_text_grammar(
             R"({"type":"object","properties":{"名字":{"type":"string","minLength":1,"maxLength":12},
                 "age":{"type":"integer","minimum":0,"maximum":150},"mood":{"enum":["愤怒","喜悦","平静"]},
                 "tags":{"type":"array","items":{"type":"string","pattern":"^[a-z一-龥]{1,4}$"},"maxItems":2}},
                 "required":["名字","age","mood","tags"],"additionalProperties":false})")
      .value_or_throw();
}

// Where few tokens are allowed only their logits are computed, and a greedy one is screened; with
// log-probabilities everything is computed. The tokens are the same, alone and beside others.
TEST(Generate, AConstraintGivesTheSameTokensHoweverTheHeadIsComputed) {
  for (const model::HeadMode head : {model::HeadMode::kFull, model::HeadMode::kScreened}) {
    BundleOptions options;
    options.head = head;
    const auto engine = new_engine({}, options);
    std::vector<GenerateJob> jobs;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      GenerateJob job = job_of(seed, 150);
      job.sampling.temperature = seed % 3 == 0 ? 0.0F : 1.5F;
      job.sampling.repetition_penalty = seed % 2 == 0 ? 1.0F : 1.2F;
      job.sampling.frequency_penalty = seed % 4 == 3 ? 0.5F : 0.0F;
      job.constraint = person_schema();
      job.keep = false;
      jobs.push_back(job);
    }
    std::vector<Job> together(jobs.begin(), jobs.end());
    auto tickets = engine->submit_together(std::move(together)).value_or_throw();
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const auto beside = std::get<GenerateResult>(tickets[i]->wait().value_or_throw());
      EXPECT_EQ(beside.finish_reason, "stop") << beside.text;
      boost::json::error_code error;
      (void)boost::json::parse(beside.text, error);
      EXPECT_FALSE(error) << beside.text;
      EXPECT_EQ(engine->generate(jobs[i]).value_or_throw().ids, beside.ids);
      jobs[i].top_logprobs = 0;
      EXPECT_EQ(engine->generate(jobs[i]).value_or_throw().ids, beside.ids);
    }
  }
}

TEST(Generate, AConstraintCutShortEndsByLength) {
  const auto engine = new_engine();
  GenerateJob job = job_of(1, 5);
  job.constraint = person_schema();
  const GenerateResult result = engine->generate(job).value_or_throw();
  EXPECT_EQ(result.finish_reason, "length");
  EXPECT_EQ(result.ids.size(), 5U);
}

// Lists in lists: each may be one of two kinds, so each "[" doubles the ways to read the text.
grammar::GrammarPtr doubling_schema() {
  std::string text = R"({"$ref":"#/$defs/p0","$defs":{"p30":{"const":1},"q30":{"const":2})";
  for (int i = 0; i < 30; ++i) {
    const std::string next = std::to_string(i + 1);
    for (const std::string name : {"p", "q"}) {
      text += ",\"" + name + std::to_string(i) + R"(":{"anyOf":[)";
      text += R"({"type":"array","minItems":1,"items":{"$ref":"#/$defs/p)" + next + R"("}},)";
      text += R"({"type":"array","minItems":1,"items":{"$ref":"#/$defs/q)" + next + R"("}}]})";
    }
  }
  return grammar::schema_text_grammar(text + "}}").value_or_throw();
}

// What a constraint cannot do ends its own job: its memory is given back, and others get the same
// tokens as alone.
TEST(Generate, AConstraintThatFailsLeavesOthersAlone) {
  EngineOptions options;
  options.prefix_cache_bytes = 0;
  const auto engine = new_engine(options);
  std::vector<GenerateJob> jobs;
  for (std::uint64_t seed = 0; seed < 4; ++seed) jobs.push_back(job_of(seed, 60));
  jobs[1].constraint = person_schema();
  jobs[2].constraint = doubling_schema();
  std::vector<GenerateResult> alone(jobs.size());
  for (const std::size_t i : {0, 1, 3}) alone[i] = engine->generate(jobs[i]).value_or_throw();
  std::vector<Job> together(jobs.begin(), jobs.end());
  auto tickets = engine->submit_together(std::move(together)).value_or_throw();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto result = tickets[i]->wait();
    if (i == 2) {
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
      EXPECT_NE(result.error().message.find("too ambiguous"), std::string::npos);
      continue;
    }
    EXPECT_EQ(std::get<GenerateResult>(*result).ids, alone[i].ids);
  }
  EXPECT_EQ(engine->stats().kv_used_bytes, 0U);
}

// Where no token has the byte that must follow, the job fails; half a text is no reply.
TEST(Generate, AByteThatNoTokenHasEndsTheJobWithAnError) {
  const auto engine = new_engine();
  const auto& tokenizer = *engine->bundle().tokenizer;
  std::vector<std::string> tokens(
      static_cast<std::size_t>(engine->bundle().model->config().vocab_size));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (tokenizer.is_special(id)) continue;
    tokens[i] = tokenizer.token_bytes(id);
    if (tokens[i].find('7') != std::string::npos) tokens[i].clear();
  }
  const auto index = std::make_shared<const decode::TokenIndex>(std::move(tokens));
  for (const char* choice : {"7", "67", "667"}) {
    GenerateJob job = job_of(1, 20);
    job.constraint = grammar::choice_grammar({choice}).value_or_throw();
    job.begun_constraint = std::make_shared<decode::Constraint>(index, job.constraint);
    std::string streamed;
    job.on_text = [&](std::string_view piece) { streamed += piece; };
    const auto result = engine->generate(job);
    ASSERT_FALSE(result) << choice;
    EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(result.error().message.find("no token of this model"), std::string::npos);
    EXPECT_EQ(streamed, std::string_view(choice) == "667" ? "6" : "");
  }
}

}  // namespace
}  // namespace munia::engine
