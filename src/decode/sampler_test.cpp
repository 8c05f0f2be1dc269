#include "decode/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "decode/portable_exp.h"
#include "decode/random.h"

namespace munia::decode {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::int32_t pick_once(const SamplingParams& params, std::vector<float> logits,
                       const std::vector<std::int32_t>& prompt = {}) {
  Sampler sampler(params, prompt, static_cast<std::int64_t>(logits.size()));
  return sampler.pick(logits);
}

std::vector<double> distribution_of(const SamplingParams& params, std::vector<float> logits,
                                    const std::vector<std::int32_t>& prompt = {}) {
  Sampler sampler(params, prompt, static_cast<std::int64_t>(logits.size()));
  return sampler.distribution(logits);
}

SamplingParams at_temperature(float temperature) {
  SamplingParams params;
  params.temperature = temperature;
  return params;
}

// Roughly normal values, the same everywhere.
std::vector<float> random_logits(std::size_t n, std::uint64_t seed, double scale) {
  Xoshiro256 random(seed);
  std::vector<float> logits(n);
  for (float& logit : logits) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random.next_double();
    logit = static_cast<float>(sum * scale);
  }
  return logits;
}

// The outputs that the authors' own C programs give.
TEST(Random, EqualsThePublishedGenerators) {
  std::uint64_t state = 1234567;
  EXPECT_EQ(Xoshiro256::splitmix64(state), 6457827717110365317U);
  EXPECT_EQ(Xoshiro256::splitmix64(state), 3203168211198807973U);
  EXPECT_EQ(Xoshiro256::splitmix64(state), 9817491932198370423U);
  Xoshiro256 random(1, 2, 3, 4);
  EXPECT_EQ(random.next(), 11520U);
  EXPECT_EQ(random.next(), 0U);
  EXPECT_EQ(random.next(), 1509978240U);
  EXPECT_EQ(random.next(), 1215971899390074240U);
  EXPECT_EQ(random.next(), 1216172134540287360U);
}

TEST(PortableExp, IsWithinTwoUnitsInTheLastPlace) {
  EXPECT_EQ(portable_exp(0), 1);
  EXPECT_EQ(portable_exp(-std::numeric_limits<double>::infinity()), 0);
  EXPECT_EQ(portable_exp(-701), 0);
  Xoshiro256 random(7);
  for (int i = 0; i < 200000; ++i) {
    const double x = -700 * std::pow(random.next_double(), 4);
    const double exact = std::exp(x);
    const double unit = std::nextafter(exact, 2) - exact;
    ASSERT_LE(std::abs(portable_exp(x) - exact), 2 * unit) << x;
  }
}

TEST(Sampler, GreedyTakesTheLowestIdOfTheLargest) {
  EXPECT_EQ(pick_once({}, {1, 5, 5, 2}), 1);
  EXPECT_EQ(pick_once({}, {-3, -2, -2}), 1);
  EXPECT_EQ(pick_once({}, {7}), 0);
  EXPECT_TRUE(Sampler({}, {}, 4).is_plain_greedy());
  for (const char* changed : {"temperature", "repetition", "presence", "frequency", "bias"}) {
    SamplingParams params;
    const std::string name = changed;
    if (name == "temperature") params.temperature = 0.5F;
    if (name == "repetition") params.repetition_penalty = 1.1F;
    if (name == "presence") params.presence_penalty = 0.1F;
    if (name == "frequency") params.frequency_penalty = -0.1F;
    if (name == "bias") params.logit_bias = {{1, 1.0F}};
    EXPECT_FALSE(Sampler(params, {}, 4).is_plain_greedy()) << name;
  }
}

