// Beam search in the engine, on a tiny model: the same bytes alone and in company, with and without
// KV cache; memory, slots, cancelling; stop texts and end tokens. That the texts are the
// reference's is shown by test_generation.py.
#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <limits>

#include "engine/engine.h"
#include "grammar/json_parts.h"
#include "token_ids.h"

namespace munia::engine {
namespace {

constexpr std::size_t kPageBytes = std::size_t{2} * 2 * 2 * 32 * 16 * 4;

std::unique_ptr<Engine> new_engine(EngineOptions options = {}, int n_threads = 2) {
  const ThreadPool::Options pool{.n_threads = n_threads, .cpus = {}, .spin_us = 20};
  auto threads = std::make_unique<ThreadPool>(pool);
  auto bundle = load_bundle(MUNIA_SOURCE_DIR "/tests/models/qwen2-tied-bf16", {}, *threads);
  return std::make_unique<Engine>(std::move(bundle), std::move(threads), options);
}

GenerateJob beam_job(std::size_t n_prompt, std::uint32_t seed, std::int64_t max_tokens,
                     std::int64_t num_beams) {
  GenerateJob job;
  job.prompt = test::tokens_of_length(n_prompt, seed);
  job.max_tokens = max_tokens;
  job.beams.num_beams = num_beams;
  job.beams.n_returned = num_beams;
  return job;
}

// Every fifth or so of these ends by an end token, and the penalties differ.
GenerateJob varied_job(const Engine& engine, std::uint32_t i) {
  GenerateJob job = beam_job(1 + 23 * i, i, 20 + i, 2 + i % 5);
  const std::int32_t end = engine.bundle().eos_ids.front();
  if (i % 2 == 0) job.sampling.logit_bias = {{end, 4.0F}};
  if (i % 3 == 0) job.sampling.repetition_penalty = 1.1F;
  if (i % 4 == 1) job.sampling.frequency_penalty = 0.3F;
  job.beams.length_penalty = static_cast<float>(i % 4) - 1;
  job.beams.early_stopping = static_cast<decode::EarlyStopping>(i % 3);
  return job;
}

using Told = std::vector<std::tuple<std::vector<std::int32_t>, double, std::string>>;

Told told(const GenerateResult& result) {
  Told texts;
  for (const GenerateResult& text : texts_of(result)) {
    texts.emplace_back(text.ids, text.score.value(), text.finish_reason);
  }
  return texts;
}

Told run_alone(Engine& engine, GenerateJob job) {
  return told(engine.generate(std::move(job)).value_or_throw());
}

TEST(Beams, AreTheSameAloneInCompanyAndOnAnyThreads) {
  const auto engine = new_engine({.prefill_chunk = 64});
  const auto other = new_engine({.max_sequences = 2, .prefill_chunk = 16, .prefix_cache_bytes = 0},
                                /*n_threads=*/1);
  std::vector<Told> alone;
  int n_ended = 0;
  for (std::uint32_t i = 0; i < 10; ++i) {
    alone.push_back(run_alone(*engine, varied_job(*engine, i)));
    ASSERT_EQ(alone.back().size(), 2 + i % 5);
    for (const auto& text : alone.back()) n_ended += std::get<2>(text) == "stop";
    EXPECT_EQ(run_alone(*other, varied_job(*other, i)), alone.back()) << i;
    EXPECT_EQ(run_alone(*engine, varied_job(*engine, i)), alone.back()) << "cached " << i;
  }
  EXPECT_GE(n_ended, 5);
  std::vector<Job> jobs;
  for (std::uint32_t i = 0; i < 10; ++i) {
    jobs.emplace_back(varied_job(*engine, i));
    GenerateJob greedy;
    greedy.prompt = test::tokens_of_length(5 + 11 * i, 100 + i);
    greedy.max_tokens = 30;
    greedy.sampling.temperature = i % 2 == 0 ? 0.0F : 1.0F;
    jobs.emplace_back(greedy);
    jobs.emplace_back(ScoreJob{test::tokens_of_length(9 * i + 2, i), {{5, 6}, {5, 7}, {8}}});
  }
  const auto tickets = engine->submit_together(std::move(jobs)).value_or_throw();
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    const JobResult result = tickets[i]->wait().value_or_throw();
    if (i % 3 != 0) continue;
    EXPECT_EQ(told(std::get<GenerateResult>(result)), alone[i / 3]) << i;
  }
}

TEST(Beams, WithoutKvCacheTheyAreTheSame) {
  const auto with = new_engine();
  const auto without = new_engine({.prefill_chunk = 24, .kv_cache = false});
  for (std::uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(run_alone(*without, varied_job(*without, i)), run_alone(*with, varied_job(*with, i)))
        << i;
  }
}

// Five beams behind 70 tokens, 90 new ones each: two pages shared, three each. Without a KV cache
// nothing is shared: five each.
TEST(Beams, MemoryIsCountedForAllOfThemAndIsEnough) {
  for (const auto& [kv_cache, n_pages] : {std::pair{true, std::size_t{17}}, {false, 25}}) {
    GenerateJob job = beam_job(70, 3, 90, 5);
    job.ignore_eos = true;
    const auto exact = new_engine({.max_kv_bytes = n_pages * kPageBytes, .kv_cache = kv_cache});
    EXPECT_EQ(run_alone(*exact, job), run_alone(*new_engine(), job));
    EXPECT_LE(exact->stats().kv_used_bytes, n_pages * kPageBytes);
    const auto small =
        new_engine({.max_kv_bytes = (n_pages - 1) * kPageBytes, .kv_cache = kv_cache});
    const auto refused = small->generate(job);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kLimit);
  }
}

