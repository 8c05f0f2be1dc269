// The engine on a tiny model: the same bytes alone and in company, with and without KV cache;
// cancelling, limits, stop strings, scores against raw logits.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <latch>
#include <thread>

namespace munia::engine {
namespace {

constexpr const char* kModel = MUNIA_SOURCE_DIR "/tests/models/qwen2-tied-bf16";

std::unique_ptr<Engine> new_engine(EngineOptions options = {}, std::int64_t context = 0,
                                   model::HeadMode head = model::HeadMode::kAuto) {
  const ThreadPool::Options pool{.n_threads = 2, .cpus = {}, .spin_us = 20};
  auto threads = std::make_unique<ThreadPool>(pool);
  auto bundle = load_bundle(kModel, {.isa = "", .context = context, .head = head}, *threads);
  return std::make_unique<Engine>(std::move(bundle), std::move(threads), options);
}

std::vector<std::int32_t> ids_of_length(std::size_t n, std::uint32_t seed) {
  std::vector<std::int32_t> ids(n);
  for (std::int32_t& id : ids) {
    seed = seed * 1664525U + 1013904223U;
    id = static_cast<std::int32_t>((seed >> 8) % 380U);
  }
  return ids;
}

GenerateJob generate_job(std::size_t n_prompt, std::uint32_t seed, std::int64_t max_tokens) {
  GenerateJob job;
  job.prompt = ids_of_length(n_prompt, seed);
  job.max_tokens = max_tokens;
  job.ignore_eos = true;
  return job;
}

TEST(Engine, RepliesAreTheSameAloneAndInCompany) {
  const auto engine = new_engine({.max_sequences = 8, .prefill_chunk = 64});
  std::vector<std::vector<std::int32_t>> alone;
  for (std::uint32_t i = 0; i < 12; ++i) {
    GenerateJob job = generate_job(1 + 17 * i, i, 20);
    job.sampling.temperature = i % 2 == 0 ? 0.0F : 0.8F;
    job.sampling.seed = i;
    alone.push_back(engine->generate(std::move(job)).value_or_throw().ids);
    EXPECT_EQ(alone.back().size(), 20U);
  }
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (std::uint32_t i = 0; i < 12; ++i) {
    GenerateJob job = generate_job(1 + 17 * i, i, 20);
    job.sampling.temperature = i % 2 == 0 ? 0.0F : 0.8F;
    job.sampling.seed = i;
    tickets.push_back(engine->submit(std::move(job)).value_or_throw());
  }
  for (std::size_t i = 0; i < 12; ++i) {
    const JobResult result = tickets[i]->wait().value_or_throw();
    EXPECT_EQ(std::get<GenerateResult>(result).ids, alone[i]) << i;
  }
}

TEST(Engine, AScreenedHeadGivesTheSameRepliesUnderEveryPenalty) {
  const auto full = new_engine({}, 0, model::HeadMode::kFull);
  const auto screened = new_engine({}, 0, model::HeadMode::kScreened);
  for (std::uint32_t i = 0; i < 24; ++i) {
    GenerateJob job = generate_job(3 + 5 * i, i, 40);
    job.sampling.repetition_penalty = i % 2 == 0 ? 1.0F : 1.0F + 0.1F * static_cast<float>(i);
    job.sampling.presence_penalty = i % 3 == 0 ? 0.0F : 1.5F - 0.2F * static_cast<float>(i);
    job.sampling.presence_penalty = std::max(-2.0F, job.sampling.presence_penalty);
    job.sampling.frequency_penalty = i % 4 == 0 ? 0.7F : 0.0F;
    if (i % 5 == 0) job.sampling.logit_bias = {{7, 3.5F}, {399, -1.0F}};
    EXPECT_EQ(screened->generate(job).value_or_throw().ids,
              full->generate(job).value_or_throw().ids)
        << i;
  }
}

// Labels that part at once, that share a beginning, that part late, that begin with one another.
TEST(Engine, DifferencesOfScoresAreThoseOfTheWholeHead) {
  const auto engine = new_engine();
  const std::vector<std::vector<std::vector<std::int32_t>>> sets = {
      {{5}, {300}},
      {{5, 6}, {5, 7}, {5, 300}},
      {{5, 6, 8, 1}, {5, 6, 9}, {5, 6, 9, 2}},
      {{1, 2}, {3}, {3, 4}, {44, 5, 6}},
      {{5}}};
  for (std::size_t i = 0; i < sets.size(); ++i) {
    ScoreJob job{ids_of_length(20 + i, static_cast<std::uint32_t>(i)), sets[i]};
    const ScoreResult whole = engine->score(job).value_or_throw();
    job.differences_only = true;
    const ScoreResult part = engine->score(job).value_or_throw();
    for (std::size_t c = 1; c < sets[i].size(); ++c) {
      EXPECT_NEAR(part.logprobs[c] - part.logprobs[0], whole.logprobs[c] - whole.logprobs[0], 1e-12)
          << "set " << i << ", continuation " << c;
    }
    EXPECT_LT(whole.logprobs[0], 0);
  }
}

TEST(Engine, WithoutKvCacheTheIdsAreTheSame) {
  const auto with = new_engine();
  const auto without = new_engine({.prefill_chunk = 16, .kv_cache = false});
  EXPECT_EQ(with->generate(generate_job(30, 7, 12)).value_or_throw().ids,
            without->generate(generate_job(30, 7, 12)).value_or_throw().ids);
}

// Raw logits of prompt + continuation give the score of every continuation.
TEST(Engine, ScoresEqualSumsOfLogSoftmax) {
  const auto engine = new_engine({.prefill_chunk = 16});
  ScoreJob job;
  job.prompt = ids_of_length(45, 3);
  job.continuations = {{5}, {5, 6}, {5, 6, 7, 8, 9}, {5, 6, 7, 20}, {30, 31}, {5, 6, 7, 8, 10},
                       {5}};
  const ScoreResult scored = engine->score(job).value_or_throw();
  ASSERT_EQ(scored.logprobs.size(), job.continuations.size());
  for (std::size_t c = 0; c < job.continuations.size(); ++c) {
    LogitsJob raw;
    raw.prompt = job.prompt;
    raw.prompt.insert(raw.prompt.end(), job.continuations[c].begin(), job.continuations[c].end());
    raw.all_rows = true;
    double expected = 0;
    raw.on_row = [&](std::int64_t row, std::span<const float> logits) {
      const std::int64_t at = row + 1 - static_cast<std::int64_t>(job.prompt.size());
      if (at < 0 || at >= static_cast<std::int64_t>(job.continuations[c].size())) return;
      double sum = 0;
      for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
      const auto id = static_cast<std::size_t>(job.continuations[c][static_cast<std::size_t>(at)]);
      expected += static_cast<double>(logits[id]) - std::log(sum);
    };
    ASSERT_TRUE(engine->logits(std::move(raw)));
    EXPECT_NEAR(scored.logprobs[c], expected, 1e-5) << c;
  }
  EXPECT_EQ(scored.logprobs[0], scored.logprobs[6]);
}

TEST(Engine, HiddenStatesDoNotDependOnTheChunk) {
  LogitsJob job;
  job.prompt = ids_of_length(50, 9);
  job.tap_layers = {0, 2};
  const auto whole = new_engine()->logits(job).value_or_throw();
  const auto chunked = new_engine({.prefill_chunk = 7})->logits(job).value_or_throw();
  ASSERT_EQ(whole.hidden.size(), 2U);
  ASSERT_EQ(whole.hidden[1].size(), 50U * 64U);
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(whole.hidden[i].size(), chunked.hidden[i].size());
    EXPECT_EQ(std::memcmp(whole.hidden[i].data(), chunked.hidden[i].data(),
                          whole.hidden[i].size() * sizeof(float)),
              0);
  }
}

TEST(Engine, CancelEndsARunningAndAWaitingJob) {
  const auto engine = new_engine({.max_sequences = 1});
  std::latch running(1);
  bool told = false;
  GenerateJob job = generate_job(10, 1, 900);
  job.on_text = [&](std::string_view) {
    if (!told) running.count_down();
    told = true;
  };
  const auto first = engine->submit(std::move(job)).value_or_throw();
  const auto second = engine->submit(generate_job(10, 2, 900)).value_or_throw();
  running.wait();
  second->cancel();
  first->cancel();
  EXPECT_EQ(first->wait().error().code, ErrorCode::kCancelled);
  EXPECT_EQ(second->wait().error().code, ErrorCode::kCancelled);
  EXPECT_EQ(engine->generate(generate_job(10, 1, 5)).value_or_throw().ids.size(), 5U);
}

TEST(Engine, StoppingTheEngineEndsItsJobs) {
  auto engine = new_engine({.max_sequences = 1});
  const auto running = engine->submit(generate_job(10, 1, 900)).value_or_throw();
  const auto waiting = engine->submit(generate_job(10, 2, 900)).value_or_throw();
  engine.reset();
  const Result<JobResult> result = running->wait();
  EXPECT_TRUE(result.ok() || result.error().code == ErrorCode::kUnavailable);
  EXPECT_EQ(waiting->wait().error().code, ErrorCode::kUnavailable);
}

TEST(Engine, TheContextEndsAReplyWithLength) {
  const auto engine = new_engine({}, 64);
  const GenerateResult result = engine->generate(generate_job(60, 1, 900)).value_or_throw();
  EXPECT_EQ(result.ids.size(), 4U);
  EXPECT_EQ(result.finish_reason, "length");
  const Result<GenerateResult> too_long = engine->generate(generate_job(64, 1, 1));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().code, ErrorCode::kLimit);
  EXPECT_NE(too_long.error().message.find("65"), std::string::npos) << too_long.error().message;
  EXPECT_NE(too_long.error().message.find("64"), std::string::npos) << too_long.error().message;
}