TEST(Sampler, RepetitionPenaltyCountsThePromptOncePerToken) {
  SamplingParams params;
  params.repetition_penalty = 2;
  // 8 / 2 = 4 (named twice), -1 * 2 = -2; ids that do not exist are passed over.
  std::vector<float> logits{8, -1, 3, -1.5F};
  Sampler sampler(params, std::vector<std::int32_t>{0, 1, 0, 99, -5}, 4);
  EXPECT_EQ(sampler.pick(logits), 0);
  EXPECT_EQ(logits, (std::vector<float>{4, -2, 3, -1.5F}));
  // Token 2 is generated, then penalized as well.
  logits = {5, 0, 6, 0};
  EXPECT_EQ(sampler.pick(logits), 2);
  logits = {5, 0, 6, 1};
  EXPECT_EQ(sampler.pick(logits), 2);
  EXPECT_EQ(logits, (std::vector<float>{2.5F, 0, 3, 1}));
}

TEST(Sampler, OpenAiPenaltiesCountGeneratedTokensOnly) {
  SamplingParams params;
  params.presence_penalty = 1;
  params.frequency_penalty = 0.5F;
  Sampler sampler(params, std::vector<std::int32_t>{0, 1, 2}, 3);
  std::vector<float> logits{3, 0, 0};
  EXPECT_EQ(sampler.pick(logits), 0);
  EXPECT_EQ(logits, (std::vector<float>{3, 0, 0}));
  EXPECT_EQ(sampler.pick(logits), 0);
  EXPECT_EQ(logits, (std::vector<float>{1.5F, 0, 0}));
  logits = {3, 0, 0};
  EXPECT_EQ(sampler.pick(logits), 0);
  EXPECT_EQ(logits, (std::vector<float>{1, 0, 0}));
  sampler.accept(1);
  logits = {3, 3, 3};
  EXPECT_EQ(sampler.pick(logits), 2);
  EXPECT_EQ(logits, (std::vector<float>{0.5F, 1.5F, 3}));
}

TEST(Sampler, BiasIsAdded) {
  SamplingParams params;
  params.logit_bias = {{1, 100.0F}, {0, -100.0F}, {77, 5.0F}};
  EXPECT_EQ(pick_once(params, {5, 4, 3}), 1);
  EXPECT_EQ(distribution_of(params, {5, 4, 3}), (std::vector<double>{0, 1, 0}));
}

TEST(Sampler, TopKKeepsTies) {
  SamplingParams params = at_temperature(1);
  params.top_k = 2;
  EXPECT_EQ(distribution_of(params, {0, 2, 2, 2, 1}),
            (std::vector<double>{0, 1.0 / 3, 1.0 / 3, 1.0 / 3, 0}));
  params.top_k = 1;
  EXPECT_EQ(distribution_of(params, {0, 2, 3, 2, 1}), (std::vector<double>{0, 0, 1, 0, 0}));
}

TEST(Sampler, TopPKeepsTheTokenThatCrossesAndTheLowerIdOfTies) {
  SamplingParams params = at_temperature(1);
  const std::vector<float> halves{std::log(0.25F), std::log(0.5F), std::log(0.25F)};
  params.top_p = 0.4F;
  EXPECT_EQ(distribution_of(params, halves), (std::vector<double>{0, 1, 0}));
  params.top_p = 0.6F;
  const auto kept = distribution_of(params, halves);
  EXPECT_NEAR(kept[0], 1.0 / 3, 1e-7);
  EXPECT_EQ(kept[2], 0);
  params.top_p = 1e-30F;  // never fewer than one
  EXPECT_EQ(distribution_of(params, {1, 1, 1}), (std::vector<double>{1, 0, 0}));
}

TEST(Sampler, MinPIsRelativeToTheLargest) {
  SamplingParams params = at_temperature(1);
  params.min_p = 0.3F;
  const auto kept = distribution_of(params, {0, std::log(0.5F), std::log(0.25F)});
  EXPECT_NEAR(kept[0], 2.0 / 3, 1e-7);
  EXPECT_NEAR(kept[1], 1.0 / 3, 1e-7);
  EXPECT_EQ(kept[2], 0);
}