TEST(Beams, OnlyTheirPromptStaysInThePrefixCache) {
  const auto engine = new_engine();
  const GenerateJob job = beam_job(64, 3, 90, 6);
  const GenerateResult first = engine->generate(job).value_or_throw();
  EXPECT_EQ(engine->stats().kv_used_bytes, 2 * kPageBytes);
  const GenerateResult second = engine->generate(job).value_or_throw();
  EXPECT_EQ(first.usage.cached_tokens, 0);
  EXPECT_EQ(second.usage.cached_tokens, 63);
  EXPECT_EQ(told(first), told(second));
}

// Another job's callback holds the engine's thread while the beams are under way.
TEST(Beams, CancelInTheMiddleGivesTheirPagesBack) {
  const auto engine = new_engine({.prefix_cache_bytes = 0});
  std::latch running(1);
  std::promise<void> cancelled;
  GenerateJob beams = beam_job(40, 1, 900, 8);
  beams.ignore_eos = true;
  GenerateJob other = beam_job(4, 2, 40, 1);
  other.beams = {};
  other.ignore_eos = true;
  other.top_logprobs = 0;
  std::size_t used_bytes = 0;
  int n_tokens = 0;
  other.on_token = [&](const decode::TokenLogprob&) {
    if (++n_tokens != 20) return;
    used_bytes = engine->stats().kv_used_bytes;
    running.count_down();
    cancelled.get_future().wait_for(std::chrono::seconds(60));
  };
  std::vector<Job> jobs;
  jobs.emplace_back(beams);
  jobs.emplace_back(other);
  const auto tickets = engine->submit_together(std::move(jobs)).value_or_throw();
  running.wait();
  tickets[0]->cancel();
  cancelled.set_value();
  EXPECT_EQ(tickets[0]->wait().error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(tickets[1]->wait());
  EXPECT_GE(used_bytes, 10 * kPageBytes) << "eight beams and the other job";
  EXPECT_EQ(engine->stats().kv_used_bytes, 0U);
}

// Jobs of eight beams on an engine for four sequences run one after the other, and single ones
// still get their turn.
TEST(Beams, TakeTheSlotsOfAsManySequences) {
  const auto engine = new_engine({.max_sequences = 4});
  const Told alone = run_alone(*new_engine(), beam_job(20, 7, 30, 8));
  std::vector<Job> jobs;
  for (int i = 0; i < 3; ++i) {
    jobs.emplace_back(beam_job(20, 7, 30, 8));
    GenerateJob single = beam_job(10, static_cast<std::uint32_t>(i), 10, 1);
    single.priority = Priority::kBulk;
    jobs.emplace_back(single);
    GenerateJob bulk = beam_job(20, 7, 30, 8);
    bulk.priority = Priority::kBulk;
    jobs.emplace_back(bulk);
  }
  const auto tickets = engine->submit_together(std::move(jobs)).value_or_throw();
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    const auto result = tickets[i]->wait();
    ASSERT_TRUE(result) << i;
    if (i % 3 == 1) continue;
    EXPECT_EQ(told(std::get<GenerateResult>(*result)), alone) << i;
  }
  EXPECT_LE(engine->stats().n_step_sequences, 8 * engine->stats().n_steps);
}

