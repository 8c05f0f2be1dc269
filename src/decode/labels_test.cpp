#include "decode/labels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "decode/random.h"

namespace munia::decode {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using Labels = std::vector<LabelTokens>;

// Any log-probabilities, fixed per path, so that trees of different label orders can be compared.
double logprob_of(const std::vector<std::int32_t>& path) {
  std::uint64_t state = 17;
  for (const std::int32_t token : path) {
    state = Xoshiro256::splitmix64(state) + static_cast<std::uint64_t>(token);
  }
  return std::log(Xoshiro256(state).next_double()) * 3;
}

std::vector<double> fill(const LabelTree& tree) {
  std::vector<double> logprobs(tree.nodes().size(), 12345.0);  // the root's must not count
  for (std::size_t i = 1; i < logprobs.size(); ++i) {
    std::vector<std::int32_t> path;
    for (std::int32_t node = static_cast<std::int32_t>(i); node > 0;
         node = tree.nodes()[static_cast<std::size_t>(node)].parent) {
      path.insert(path.begin(), tree.nodes()[static_cast<std::size_t>(node)].token);
    }
    logprobs[i] = logprob_of(path);
  }
  return logprobs;
}

TEST(LabelTree, PlainLogitsGiveTheProbabilitiesOfLogSoftmax) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Labels labels{{{0}}, {{2}}, {{3}, {5}}};
  const LabelTree tree = LabelTree::build(labels).value_or_throw();
  const auto probabilities = [&](const std::vector<float>& logits, bool plain) {
    std::vector<double> logprobs(tree.nodes().size());
    if (plain) {
      tree.set_child_logits(LabelTree::kRoot, logits, logprobs);
    } else {
      tree.set_child_logprobs(LabelTree::kRoot, logits, logprobs);
    }
    return tree.score(logprobs).probabilities;
  };
  const std::vector<std::vector<float>> rows = {
      {1.5F, 9.0F, -2.25F, 0.125F, 3.0F, 1.0F},
      {1e4F, 0.0F, 9999.5F, -1e4F, 0.0F, 3.0F},
      {1.0F, 0.0F, std::nanf(""), 2.0F, 0.0F, -kInfinity},
      {1.0F, 0.0F, kInfinity, 2.0F, 0.0F, kInfinity},
      {-kInfinity, 0.0F, std::nanf(""), -kInfinity, 0.0F, -kInfinity}};
  for (const std::vector<float>& row : rows) {
    const std::vector<double> whole = probabilities(row, false);
    const std::vector<double> plain = probabilities(row, true);
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(plain[i], whole[i], 1e-14);
  }
}