// Plain full sort, written anew, on rows as large as a real vocabulary.
std::vector<double> naive_distribution(const SamplingParams& params,
                                       const std::vector<float>& logits) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < order.size()) {
    const float edge = logits[order[static_cast<std::size_t>(params.top_k) - 1]];
    std::erase_if(order, [&](std::size_t i) { return logits[i] < edge; });
  }
  const double largest = static_cast<double>(logits[order[0]]);
  std::vector<double> weights(logits.size(), 0.0);
  double total = 0;
  for (const std::size_t i : order) {
    weights[i] = std::exp((static_cast<double>(logits[i]) - largest) /
                          static_cast<double>(params.temperature));
    total += weights[i];
  }
  double sum = 0;
  double kept = 0;
  for (const std::size_t i : order) {
    const bool keep = (params.top_p == 1 || sum < static_cast<double>(params.top_p) * total) &&
                      weights[i] >= static_cast<double>(params.min_p);
    sum += weights[i];
    if (!keep) weights[i] = 0;
    kept += weights[i];
  }
  for (double& weight : weights) weight /= kept;
  return weights;
}

TEST(Sampler, LargeRowsEqualAFullSort) {
  constexpr std::size_t kVocab = 151936;
  const struct {
    double scale;
    float temperature, top_p, min_p;
    std::int64_t top_k;
  } cases[] = {{3, 1, 1, 0, 0},          {3, 0.7F, 0.9F, 0, 0},      {0.01, 1, 0.95F, 0, 0},
               {3, 1, 0.999999F, 0, 0},  {3, 1.5F, 0.8F, 0.05F, 50}, {3, 1, 1, 0.1F, 0},
               {3, 0.7F, 0.8F, 0, 1000}, {3, 1, 1, 0, 151935},       {20, 0.05F, 0.5F, 0, 0}};
  int index = 0;
  for (const auto& c : cases) {
    SCOPED_TRACE(index);
    const auto logits = random_logits(kVocab, static_cast<std::uint64_t>(++index), c.scale);
    SamplingParams params = at_temperature(c.temperature);
    params.top_p = c.top_p;
    params.min_p = c.min_p;
    params.top_k = c.top_k;
    const auto expected = naive_distribution(params, logits);
    const auto actual = distribution_of(params, logits);
    std::size_t n_kept_differently = 0;
    for (std::size_t i = 0; i < kVocab; ++i) {
      // Where top_p's sums run over very many equal steps, roundings may move the edge by a token.
      if ((actual[i] == 0) != (expected[i] == 0)) {
        ++n_kept_differently;
        ASSERT_LT(std::max(actual[i], expected[i]), 1e-5);
        continue;
      }
      ASSERT_NEAR(actual[i], expected[i], 1e-9);
    }
    EXPECT_LE(n_kept_differently, 1U);
  }
}

// Pearson's statistic over 40,000 draws with a fixed seed: 9 degrees of freedom stay below 40 in
// all but one of 10^5 such runs, and this run is always the same.
TEST(Sampler, DrawsFollowTheDistribution) {
  for (const bool filtered : {false, true}) {
    SamplingParams params = at_temperature(0.8F);
    params.seed = 42;
    if (filtered) params.top_p = 0.95F;
    const std::vector<float> logits = random_logits(10, 5, 1);
    const auto expected = distribution_of(params, logits);
    constexpr int kDraws = 40000;
    std::vector<int> times(10);
    Sampler sampler(params, {}, 10);
    for (int i = 0; i < kDraws; ++i) {
      std::vector<float> row = logits;
      ++times[static_cast<std::size_t>(sampler.pick(row))];
    }
    double statistic = 0;
    for (std::size_t i = 0; i < 10; ++i) {
      const double mean = expected[i] * kDraws;
      if (mean == 0) {
        EXPECT_EQ(times[i], 0);
        continue;
      }
      statistic += (times[i] - mean) * (times[i] - mean) / mean;
    }
    EXPECT_LT(statistic, 40);
    EXPECT_GT(statistic, 0.1);  // too good would not be random either
  }
}

TEST(Sampler, TheSameSeedGivesTheSameDraws) {
  const auto draws = [](std::uint64_t seed) {
    SamplingParams params = at_temperature(1);
    params.seed = seed;
    Sampler sampler(params, {}, 1000);
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 8; ++i) {
      auto logits = random_logits(1000, 9, 1.5);
      ids.push_back(sampler.pick(logits));
    }
    return ids;
  };
  EXPECT_EQ(draws(1), draws(1));
  EXPECT_NE(draws(1), draws(2));
  // From a second implementation (Python) of the same generator and the same walk over the row:
  // another compiler or machine must draw these, too.
  EXPECT_EQ(draws(2026), (std::vector<std::int32_t>{520, 246, 783, 866, 783, 764, 797, 793}));
}

