#include "decode/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace munia::decode {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(TokenLogprob, IsTheLogSoftmax) {
  std::vector<float> logits;
  for (int i = 0; i < 1000; ++i) logits.push_back(static_cast<float>(i * 7919 % 1000) * 0.02F - 9);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  const TokenLogprob token = token_logprob(logits, 17, 5);
  EXPECT_EQ(token.id, 17);
  EXPECT_NEAR(token.logprob, static_cast<double>(logits[17]) - std::log(sum), 1e-12);
  ASSERT_EQ(token.top.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    const auto id = static_cast<std::size_t>(token.top[i].first);
    EXPECT_EQ(logits[id], static_cast<float>(999 - i) * 0.02F - 9);
    EXPECT_NEAR(token.top[i].second, static_cast<double>(logits[id]) - std::log(sum), 1e-12);
  }
}

TEST(TokenLogprob, TiesGoByIdAndBrokenRowsStaySane) {
  const TokenLogprob tied = token_logprob(std::vector<float>{1, 2, 2, 2}, 3, 2);
  EXPECT_EQ(tied.top[0].first, 1);
  EXPECT_EQ(tied.top[1].first, 2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const TokenLogprob broken = token_logprob(std::vector<float>{nan, 0, -kInfinity}, 0, 20);
  EXPECT_EQ(broken.logprob, -std::numeric_limits<double>::infinity());
  ASSERT_EQ(broken.top.size(), 2U);
  EXPECT_EQ(broken.top[0].first, 1);
  EXPECT_NEAR(broken.top[0].second, 0, 1e-15);
  EXPECT_TRUE(std::isinf(token_logprob(std::vector<float>{-kInfinity}, 0, 0).logprob));
  EXPECT_TRUE(std::isinf(token_logprob(std::vector<float>{0}, 7, 0).logprob));
  EXPECT_TRUE(std::isinf(token_logprob(std::vector<float>{0}, -1, 0).logprob));
}

}  // namespace
}  // namespace munia::decode