TEST(Beams, TheBestTextIsToldOnceAndWhole) {
  const auto engine = new_engine();
  GenerateJob job = beam_job(20, 7, 30, 3);
  std::vector<std::string> pieces;
  job.on_text = [&](std::string_view piece) { pieces.emplace_back(piece); };
  const GenerateResult result = engine->generate(job).value_or_throw();
  EXPECT_EQ(pieces, std::vector{result.text});
  EXPECT_EQ(result.text, engine->bundle().tokenizer->decode(result.ids, true));
  EXPECT_EQ(result.usage.prompt_tokens, 20);
  EXPECT_EQ(result.usage.completion_tokens, static_cast<std::int64_t>(result.ids.size()));
  ASSERT_EQ(result.others.size(), 2U);
  EXPECT_GE(*result.score, *result.others[0].score);
  EXPECT_GE(*result.others[0].score, *result.others[1].score);
}

TEST(Beams, AStopTextEndsABeamAndIsCutOff) {
  const auto engine = new_engine();
  GenerateJob job = beam_job(20, 11, 30, 4);
  job.ignore_eos = true;
  const GenerateResult whole = engine->generate(job).value_or_throw();
  const std::string stop =
      engine->bundle().tokenizer->decode(std::span(whole.ids).subspan(5, 1), true);
  ASSERT_FALSE(stop.empty());
  job.stops = {stop};
  int n_stopped = 0;
  for (const GenerateResult& text : texts_of(engine->generate(job).value_or_throw())) {
    EXPECT_EQ(text.text.find(stop), std::string::npos) << text.text;
    n_stopped += text.finish_reason == "stop";
    // The token that completed it is the last.
    if (text.finish_reason == "stop") {
      EXPECT_NE(engine->bundle().tokenizer->decode(text.ids, true).find(stop), std::string::npos);
    }
  }
  EXPECT_GE(n_stopped, 1);
}

TEST(Generate, NoEndTokenBeforeTheLeastLength) {
  const auto engine = new_engine();
  for (const std::int64_t num_beams : {1, 3}) {
    for (const float temperature : {0.0F, 1.0F}) {
      if (num_beams > 1 && temperature > 0) continue;
      for (const std::int64_t least : {0, 1, 7}) {
        GenerateJob job = beam_job(20, 7, 30, num_beams);
        job.sampling.temperature = temperature;
        for (const std::int32_t id : engine->bundle().eos_ids) {
          job.sampling.logit_bias.emplace_back(id, 90.0F);
        }
        job.min_tokens = least;
        const GenerateResult result = engine->generate(job).value_or_throw();
        EXPECT_EQ(static_cast<std::int64_t>(result.ids.size()), least);
        EXPECT_EQ(result.finish_reason, "stop");
      }
    }
  }
}

TEST(Beams, WhatTheyCannotDoIsRefused) {
  const auto engine = new_engine();
  const auto code = [&](const GenerateJob& job) { return engine->generate(job).error().code; };
  const GenerateJob good = beam_job(3, 1, 5, 2);
  EXPECT_TRUE(engine->generate(good));
  GenerateJob job = good;
  job.top_logprobs = 0;
  EXPECT_EQ(code(job), ErrorCode::kUnsupported);
  job = good;
  job.prompt_logprobs = 0;
  EXPECT_EQ(code(job), ErrorCode::kUnsupported);
  job = good;
  job.constraint = grammar::json_object_grammar();
  EXPECT_EQ(code(job), ErrorCode::kUnsupported);
  job = good;
  job.sampling.temperature = 1;
  EXPECT_EQ(code(job), ErrorCode::kInvalidArgument);
  job = good;
  job.beams.n_returned = 3;
  EXPECT_EQ(code(job), ErrorCode::kInvalidArgument);
  job = good;
  job.beams.length_penalty = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(code(job), ErrorCode::kInvalidArgument);
  job = good;
  job.min_tokens = 6;
  EXPECT_EQ(code(job), ErrorCode::kInvalidArgument);
  job.min_tokens = -1;
  EXPECT_EQ(code(job), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace munia::engine