TEST(Sampler, BrokenRowsHaveADefinedResult) {
  for (const float temperature : {0.0F, 0.7F}) {
    for (const std::int64_t top_k : {0, 2}) {
      for (const float top_p : {1.0F, 0.5F}) {
        SamplingParams params = at_temperature(temperature);
        params.top_k = top_k;
        params.top_p = top_p;
        EXPECT_EQ(pick_once(params, {kNan, kNan, kNan}), 0);
        EXPECT_EQ(pick_once(params, {-kInf, -kInf, -kInf}), 0);
        EXPECT_EQ(pick_once(params, {kNan, -kInf, -5, kNan}), 2);
        EXPECT_EQ(pick_once(params, {0, kInf, 5, kNan}), 1);
        EXPECT_EQ(distribution_of(params, {kNan, -kInf, -5, kNan}),
                  (std::vector<double>{0, 0, 1, 0}));
      }
    }
  }
  EXPECT_EQ(distribution_of(at_temperature(1), {kInf, 3, kInf}),
            (std::vector<double>{0.5, 0, 0.5}));
  EXPECT_EQ(distribution_of(at_temperature(1), {-kInf, kNan}), (std::vector<double>{1, 0}));
  // The coldest and hottest: no overflow on the way.
  EXPECT_EQ(pick_once(at_temperature(1e-44F), {-3e38F, 3e38F, 2.9e38F}), 1);
  EXPECT_EQ(distribution_of(at_temperature(100), {3e38F, -3e38F}), (std::vector<double>{1, 0}));
}

TEST(Sampler, ValidatesEachLimit) {
  EXPECT_TRUE(validate({}).ok());
  const auto message = [](auto change) {
    SamplingParams params;
    change(params);
    const Status status = validate(params, 100);
    return status.ok() ? std::string("accepted") : status.error().message;
  };
  const auto expect_named = [&](const char* name, auto change) {
    const std::string text = message(change);
    EXPECT_EQ(text.rfind(name, 0), 0U) << text;
  };
  using P = SamplingParams;
  for (const float bad : {-0.1F, 101.0F, kNan, kInf}) {
    expect_named("temperature is", [bad](P& p) { p.temperature = bad; });
  }
  expect_named("top_k is -1", [](P& p) { p.top_k = -1; });
  for (const float bad : {0.0F, -1.0F, 1.01F, kNan}) {
    expect_named("top_p is", [bad](P& p) { p.top_p = bad; });
  }
  for (const float bad : {-0.1F, 1.0F, kNan}) {
    expect_named("min_p is", [bad](P& p) { p.min_p = bad; });
  }
  for (const float bad : {0.0F, -1.0F, 101.0F, kNan, kInf}) {
    expect_named("repetition_penalty is", [bad](P& p) { p.repetition_penalty = bad; });
  }
  for (const float bad : {-2.1F, 2.1F, kNan}) {
    expect_named("presence_penalty is", [bad](P& p) { p.presence_penalty = bad; });
    expect_named("frequency_penalty is", [bad](P& p) { p.frequency_penalty = bad; });
  }
  expect_named("logit_bias names the token -1", [](P& p) { p.logit_bias = {{-1, 0.0F}}; });
  expect_named("logit_bias names the token 100", [](P& p) { p.logit_bias = {{100, 0.0F}}; });
  expect_named("logit_bias of token 3 is 100.5", [](P& p) { p.logit_bias = {{3, 100.5F}}; });
  EXPECT_EQ(message([](P& p) { p.temperature = 2.5F; }), "accepted");
  EXPECT_EQ(message([](P& p) { p.temperature = -1; }),
            "temperature is -1; it must be from 0 (greedy) to 100");
}

}  // namespace
}  // namespace munia::decode
