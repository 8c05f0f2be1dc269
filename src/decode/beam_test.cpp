#include "decode/beam.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>

namespace munia::decode {
namespace {

constexpr std::int32_t kEnd = 0;

BeamEnd end_of(const BeamCandidate& candidate) {
  return candidate.id == kEnd ? BeamEnd::kEndToken : BeamEnd::kNone;
}

BeamParams params_of(std::int64_t num_beams, float length_penalty, EarlyStopping early_stopping,
                     std::int64_t n_returned = 1) {
  BeamParams params;
  params.num_beams = num_beams;
  params.n_returned = n_returned;
  params.length_penalty = length_penalty;
  params.early_stopping = early_stopping;
  return params;
}

// "beam:id" of those that go on.
std::string told(const std::vector<BeamCandidate>& next) {
  std::string text;
  for (const BeamCandidate& candidate : next) {
    text += std::to_string(candidate.beam) + ":" + std::to_string(candidate.id) + " ";
  }
  return text;
}

TEST(BeamSearch, TheBestGoOnAndTiesGoToTheLowerBeamAndId) {
  BeamSearch search(params_of(3, 1, EarlyStopping::kFalse), 1, 9);
  EXPECT_EQ(search.n_candidates(), 6);
  EXPECT_EQ(told(search.advance({{0, 7, -2}, {0, 5, -1}, {0, 4, -2}, {0, 9, -3}}, end_of)),
            "0:5 0:4 0:7 ");
  EXPECT_EQ(search.score(0), -1);
  EXPECT_EQ(search.score(2), -2);
  EXPECT_EQ(
      told(search.advance({{2, 1, -3}, {1, 8, -3}, {1, 2, -3}, {0, 6, -4}, {2, 3, -2.5}}, end_of)),
      "2:3 1:2 1:8 ");
}

TEST(BeamSearch, EnoughCandidatesForEveryEndToken) {
  EXPECT_EQ(BeamSearch(params_of(4, 1, EarlyStopping::kFalse), 0, 9).n_candidates(), 8);
  EXPECT_EQ(BeamSearch(params_of(4, 1, EarlyStopping::kFalse), 1, 9).n_candidates(), 8);
  EXPECT_EQ(BeamSearch(params_of(4, 1, EarlyStopping::kFalse), 3, 9).n_candidates(), 16);
}

TEST(BeamSearch, AnEndBehindTheFirstNumBeamsIsDropped) {
  BeamSearch search(params_of(2, 0, EarlyStopping::kNever, 2), 1, 2);
  search.advance({{0, 1, -1}, {0, 2, -2}, {0, kEnd, -3}, {0, 3, -4}}, end_of);
  // At the greatest length the best two end, whatever they are.
  EXPECT_TRUE(
      search.advance({{0, 1, -5}, {0, kEnd, -6}, {1, kEnd, -7}, {1, 1, -8}}, end_of).empty());
  const std::vector<Hypothesis> best = search.take_best();
  ASSERT_EQ(best.size(), 2U);
  EXPECT_EQ(best[0].ids, (std::vector<std::int32_t>{1, 1}));
  EXPECT_EQ(best[0].end, BeamEnd::kLength);
  EXPECT_EQ(best[1].ids, (std::vector<std::int32_t>{1, kEnd}));
  EXPECT_EQ(best[1].end, BeamEnd::kEndToken);
}

// One text ends with -2 after a token, one with -3 after two: with length penalty 1 they score -2
// and -1.5. Then a beam is left that has `running` after two tokens and falls by 1 with each more,
// of at most 100.
int n_steps(EarlyStopping early_stopping, float length_penalty, double running) {
  BeamSearch search(params_of(2, length_penalty, early_stopping), 1, 100);
  search.advance({{0, kEnd, -2}, {0, 5, -2.2}, {0, 6, -900}}, end_of);
  auto next = search.advance({{0, kEnd, -3}, {0, 5, running}, {0, 6, -900}}, end_of);
  int steps = 2;
  while (!next.empty()) {
    next = search.advance({{0, 5, search.score(0) - 1}, {0, 6, -900}, {1, 5, -900}}, end_of);
    ++steps;
  }
  return steps;
}

TEST(BeamSearch, EarlyStoppingSaysWhenItEnds) {
  // true: as soon as there are two texts.
  EXPECT_EQ(n_steps(EarlyStopping::kTrue, 1, -2.5), 2);
  // false: -4 / 2 is not above -2; -2.5 / 2 is, and so is -(k + 0.5) / k after k tokens.
  EXPECT_EQ(n_steps(EarlyStopping::kFalse, 1, -4), 2);
  EXPECT_EQ(n_steps(EarlyStopping::kFalse, 1, -2.5), 100);
  // Without a length penalty sums are compared: -2.5 and then -3.5 with -3.
  EXPECT_EQ(n_steps(EarlyStopping::kFalse, 0, -2.5), 3);
  EXPECT_EQ(n_steps(EarlyStopping::kNever, 0, -2.5), 3);
  // never: -4 / 100 might still come to be better than -2, -201 / 100 cannot.
  EXPECT_EQ(n_steps(EarlyStopping::kNever, 1, -4), 100);
  EXPECT_EQ(n_steps(EarlyStopping::kNever, 1, -201), 2);
  EXPECT_EQ(n_steps(EarlyStopping::kNever, 1, -199.5), 3);
}

TEST(BeamSearch, TheLengthPenaltyOrdersTexts) {
  for (const auto& [length_penalty, first] : {std::pair{0.0F, 1U}, {1.0F, 2U}}) {
    BeamSearch search(params_of(2, length_penalty, EarlyStopping::kNever, 2), 1, 3);
    search.advance({{0, kEnd, -3}, {0, 1, -1}, {0, 2, -5}, {0, 3, -9}}, end_of);
    search.advance({{0, kEnd, -4}, {0, 1, -90}, {1, 1, -91}, {1, 2, -92}}, end_of);
    const std::vector<Hypothesis> best = search.take_best();
    ASSERT_EQ(best.size(), 2U);
    EXPECT_EQ(best[0].ids.size(), first);  // -3 / 1 and -4 / 2, or the sums
    EXPECT_EQ(best[0].score, length_penalty == 0 ? -3 : -2);
  }
}

TEST(BeamSearch, MayRunOutOfBeamsAndOfLikelihood) {
  BeamSearch search(params_of(2, 1, EarlyStopping::kNever, 2), 1, 9);
  const double never = -std::numeric_limits<double>::infinity();
  const auto all_end = [](const BeamCandidate&) { return BeamEnd::kStopText; };
  EXPECT_EQ(told(search.advance({{0, 1, never}, {0, 2, never}}, end_of)), "0:1 0:2 ");
  EXPECT_TRUE(search.advance({{0, 1, never}, {1, 2, -1}, {1, 3, never}}, all_end).empty());
  const std::vector<Hypothesis> best = search.take_best();
  ASSERT_EQ(best.size(), 2U);
  EXPECT_EQ(best[0].ids, (std::vector<std::int32_t>{2, 2}));
  EXPECT_EQ(best[1].score, never);
}

// A model of five tokens whose log p depends on the last two. With as many beams as there are
// beginnings the search is exhaustive: what it finds are the best of all texts.
double toy_logprob(const std::vector<std::int32_t>& ids, std::int32_t id) {
  double sum = 0;
  double wanted = 0;
  for (std::int32_t i = 0; i < 3; ++i) {
    const std::int32_t last = ids.empty() ? 3 : ids.back();
    const std::int32_t before = ids.size() < 2 ? 1 : ids[ids.size() - 2];
    const double p = 1 + (7 * i + 5 * last + 3 * before + 2 * i * last) % 11;
    sum += p;
    if (i == id) wanted = p;
  }
  return std::log(wanted / sum);
}

void enumerate(const std::vector<std::int32_t>& ids, double score, double length_penalty,
               std::multimap<double, std::vector<std::int32_t>, std::greater<>>& texts) {
  for (std::int32_t id = 0; id < 3; ++id) {
    std::vector<std::int32_t> longer = ids;
    longer.push_back(id);
    const double sum = score + toy_logprob(ids, id);
    if (id == kEnd || longer.size() == 5) {
      texts.emplace(sum / std::pow(static_cast<double>(longer.size()), length_penalty), longer);
    } else {
      enumerate(longer, sum, length_penalty, texts);
    }
  }
}

TEST(BeamSearch, WithEnoughBeamsItFindsTheBestOfAllTexts) {
  for (const float length_penalty : {-1.0F, 0.0F, 1.0F, 2.0F}) {
    std::multimap<double, std::vector<std::int32_t>, std::greater<>> all;
    enumerate({}, 0, static_cast<double>(length_penalty), all);
    BeamSearch search(params_of(32, length_penalty, EarlyStopping::kNever, 8), 1, 5);
    std::vector<std::vector<std::int32_t>> running = {{}};
    while (!running.empty()) {
      std::vector<BeamCandidate> candidates;
      for (std::size_t b = 0; b < running.size(); ++b) {
        const auto beam = static_cast<std::int32_t>(b);
        for (std::int32_t id = 0; id < 3; ++id) {
          candidates.push_back({beam, id, search.score(beam) + toy_logprob(running[b], id)});
        }
      }
      std::vector<std::vector<std::int32_t>> longer;
      for (const BeamCandidate& candidate : search.advance(std::move(candidates), end_of)) {
        longer.push_back(running[static_cast<std::size_t>(candidate.beam)]);
        longer.back().push_back(candidate.id);
      }
      running = std::move(longer);
    }
    const std::vector<Hypothesis> best = search.take_best();
    ASSERT_EQ(best.size(), 8U);
    auto expected = all.begin();
    for (const Hypothesis& text : best) {
      EXPECT_NEAR(text.score, expected->first, 1e-12);
      ++expected;
    }
    EXPECT_EQ(best[0].ids, all.begin()->second);
  }
}

TEST(BeamParams, OutOfRangeIsRefusedByName) {
  SamplingParams greedy;
  const auto message = [&](const BeamParams& params) {
    const Status status = validate(params, greedy);
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message(params_of(32, -10, EarlyStopping::kNever, 32)), "");
  for (const std::int64_t n : {-1, 0, 33}) {
    EXPECT_NE(message(params_of(n, 1, EarlyStopping::kFalse)).find("num_beams is"),
              std::string::npos);
  }
  for (const float penalty : {10.5F, -11.0F, std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity()}) {
    EXPECT_NE(message(params_of(2, penalty, EarlyStopping::kFalse)).find("length_penalty"),
              std::string::npos);
  }
  EXPECT_NE(message(params_of(2, 1, EarlyStopping::kFalse, 3)).find("n is 3"), std::string::npos);
  EXPECT_NE(message(params_of(1, 1, EarlyStopping::kFalse, 2)).find("n is 2"), std::string::npos);
  greedy.temperature = 0.5F;
  EXPECT_NE(message(params_of(2, 1, EarlyStopping::kFalse)).find("temperature"), std::string::npos);
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(early_stopping_named("never").value_or_throw(), EarlyStopping::kNever);
  EXPECT_FALSE(early_stopping_named("yes"));
}

}  // namespace
}  // namespace munia::decode
