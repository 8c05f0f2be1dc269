// Byte-invariance of logits: alone or in a batch, chunked or whole, behind a cached prefix, with
// one or more threads, and between the rungs of this machine (the AMX rungs among themselves).
#include <gtest/gtest.h>

#include <cstring>

#include "tiny_model.h"
#include "token_ids.h"

namespace munia::test {
namespace {

const std::vector<std::string> kModels = {
    "qwen2-tied-bf16",      "llama-untied-f16.gguf", "qwen2-tied-k-mix.gguf",
    "qwen2-tied-q5_0.gguf", "qwen3-tied-bf16",       "qwen3-untied-f16.gguf",
    "llama3-rope-bf16",     "mistral-untied-bf16",   "llama-tied-small-k.gguf"};

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> alone(Runner& runner, const std::vector<std::int32_t>& tokens) {
  model::KvCache cache = runner.new_cache();
  return runner.logits(cache, tokens, 320);
}

class Invariance : public testing::TestWithParam<std::string> {};

TEST_P(Invariance, RungsAndThreads) {
  const std::vector<std::int32_t> tokens = tokens_of_length(150, 1);
  std::vector<float> first;
  std::vector<float> first_of_amx;  // hardware and emulated tiles give one set of bytes
  for (const std::string& isa : rung_names()) {
    std::vector<float>& expected = has_own_order(isa) ? first_of_amx : first;
    for (const int n_threads : {1, 2, 3}) {
      Runner runner(GetParam(), isa, n_threads);
      const std::vector<float> logits = alone(runner, tokens);
      if (expected.empty()) expected = logits;
      EXPECT_TRUE(same_bytes(expected, logits)) << isa << ", " << n_threads << " threads";
    }
  }
}

TEST_P(Invariance, ChunksAndCachedPrefix) {
  for (const std::string& isa : rung_names()) {
    if (isa == "scalar") continue;  // byte-equal to the others by RungsAndThreads; slow
    Runner runner(GetParam(), isa, 2);
    const std::vector<std::int32_t> tokens = tokens_of_length(150, 2);
    const std::vector<float> whole = alone(runner, tokens);
    for (const std::int64_t chunk : {1, 3, 16, 31, 64, 149}) {
      model::KvCache cache = runner.new_cache();
      EXPECT_TRUE(same_bytes(whole, runner.logits(cache, tokens, chunk)))
          << isa << ", chunk " << chunk;
    }
    for (const std::size_t prefix : {1U, 32U, 45U, 96U}) {
      model::KvCache cache = runner.new_cache();
      const auto split = tokens.begin() + static_cast<std::ptrdiff_t>(prefix);
      (void)runner.logits(cache, {tokens.begin(), split}, 320);
      model::KvCache fork = cache.fork().value_or_throw();
      const std::vector<float> rest = runner.logits(fork, {split, tokens.end()}, 320);
      const std::vector<float> expected(whole.end() - static_cast<std::ptrdiff_t>(rest.size()),
                                        whole.end());
      EXPECT_TRUE(same_bytes(expected, rest)) << isa << ", cached prefix of " << prefix;
    }
  }
}

TEST_P(Invariance, ABatchOfEightRaggedSequences) {
  for (const std::string& isa : rung_names()) {
    if (isa == "scalar") continue;
    Runner runner(GetParam(), isa, 2);
    const std::size_t lengths[] = {3, 1, 17, 64, 33, 2, 100, 40};
    std::vector<std::vector<std::int32_t>> prompts;
    std::vector<std::vector<float>> expected;
    for (std::size_t i = 0; i < 8; ++i) {
      prompts.push_back(tokens_of_length(lengths[i], static_cast<std::uint32_t>(100 + i)));
      expected.push_back(alone(runner, prompts[i]));
    }
    std::vector<model::KvCache> caches;
    for (std::size_t i = 0; i < 8; ++i) caches.push_back(runner.new_cache());
    model::Batch batch;
    for (std::size_t i = 0; i < 8; ++i) {
      model::SequenceSlice slice{&caches[i], prompts[i], {}};
      for (std::size_t t = 0; t < lengths[i]; ++t) {
        slice.logit_rows.push_back(static_cast<std::int64_t>(t));
      }
      batch.sequences.push_back(std::move(slice));
    }
    runner.forward(batch);
    std::int64_t row = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      std::vector<float> got;
      for (std::size_t t = 0; t < lengths[i]; ++t) {
        const std::span<float> logits = runner.activations().logits(row++);
        got.insert(got.end(), logits.begin(), logits.end());
      }
      EXPECT_TRUE(same_bytes(expected[i], got)) << isa << ", sequence " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TinyModels, Invariance, testing::ValuesIn(kModels), [](const auto& test) {
  std::string name = test.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
});

}  // namespace
}  // namespace munia::test
