// The engine on a tiny model: the same bytes alone and in company, with and without KV cache;
// cancelling, limits, stop strings, scores against raw logits.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <future>
#include <latch>
#include <thread>

#include "token_ids.h"

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

GenerateJob generate_job(std::size_t n_prompt, std::uint32_t seed, std::int64_t max_tokens) {
  GenerateJob job;
  job.prompt = test::tokens_of_length(n_prompt, seed);
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
    ScoreJob job{test::tokens_of_length(20 + i, static_cast<std::uint32_t>(i)), sets[i]};
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
  job.prompt = test::tokens_of_length(45, 3);
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
  job.prompt = test::tokens_of_length(50, 9);
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

TEST(Engine, FeaturesAreThoseOfTheHiddenStates) {
  ScoreJob job;
  job.prompt = test::tokens_of_length(50, 9);
  job.continuations = {{5, 6}, {5, 7}, {8}};
  job.features = {{1, 2}, 20, 48};
  LogitsJob raw;
  raw.prompt = job.prompt;
  raw.tap_layers = job.features.layers;
  const LogitsResult states = new_engine()->logits(raw).value_or_throw();
  std::vector<float> expected;
  for (const std::vector<float>& state : states.hidden) {
    expected.insert(expected.end(), state.end() - 64, state.end());
    for (std::size_t d = 0; d < 64; ++d) {
      double sum = 0;
      for (std::size_t t = 20; t < 48; ++t) sum += static_cast<double>(state[t * 64 + d]);
      expected.push_back(static_cast<float>(sum / 28));
    }
  }
  // In one piece, in many, and behind tokens that are in the cache already.
  ScoreJob plain = job;
  plain.features = {};
  const ScoreResult without = new_engine()->score(plain).value_or_throw();
  EXPECT_TRUE(without.features.empty());
  for (const std::int64_t chunk : {std::int64_t{512}, std::int64_t{7}}) {
    const auto engine = new_engine({.prefill_chunk = chunk});
    for (const std::int64_t n_cached : {0, 20}) {
      const ScoreResult result = engine->score(job).value_or_throw();
      EXPECT_EQ(result.usage.cached_tokens, n_cached);
      EXPECT_EQ(result.features, expected);
      EXPECT_EQ(result.logprobs, without.logprobs);
    }
  }
}

TEST(Engine, FeaturesAloneStopEarlyAndLeaveNothing) {
  ScoreJob job;
  job.prompt = test::tokens_of_length(50, 9);
  job.continuations = {{5}, {6}};
  job.features = {{1}, 20, 48};
  const std::vector<float> expected = new_engine()->score(job).value_or_throw().features;
  ScoreJob alone = job;
  alone.continuations.clear();
  for (const std::int64_t chunk : {std::int64_t{512}, std::int64_t{7}}) {
    const auto engine = new_engine({.prefill_chunk = chunk});
    EXPECT_EQ(engine->score(alone).value_or_throw().features, expected);
    // Its keys and values end at layer 1: nobody may take them, pinned or not.
    const PinnedPrefix pin = engine->pin({job.prompt.begin(), job.prompt.begin() + 20});
    EXPECT_EQ(engine->score(alone).value_or_throw().features, expected);
    const ScoreResult whole = engine->score(job).value_or_throw();
    EXPECT_EQ(whole.usage.cached_tokens, 0);
    EXPECT_EQ(whole.features, expected);
    // But it takes what others computed, and runs beside them in one step.
    const ScoreResult behind = engine->score(alone).value_or_throw();
    EXPECT_EQ(behind.usage.cached_tokens, 20);
    EXPECT_EQ(behind.features, expected);
    std::vector<Job> jobs;
    jobs.emplace_back(generate_job(30, 3, 8));
    jobs.emplace_back(alone);
    jobs.emplace_back(job);
    const auto tickets = engine->submit_together(std::move(jobs)).value_or_throw();
    const auto reply = std::get<GenerateResult>(tickets[0]->wait().value_or_throw());
    EXPECT_EQ(std::get<ScoreResult>(tickets[1]->wait().value_or_throw()).features, expected);
    EXPECT_EQ(std::get<ScoreResult>(tickets[2]->wait().value_or_throw()).features, expected);
    EXPECT_EQ(reply.ids, new_engine()->generate(generate_job(30, 3, 8)).value_or_throw().ids);
  }
}

TEST(Engine, FeaturesAloneMayFillTheContextAndNoMore) {
  const auto engine = new_engine();
  const std::int64_t context = engine->bundle().model->context();
  ScoreJob job;
  job.features = {{1}, 0, 5};
  job.prompt = test::tokens_of_length(static_cast<std::size_t>(context), 9);
  EXPECT_TRUE(engine->score(job));
  job.prompt.push_back(job.prompt.back());
  const auto result = engine->score(job);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kLimit);
}