TEST(Engine, BadJobsAreRefused) {
  const auto engine = new_engine();
  GenerateJob outside = generate_job(3, 1, 5);
  outside.prompt[1] = 400;
  EXPECT_EQ(engine->generate(outside).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine->generate(generate_job(0, 1, 5)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine->generate(generate_job(3, 1, 0)).error().code, ErrorCode::kInvalidArgument);
  GenerateJob penalty = generate_job(3, 1, 5);
  penalty.sampling.repetition_penalty = 0;
  EXPECT_EQ(engine->generate(penalty).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine->score({ids_of_length(3, 1), {}}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine->score({ids_of_length(3, 1), {{}}}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine->logits({ids_of_length(3, 1), false, {3}, {}}).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(Engine, AKvLimitRefusesWhatCannotFitAndQueuesWhatCanLater) {
  EngineOptions options;
  options.max_kv_bytes = 3 * std::size_t{2 * 2 * 2 * 32 * 16 * 4};  // three pages
  const auto engine = new_engine(options);
  const Result<GenerateResult> refused = engine->generate(generate_job(90, 1, 10));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kLimit);
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (std::uint32_t i = 0; i < 6; ++i) {
    tickets.push_back(engine->submit(generate_job(40, i, 10)).value_or_throw());
  }
  for (const auto& ticket : tickets) EXPECT_TRUE(ticket->wait());
}

TEST(Engine, TextIsTheSameInPiecesAndWhole) {
  const auto engine = new_engine();
  GenerateJob job = generate_job(20, 11, 100);
  job.sampling.temperature = 1.5F;
  job.sampling.seed = 5;
  std::string pieces;
  job.on_text = [&](std::string_view piece) { pieces += piece; };
  const GenerateResult result = engine->generate(job).value_or_throw();
  EXPECT_EQ(pieces, result.text);
  EXPECT_EQ(result.text, engine->bundle().tokenizer->decode(result.ids, true));

  // A stop string out of the middle of that text cuts it there.
  ASSERT_GT(result.text.size(), 40U);
  std::size_t at = result.text.size() / 2;
  while ((static_cast<unsigned char>(result.text[at]) & 0xC0U) == 0x80U) ++at;
  std::size_t end = at + 4;
  while (end < result.text.size() &&
         (static_cast<unsigned char>(result.text[end]) & 0xC0U) == 0x80U) {
    ++end;
  }
  job.stops = {result.text.substr(at, end - at)};
  pieces.clear();
  const GenerateResult stopped = engine->generate(job).value_or_throw();
  EXPECT_EQ(stopped.finish_reason, "stop");
  EXPECT_EQ(stopped.text, result.text.substr(0, result.text.find(job.stops[0])));
  EXPECT_EQ(pieces, stopped.text);
}

TEST(Engine, ManyThreadsMaySubmit) {
  const auto engine = new_engine();
  const auto expected = engine->generate(generate_job(25, 4, 10)).value_or_throw().ids;
  std::vector<std::thread> threads;
  std::atomic<int> n_equal = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        const Result<GenerateResult> result = engine->generate(generate_job(25, 4, 10));
        if (result && result->ids == expected) ++n_equal;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_equal, 40);
}

}  // namespace
}  // namespace munia::engine
