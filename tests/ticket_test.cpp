// A ticket of the engine on a tiny model: waiting with a time limit, and being told of the end.
#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "engine/engine.h"

namespace munia::engine {
namespace {

std::unique_ptr<Engine> slow_engine() {
  ThreadPool::Options options;
  options.n_threads = 1;
  auto pool = std::make_unique<ThreadPool>(options);
  auto bundle = load_bundle(MUNIA_SOURCE_DIR "/tests/models/qwen2-tied-bf16", {}, *pool);
  EngineOptions engine_options;
  engine_options.kv_cache = false;  // each token computes its whole past again
  return std::make_unique<Engine>(std::move(bundle), std::move(pool), engine_options);
}

GenerateJob job_of(std::int64_t max_tokens) {
  GenerateJob job;
  job.prompt = {5, 6, 7};
  job.max_tokens = max_tokens;
  job.ignore_eos = true;
  return job;
}

TEST(Ticket, WaitsNoLongerThanAskedAndTellsTheEndOnce) {
  const auto engine = slow_engine();
  const auto ticket = engine->submit(job_of(900)).value_or_throw();
  std::promise<void> told;
  ticket->when_done([&told] { told.set_value(); });  // a second call would throw
  EXPECT_FALSE(ticket->wait_for(std::chrono::milliseconds(1)));
  ticket->cancel();
  EXPECT_TRUE(ticket->wait_for(std::chrono::minutes(1)));
  told.get_future().wait();
  EXPECT_TRUE(ticket->wait_for(std::chrono::milliseconds(0)));
  EXPECT_EQ(ticket->wait().error().code, ErrorCode::kCancelled);
}

TEST(Ticket, TellsAtOnceOfAnEndThatWas) {
  const auto engine = slow_engine();
  const auto ticket = engine->submit(job_of(1)).value_or_throw();
  EXPECT_TRUE(ticket->wait_for(std::chrono::minutes(1)));
  int n_told = 0;
  ticket->when_done([&n_told] { ++n_told; });
  EXPECT_EQ(n_told, 1);
  EXPECT_TRUE(ticket->wait().ok());
}

TEST(Ticket, TellsTheEndOfTheEngine) {
  auto engine = slow_engine();
  const auto ticket = engine->submit(job_of(900)).value_or_throw();
  std::promise<void> told;
  ticket->when_done([&told] { told.set_value(); });
  engine.reset();
  told.get_future().wait();
  EXPECT_TRUE(ticket->wait_for(std::chrono::milliseconds(0)));
}

}  // namespace
}  // namespace munia::engine