TEST(LabelTree, SharesBeginnings) {
  // 7 8 | 7 9 | 7 9 9 | 3
  const Labels labels{{{7, 8}, {7, 9}}, {{7, 9, 9}}, {{3}}};
  const auto tree = LabelTree::build(labels);
  ASSERT_TRUE(tree.ok());
  ASSERT_EQ(tree->nodes().size(), 6U);
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> parents;
  std::vector<std::int32_t> depths;
  for (const LabelNode& node : tree->nodes()) {
    tokens.push_back(node.token);
    parents.push_back(node.parent);
    depths.push_back(node.depth);
  }
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{-1, 3, 7, 8, 9, 9}));
  EXPECT_EQ(parents, (std::vector<std::int32_t>{-1, 0, 0, 2, 2, 4}));
  EXPECT_EQ(depths, (std::vector<std::int32_t>{0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(tree->nodes()[0].children, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(tree->nodes()[2].children, (std::vector<std::int32_t>{3, 4}));
  EXPECT_EQ(tree->nodes_to_run(), (std::vector<std::int32_t>{2, 4}));
  EXPECT_EQ(tree->n_labels(), 3);
  EXPECT_TRUE(tree->is_on_every_path(LabelTree::kRoot));
  EXPECT_FALSE(tree->is_on_every_path(2));
}

TEST(LabelTree, OneTokenLabelsNeedNoRun) {
  const Labels labels{{{5}}, {{6}}, {{7}}};
  EXPECT_TRUE(LabelTree::build(labels)->nodes_to_run().empty());
}

TEST(LabelTree, AddsUpAsWrittenInFull) {
  const Labels labels{{{7, 8}, {7, 9}}, {{7, 9, 9}}, {{3}}};
  const auto tree = LabelTree::build(labels);
  const LabelScores scores = tree->score(fill(*tree));
  std::vector<double> sums;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    double sum = 0;
    for (std::size_t k = 0; k < labels[i].size(); ++k) {
      double logprob = 0;
      std::vector<std::int32_t> path;
      for (const std::int32_t token : labels[i][k]) {
        path.push_back(token);
        logprob += logprob_of(path);
      }
      EXPECT_NEAR(scores.text_logprobs[i][k], logprob, 1e-12);
      sum += std::exp(logprob);
    }
    EXPECT_NEAR(scores.label_logprobs[i], std::log(sum), 1e-12);
    sums.push_back(sum);
  }
  const double total = std::accumulate(sums.begin(), sums.end(), 0.0);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    EXPECT_NEAR(scores.probabilities[i], sums[i] / total, 1e-12);
  }
}

// demands.md row 38: the order of the labels changes nothing, not even a bit.
TEST(LabelTree, PermutingLabelsAndTextsChangesNoBit) {
  Xoshiro256 random(3);
  Labels labels(6);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    for (int k = 0; k < 12; ++k) {
      std::vector<std::int32_t> text;
      for (int n = 0; n < 3; ++n) text.push_back(static_cast<std::int32_t>(random.next() % 7));
      text.push_back(static_cast<std::int32_t>(100 + i));  // no text in two labels
      labels[i].push_back(text);
    }
  }
  const auto tree = LabelTree::build(labels);
  ASSERT_TRUE(tree.ok());
  const LabelScores expected = tree->score(fill(*tree));
  std::vector<std::size_t> order{0, 1, 2, 3, 4, 5};
  std::size_t n_permuted = 0;
  do {
    ++n_permuted;
    Labels permuted;
    for (const std::size_t i : order) {
      permuted.push_back(labels[i]);
      std::rotate(permuted.back().begin(),
                  permuted.back().begin() + static_cast<std::ptrdiff_t>(n_permuted % 12),
                  permuted.back().end());
    }
    const auto other = LabelTree::build(permuted);
    const LabelScores scores = other->score(fill(*other));
    for (std::size_t i = 0; i < order.size(); ++i) {
      ASSERT_EQ(scores.probabilities[i], expected.probabilities[order[i]]);
      ASSERT_EQ(scores.label_logprobs[i], expected.label_logprobs[order[i]]);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(LabelTree, TakesLogSoftmaxOfARow) {
  const Labels labels{{{0}}, {{2}}, {{9}}};
  const auto tree = LabelTree::build(labels);
  const auto logprobs_of = [&](const std::vector<float>& logits) {
    std::vector<double> logprobs(tree->nodes().size(), 1.0);
    tree->set_child_logprobs(LabelTree::kRoot, logits, logprobs);
    return std::vector<double>(logprobs.begin() + 1, logprobs.end());
  };
  const auto plain = logprobs_of({1, 2, 3});
  const double log_sum = std::log(std::exp(1) + std::exp(2) + std::exp(3));
  EXPECT_NEAR(plain[0], 1 - log_sum, 1e-14);
  EXPECT_NEAR(plain[1], 3 - log_sum, 1e-14);
  EXPECT_EQ(plain[2], -kInf);  // no such token
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_NEAR(logprobs_of({1, nan, 1})[0], -std::log(2.0), 1e-14);
  EXPECT_EQ(logprobs_of({nan, 1, 1})[0], -kInf);
  EXPECT_EQ(logprobs_of({nan, nan, nan})[1], -kInf);
  EXPECT_EQ(logprobs_of({-inf, -inf, -inf})[1], -kInf);
  EXPECT_EQ(logprobs_of({inf, 0, 1})[0], 0);
  EXPECT_EQ(logprobs_of({inf, 0, 1})[1], -kInf);
}

TEST(LabelTree, LogSoftmaxOfALargeRowIsExact) {
  constexpr std::size_t kVocab = 151936;
  Xoshiro256 random(11);
  std::vector<float> logits(kVocab);
  for (float& logit : logits) logit = static_cast<float>(random.next_double() * 30 - 15);
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
  const auto tree = LabelTree::build(Labels{{{151935}}, {{77}}});
  std::vector<double> logprobs(3);
  tree->set_child_logprobs(LabelTree::kRoot, logits, logprobs);
  const auto expected = [&](std::size_t id) {
    return static_cast<double>(static_cast<long double>(logits[id]) - std::log(sum));
  };
  EXPECT_NEAR(logprobs[1], expected(77), 1e-12);
  EXPECT_NEAR(logprobs[2], expected(151935), 1e-12);
}

// Where every text passes a node, its normalizer cancels: plain logits give the same probabilities.
TEST(LabelTree, SharedNodesNeedNoNormalizer) {
  const Labels labels{{{4, 1}}, {{4, 2}}, {{4, 3}}};
  const auto tree = LabelTree::build(labels);
  EXPECT_TRUE(tree->is_on_every_path(1));
  EXPECT_FALSE(tree->is_on_every_path(2));
  const std::vector<float> logits{5, 1, 2, 3, -4, 9};
  std::vector<double> full(tree->nodes().size());
  std::vector<double> plain(tree->nodes().size());
  for (const std::int32_t node : {0, 1}) {
    tree->set_child_logprobs(node, logits, full);
    for (const std::int32_t child : tree->nodes()[static_cast<std::size_t>(node)].children) {
      const auto i = static_cast<std::size_t>(child);
      plain[i] = static_cast<double>(logits[static_cast<std::size_t>(tree->nodes()[i].token)]);
    }
  }
  const auto expected = tree->score(full).probabilities;
  const auto actual = tree->score(plain).probabilities;
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(actual[i], expected[i], 1e-14);
}

TEST(LabelTree, ScoresWithoutProbabilityAreEven) {
  const auto tree = LabelTree::build(Labels{{{1}}, {{2}}});
  EXPECT_EQ(tree->score(std::vector<double>{0, -kInf, std::nan("")}).probabilities,
            (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(tree->score(std::vector<double>{0, -kInf, -2000}).probabilities,
            (std::vector<double>{0, 1}));
  // Far below the smallest double, yet compared rightly.
  const auto far = tree->score(std::vector<double>{0, -5000, -5000 + std::log(3)}).probabilities;
  EXPECT_NEAR(far[1], 0.75, 1e-12);
}

TEST(LabelTree, CountsATextWrittenTwiceOnce) {
  const auto tree = LabelTree::build(Labels{{{1}, {1}}, {{2}}});
  EXPECT_EQ(tree->score(std::vector<double>{0, -1, -1}).probabilities,
            (std::vector<double>{0.5, 0.5}));
}

TEST(LabelTree, RefusesWhatCannotBeScored) {
  const auto message = [](const Labels& labels) {
    const auto tree = LabelTree::build(labels);
    return tree.ok() ? std::string("built") : tree.error().message;
  };
  EXPECT_EQ(message({}), "there are no labels; name at least one");
  EXPECT_EQ(message({{{1}}, {}}), "label 2 has no text; give it one");
  EXPECT_EQ(message({{{1}, {}}}), "a text of label 1 has no tokens; it is empty");
  EXPECT_EQ(message({{{1}}, {{2}}, {{3}, {1}}}),
            "labels 1 and 3 have the same text; every text belongs to one label");
  EXPECT_NE(message({{std::vector<std::int32_t>((1 << 20) + 1, 5)}}).find("1048577 tokens"),
            std::string::npos);
}

TEST(LabelTree, FindsBeginningsAndEndsThem) {
  EXPECT_FALSE(any_is_prefix(Labels{{{1, 2}}, {{1, 3}}, {{2}}}));
  EXPECT_FALSE(any_is_prefix(Labels{{{1, 2}}, {{1, 2}}}));
  EXPECT_FALSE(any_is_prefix(Labels{}));
  EXPECT_TRUE(any_is_prefix(Labels{{{1, 2, 3}}, {{5}}, {{1}}}));
  EXPECT_TRUE(any_is_prefix(Labels{{{1}, {1, 9}}}));
  // The longer one does not follow at once: 1 | 1 0 | 1 0 5 | 1 2
  Labels labels{{{1, 2}}, {{1, 0, 5}}, {{1}}, {{1, 0}}};
  EXPECT_TRUE(any_is_prefix(labels));
  append_token(labels, 999);
  EXPECT_FALSE(any_is_prefix(labels));
  EXPECT_EQ(labels[2], (LabelTokens{{1, 999}}));
}

}  // namespace
}  // namespace munia::decode