TEST(Engine, FeaturesOfWhatIsNotThereAreRefused) {
  const auto engine = new_engine();
  ScoreJob job;
  job.prompt = test::tokens_of_length(10, 9);
  job.continuations = {{5}, {6}};
  for (const Features& features :
       {Features{{3}, 0, 10}, Features{{-1}, 0, 10}, Features{{1}, 0, 11}, Features{{1}, 5, 5},
        Features{{1}, -1, 5}}) {
    job.features = features;
    const auto result = engine->score(job);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
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

TEST(Engine, ACancelledJobDoesNotWaitForThoseBeforeIt) {
  const auto engine = new_engine({.max_sequences = 1});
  std::promise<void> cancelled;
  std::promise<void> ended;
  bool in_time = false;
  int n_tokens = 0;
  GenerateJob job = generate_job(10, 1, 3);
  job.top_logprobs = 0;
  job.on_token = [&](const decode::TokenLogprob&) {
    constexpr auto kPatience = std::chrono::seconds(60);
    if (n_tokens == 0) cancelled.get_future().wait_for(kPatience);
    // The step between these two takes the cancelled job out of the queue.
    if (n_tokens == 1) {
      in_time = ended.get_future().wait_for(kPatience) == std::future_status::ready;
    }
    ++n_tokens;
  };
  const auto running = engine->submit(std::move(job)).value_or_throw();
  const auto waiting = engine->submit(generate_job(10, 2, 3)).value_or_throw();
  const auto last = engine->submit(generate_job(10, 3, 3)).value_or_throw();
  last->cancel();
  cancelled.set_value();
  EXPECT_EQ(last->wait().error().code, ErrorCode::kCancelled);
  ended.set_value();
  EXPECT_TRUE(running->wait());
  EXPECT_TRUE(waiting->wait());
  EXPECT_TRUE(in_time) << "it waited for the running job's end";
}

TEST(Engine, BulkLeavesRoomForInteractiveJobs) {
  const auto engine = new_engine({.max_sequences = 4});
  const GenerateJob question = generate_job(40, 100, 5);
  const std::vector<std::int32_t> alone = engine->generate(question).value_or_throw().ids;
  std::latch running(1);
  std::promise<void> submitted;
  std::vector<std::shared_ptr<Ticket>> bulk;
  for (std::uint32_t i = 0; i < 8; ++i) {
    GenerateJob job = generate_job(20, i, 900);
    job.priority = Priority::kBulk;
    if (i == 0) {
      job.top_logprobs = 0;
      job.on_token = [&, told = false](const decode::TokenLogprob&) mutable {
        if (told) return;
        told = true;
        running.count_down();
        submitted.get_future().wait_for(std::chrono::seconds(60));
      };
    }
    bulk.push_back(engine->submit(std::move(job)).value_or_throw());
  }
  running.wait();  // no step ends before the question is there
  const auto asked = engine->submit(question).value_or_throw();
  submitted.set_value();
  EXPECT_EQ(std::get<GenerateResult>(asked->wait().value_or_throw()).ids, alone);
  for (const auto& ticket : bulk) ticket->cancel();
  for (const auto& ticket : bulk) EXPECT_EQ(ticket->wait().error().code, ErrorCode::kCancelled);
}

TEST(Engine, InteractiveJobsStartBeforeBulkThatCameEarlier) {
  const auto engine = new_engine({.max_sequences = 1});
  std::vector<Priority> ended;
  std::vector<Job> jobs;
  for (const Priority priority : {Priority::kBulk, Priority::kBulk, Priority::kInteractive}) {
    GenerateJob job = generate_job(10, static_cast<std::uint32_t>(jobs.size()), 1);
    job.priority = priority;
    job.top_logprobs = 0;
    job.on_token = [&ended, priority](const decode::TokenLogprob&) { ended.push_back(priority); };
    jobs.emplace_back(std::move(job));
  }
  for (const auto& ticket : engine->submit_together(std::move(jobs)).value_or_throw()) {
    EXPECT_TRUE(ticket->wait());
  }
  EXPECT_EQ(ended, (std::vector{Priority::kInteractive, Priority::kBulk, Priority::kBulk}));
}

TEST(Engine, AFullQueueRefuses) {
  const auto engine = new_engine({.max_queue = 2});
  std::vector<Job> jobs(3, generate_job(10, 1, 5));
  const auto refused = engine->submit_together(std::move(jobs));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
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
  EXPECT_EQ(engine->score({test::tokens_of_length(3, 1), {}}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine->score({test::tokens_of_length(3, 1), {{}}}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine->logits({test::tokens_of_length(3, 1), false, {3}, {}}).error().code,
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

// What a job gives that must not depend on the prefix cache, as bytes.
struct Answer {
  std::vector<std::int32_t> ids;
  std::vector<double> logprobs;
  std::vector<float> logits;
  bool operator==(const Answer&) const = default;
};

// A conversation of several turns, prompts with a common instruction, the same prompt twice, scores
// behind both, raw logits; each as JobKind(index).
Job mixed_job(std::size_t index, std::vector<float>& logits) {
  const std::vector<std::int32_t> instruction = test::tokens_of_length(75, 42);
  std::vector<std::int32_t> prompt = instruction;
  const std::vector<std::int32_t> rest =
      test::tokens_of_length(20 + index % 5 * 13, 7);  // turns grow
  prompt.insert(prompt.end(), rest.begin(), rest.end());
  if (index % 3 == 0) {
    GenerateJob job;
    job.prompt = prompt;
    job.max_tokens = 10;
    job.ignore_eos = true;
    job.sampling.temperature = index % 2 == 0 ? 0.0F : 0.9F;
    job.sampling.seed = index;
    return job;
  }
  if (index % 3 == 1) {
    ScoreJob job;
    job.prompt = prompt;
    job.continuations = {{5}, {5, 6, 7}, {5, 6, 8, 9}, {11, 12}};
    job.keep = index % 2 == 0;
    return job;
  }
  LogitsJob job;
  job.prompt = prompt;
  job.all_rows = index % 4 == 1;
  job.on_row = [&logits](std::int64_t, std::span<const float> row) {
    logits.insert(logits.end(), row.begin(), row.end());
  };
  return job;
}

constexpr std::size_t kMixedJobs = 24;

std::vector<Answer> answers(Engine& engine, bool together) {
  std::vector<Answer> out(kMixedJobs);
  std::vector<std::shared_ptr<Ticket>> tickets;
  const auto finish = [&](std::size_t i) {
    const JobResult result = tickets[i]->wait().value_or_throw();
    if (const auto* r = std::get_if<GenerateResult>(&result)) out[i].ids = r->ids;
    if (const auto* r = std::get_if<ScoreResult>(&result)) out[i].logprobs = r->logprobs;
  };
  for (std::size_t i = 0; i < kMixedJobs; ++i) {
    tickets.push_back(engine.submit(mixed_job(i, out[i].logits)).value_or_throw());
    if (!together) finish(i);
  }
  for (std::size_t i = 0; together && i < kMixedJobs; ++i) finish(i);
  return out;
}

constexpr std::size_t kPageBytes = 2 * 2 * 2 * 32 * 16 * sizeof(float);  // of kModel

TEST(EnginePrefixCache, AnswersAreTheSameBytesColdWarmAndPartlyEvicted) {
  const std::vector<Answer> expected = answers(*new_engine({.prefix_cache_bytes = 0}), false);
  for (const std::int64_t chunk : {7, 64, 512}) {
    for (const std::size_t budget_pages : {1U, 3U, 6U, 100U}) {
      const auto engine = new_engine({.max_sequences = 5,
                                      .prefill_chunk = chunk,
                                      .max_kv_bytes = 40 * kPageBytes,
                                      .prefix_cache_bytes = budget_pages * kPageBytes});
      EXPECT_TRUE(answers(*engine, false) == expected) << "cold, chunk " << chunk;
      EXPECT_TRUE(answers(*engine, false) == expected) << "warm, chunk " << chunk;
      EXPECT_TRUE(answers(*engine, true) == expected) << "together, chunk " << chunk;
      const EngineStats stats = engine->stats();
      EXPECT_GT(stats.n_cached_tokens, 0) << budget_pages;
      EXPECT_LE(stats.prefix_cache_bytes, budget_pages * kPageBytes);
      EXPECT_EQ(stats.kv_used_bytes, stats.prefix_cache_bytes);  // nothing else is left
    }
  }
}

TEST(EnginePrefixCache, ThreadsAndRungsDoNotMatterWithAWarmCache) {
  std::vector<Answer> expected;
  const kernels::KernelList list = kernels::available_kernels();
  for (int rung = 0; rung < list.n_rungs; ++rung) {
    for (const int n_threads : {1, 2, 3}) {
      auto threads = std::make_unique<ThreadPool>(
          ThreadPool::Options{.n_threads = n_threads, .cpus = {}, .spin_us = 20});
      auto bundle = load_bundle(kModel, {.isa = list.rungs[rung]->name}, *threads);
      Engine engine(std::move(bundle), std::move(threads), {});
      (void)answers(engine, true);
      const std::vector<Answer> warm = answers(engine, true);
      if (expected.empty()) expected = warm;
      EXPECT_TRUE(warm == expected) << list.rungs[rung]->name << ", " << n_threads;
    }
  }
}

TEST(EnginePrefixCache, CachedTokensAreReported) {
  const auto engine = new_engine();
  GenerateJob job = generate_job(100, 1, 10);
  const GenerateResult first = engine->generate(job).value_or_throw();
  EXPECT_EQ(first.usage.cached_tokens, 0);
  const GenerateResult again = engine->generate(job).value_or_throw();
  EXPECT_EQ(again.usage.cached_tokens, 99);  // one is always computed
  EXPECT_EQ(again.ids, first.ids);

  // The next turn finds prompt and reply; the last id of the reply was never computed.
  job.prompt.insert(job.prompt.end(), first.ids.begin(), first.ids.end());
  job.prompt.push_back(3);
  job.prompt.push_back(4);
  const GenerateResult turn = engine->generate(job).value_or_throw();
  EXPECT_EQ(turn.usage.prompt_tokens, 112);
  EXPECT_EQ(turn.usage.cached_tokens, 109);

  // A job that is not to be kept leaves nothing.
  GenerateJob secret = generate_job(100, 2, 10);
  secret.keep = false;
  EXPECT_EQ(engine->generate(secret).value_or_throw().usage.cached_tokens, 0);
  EXPECT_EQ(engine->generate(secret).value_or_throw().usage.cached_tokens, 0);

  // Rows and hidden states of all tokens are asked for: all are computed.
  LogitsJob rows;
  rows.prompt = generate_job(100, 1, 1).prompt;
  rows.all_rows = true;
  int n_rows = 0;
  rows.on_row = [&n_rows](std::int64_t, std::span<const float>) { ++n_rows; };
  EXPECT_EQ(engine->logits(rows).value_or_throw().usage.cached_tokens, 0);
  EXPECT_EQ(n_rows, 100);
  rows.all_rows = false;
  rows.tap_layers = {1};
  const LogitsResult tapped = engine->logits(rows).value_or_throw();
  EXPECT_EQ(tapped.usage.cached_tokens, 0);
  EXPECT_EQ(tapped.hidden[0].size(), 100U * 64U);
}

TEST(EnginePrefixCache, OffMeansOff) {
  for (const bool kv_cache : {true, false}) {
    EngineOptions options;
    options.kv_cache = kv_cache;
    if (kv_cache) options.prefix_cache_bytes = 0;
    const auto engine = new_engine(options);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(engine->generate(generate_job(70, 1, 3)).value_or_throw().usage.cached_tokens, 0);
    }
    EXPECT_EQ(engine->stats().kv_used_bytes, 0U);
  }
}

// Demands row 9: a title prompt in between does not cost the conversation its tokens.
TEST(EnginePrefixCache, SeveralConversationsLiveSideBySide) {
  const auto engine = new_engine();
  GenerateJob chat = generate_job(150, 1, 20);
  const GenerateResult first = engine->generate(chat).value_or_throw();
  (void)engine->generate(generate_job(170, 2, 20)).value_or_throw();
  (void)engine->generate(generate_job(130, 3, 20)).value_or_throw();
  chat.prompt.insert(chat.prompt.end(), first.ids.begin(), first.ids.end());
  chat.prompt.push_back(3);
  EXPECT_EQ(engine->generate(chat).value_or_throw().usage.cached_tokens, 169);
}

TEST(EnginePrefixCache, PromptsSubmittedAtOnceComputeTheirBeginningOnce) {
  for (const std::int64_t chunk : {16, 50, 512}) {
    const auto engine = new_engine({.max_sequences = 6, .prefill_chunk = chunk});
    std::vector<std::shared_ptr<Ticket>> tickets;
    // A job that keeps the engine busy while the others come in.
    tickets.push_back(engine->submit(generate_job(400, 9, 1)).value_or_throw());
    for (std::uint32_t i = 0; i < 10; ++i) {
      GenerateJob job = generate_job(200, 1, 1);
      const std::vector<std::int32_t> own = test::tokens_of_length(10 + i, 100 + i);
      job.prompt.insert(job.prompt.end(), own.begin(), own.end());
      tickets.push_back(engine->submit(std::move(job)).value_or_throw());
    }
    std::int64_t n_prompt = 0;
    std::int64_t n_cached = 0;
    for (const auto& ticket : tickets) {
      const JobResult result = ticket->wait().value_or_throw();
      n_prompt += std::get<GenerateResult>(result).usage.prompt_tokens;
      n_cached += std::get<GenerateResult>(result).usage.cached_tokens;
    }
    const EngineStats stats = engine->stats();
    EXPECT_EQ(stats.n_cached_tokens, n_cached);
    EXPECT_EQ(stats.n_computed_tokens, n_prompt - n_cached) << "chunk " << chunk;
    EXPECT_GE(n_cached, 9 * 200) << "chunk " << chunk;
  }
}

TEST(EnginePrefixCache, WhatIsNotKeptIsComputedByEveryJob) {
  const auto engine = new_engine({.prefill_chunk = 64});
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (int i = 0; i < 3; ++i) {
    GenerateJob job = generate_job(300, 1, 1);
    job.keep = i == 2;
    tickets.push_back(engine->submit(std::move(job)).value_or_throw());
  }
  for (const auto& ticket : tickets) EXPECT_TRUE(ticket->wait());
  EXPECT_EQ(engine->stats().n_computed_tokens, 900);
}

TEST(EnginePrefixCache, APinnedPrefixIsComputedOncePerEngine) {
  const auto engine = new_engine({.max_sequences = 4});
  const PinnedPrefix pinned = engine->pin(test::tokens_of_length(45, 1));
  std::vector<std::shared_ptr<Ticket>> tickets;
  std::int64_t n_own = 0;
  for (std::uint32_t i = 0; i < 20; ++i) {
    ScoreJob job;
    job.prompt = *pinned;
    const std::vector<std::int32_t> own = test::tokens_of_length(10 + i, 100 + i);
    n_own += static_cast<std::int64_t>(own.size());
    job.prompt.insert(job.prompt.end(), own.begin(), own.end());
    job.continuations = {{5}, {6}};
    job.keep = false;
    tickets.push_back(engine->submit(std::move(job)).value_or_throw());
  }
  for (const auto& ticket : tickets) EXPECT_TRUE(ticket->wait());
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.n_computed_tokens, 45 + n_own);
  EXPECT_EQ(stats.pinned_bytes, 2 * kPageBytes);
  EXPECT_EQ(stats.kv_used_bytes, 2 * kPageBytes);
}

TEST(EnginePrefixCache, PinsThatWereLetGoDoNotPileUpWhileNoJobComes) {
  const auto engine = new_engine();
  const std::weak_ptr<const Tokens> first = engine->pin(test::tokens_of_length(45, 1));
  (void)engine->pin(test::tokens_of_length(45, 2));
  EXPECT_TRUE(first.expired());
}

TEST(EnginePrefixCache, AJobThatNeedsAllMemoryGetsIt) {
  EngineOptions options;
  options.max_kv_bytes = 8 * kPageBytes;
  const auto engine = new_engine(options);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(engine->generate(generate_job(60, i, 4)));
  }
  EXPECT_EQ(engine->stats().kv_used_bytes, 8 * kPageBytes);  // full of what was kept
  const GenerateResult whole = engine->generate(generate_job(240, 50, 16)).value_or_throw();
  EXPECT_EQ(whole.ids.size(), 16U);
  EXPECT_LE(engine->stats().kv_used_bytes, 8 * kPageBytes);
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (std::uint32_t i = 0; i < 30; ++i) {
    tickets.push_back(engine->submit(generate_job(20 + i * 7, i % 4, 10)).value_or_throw());
  }
  for (const auto& ticket : tickets) EXPECT_TRUE(ticket->wait());
  EXPECT_EQ(engine->stats().page_bytes, kPageBytes);
  EXPECT_EQ(engine->stats().kv_max_bytes, 8 * kPageBytes);
}

}  // namespace
}  // namespace munia::engine
