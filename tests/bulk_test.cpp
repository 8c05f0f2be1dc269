// Many texts on a tiny model: order, equal texts, long texts, errors that stay with their text.
#include "tasks/bulk.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace munia::tasks {
namespace {

constexpr const char* kModel = MUNIA_SOURCE_DIR "/tests/models/qwen2-tied-bf16";

class Bulk : public testing::Test {
 protected:
  Bulk() {
    auto threads = std::make_unique<ThreadPool>(
        ThreadPool::Options{.n_threads = 2, .cpus = {}, .spin_us = 20});
    engine::BundleOptions options;
    options.context = 256;
    auto bundle = engine::load_bundle(kModel, options, *threads);
    engine_ = std::make_unique<engine::Engine>(std::move(bundle), std::move(threads),
                                               engine::EngineOptions{});
    classifier_.emplace(
        Classifier::create(*engine_, builtin_task("sentiment").value_or_throw()).value_or_throw());
  }
  std::vector<Result<BulkOutcome>> label(const std::vector<std::string>& texts,
                                         const BulkOptions& options, std::int64_t* n_repeated) {
    BulkClassifier bulk(*classifier_, options);
    std::vector<Result<BulkOutcome>> outcomes;
    for (const std::string& text : texts) {
      while (!bulk.has_room()) outcomes.push_back(bulk.take());
      bulk.add(text);
    }
    while (!bulk.empty()) outcomes.push_back(bulk.take());
    if (n_repeated != nullptr) *n_repeated = bulk.n_repeated();
    return outcomes;
  }
  std::string repeated(const char* text, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += text;
    return out;
  }
  std::unique_ptr<engine::Engine> engine_;
  std::optional<Classifier> classifier_;
};

TEST_F(Bulk, GivesWhatEachTextGetsAloneInItsOrder) {
  std::vector<std::string> texts;
  for (int i = 0; i < 150; ++i) {
    texts.push_back(repeated("很好 ", i * 7 % 31 + 1) + std::to_string(i % 100));
  }
  texts[70] = " \n";
  for (const std::size_t window : {1, 4, 64, 1000}) {
    std::int64_t n_repeated = 0;
    const auto outcomes = label(texts, {.window = window}, &n_repeated);
    ASSERT_EQ(outcomes.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (i == 70) {
        ASSERT_FALSE(outcomes[i]);
        EXPECT_EQ(outcomes[i].error().code, ErrorCode::kInvalidData);
        continue;
      }
      if (window == 64) {
        const auto alone = classifier_->classify({texts[i]})[0].value_or_throw();
        EXPECT_EQ(outcomes[i]->classification.probabilities, alone.probabilities) << texts[i];
        EXPECT_EQ(outcomes[i]->classification.label, alone.label);
      }
      EXPECT_EQ(outcomes[i]->n_pieces, 1U);
      EXPECT_FALSE(outcomes[i]->truncated);
    }
    EXPECT_EQ(n_repeated, 0);
  }
}

TEST_F(Bulk, EqualTextsAreComputedOnce) {
  const std::vector<std::string> texts = {"好", "坏", "好", "好", "坏", "平"};
  std::int64_t n_repeated = 0;
  (void)label({"暖"}, {}, nullptr);  // the instruction, which stays in the prefix cache
  const std::int64_t before = engine_->stats().n_computed_tokens;
  const auto outcomes = label(texts, {}, &n_repeated);
  const std::int64_t computed = engine_->stats().n_computed_tokens - before;
  EXPECT_EQ(n_repeated, 3);
  EXPECT_EQ(outcomes[0]->classification.probabilities, outcomes[3]->classification.probabilities);
  EXPECT_NE(outcomes[0]->classification.probabilities, outcomes[1]->classification.probabilities);
  // Without room to remember, each is computed again, to the same result.
  const std::int64_t middle = engine_->stats().n_computed_tokens;
  const auto again = label(texts, {.cache_bytes = 0}, &n_repeated);
  EXPECT_EQ(n_repeated, 0);
  EXPECT_GT(engine_->stats().n_computed_tokens - middle, computed);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(again[i]->classification.probabilities, outcomes[i]->classification.probabilities);
  }
  // Room for two texts: the oldest is forgotten.
  (void)label({"一", "二", "三", "一", "三"}, {.cache_bytes = 1100}, &n_repeated);
  EXPECT_EQ(n_repeated, 1);
}

TEST_F(Bulk, LongTextsAreRefusedCutOrTakenInPieces) {
  const std::string good = repeated("今天很好。", 150);
  const std::string text = good + repeated("太糟了！", 150);
  const auto refused = label({"好", text, "坏"}, {}, nullptr);
  EXPECT_TRUE(refused[0] && refused[2]);
  ASSERT_FALSE(refused[1]);
  EXPECT_EQ(refused[1].error().code, ErrorCode::kLimit);

  const auto cut = label({text}, {.long_texts = LongTexts::kTruncate}, nullptr);
  ASSERT_TRUE(cut[0]) << cut[0].error().message;
  EXPECT_TRUE(cut[0]->truncated);
  EXPECT_EQ(cut[0]->n_pieces, 1U);

  const auto pieces = split_to_fit(*classifier_, text, 1000).value_or_throw();
  ASSERT_GT(pieces.size(), 2U);
  std::string joined;
  for (const std::string_view piece : pieces) {
    EXPECT_TRUE(classifier_->check(piece));
    EXPECT_TRUE(piece.ends_with("。") || piece.ends_with("！")) << "not behind a sentence";
    joined += piece;
  }
  EXPECT_EQ(joined, text);
  const auto first = classifier_->classify({std::string(pieces[0])})[0].value_or_throw();
  EXPECT_EQ(cut[0]->classification.probabilities, first.probabilities);

  const auto windows = label({text, "好"}, {.long_texts = LongTexts::kWindow}, nullptr);
  ASSERT_TRUE(windows[0]);
  EXPECT_EQ(windows[0]->n_pieces, pieces.size());
  EXPECT_FALSE(windows[0]->truncated);
  double mean = 0;
  for (const std::string_view piece : pieces) {
    const auto part = classifier_->classify({std::string(piece)})[0].value_or_throw();
    mean += part.probabilities[0].second * static_cast<double>(piece.size());
  }
  EXPECT_NEAR(windows[0]->classification.probabilities[0].second,
              mean / static_cast<double>(text.size()), 1e-12);
  EXPECT_EQ(windows[1]->n_pieces, 1U);
}

TEST_F(Bulk, TextsWithoutSentencesAreCutBetweenCharacters) {
  const std::string text = repeated("好", 2000);
  const auto pieces = split_to_fit(*classifier_, text, 1000).value_or_throw();
  std::size_t size = 0;
  for (const std::string_view piece : pieces) {
    EXPECT_EQ(piece.size() % 3, 0U);
    size += piece.size();
  }
  EXPECT_EQ(size, text.size());
  EXPECT_LT(pieces.size(), 30U) << "pieces are much shorter than they could be";
}

TEST_F(Bulk, WhatIsNotTakenIsCancelled) {
  {
    BulkClassifier bulk(*classifier_, {.window = 4});
    for (int i = 0; i < 8; ++i) bulk.add("第 " + std::to_string(i));
    EXPECT_TRUE(bulk.take());
  }
  // Nothing runs any more: all memory that is in use is the prefix cache's.
  const engine::EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.kv_used_bytes, stats.prefix_cache_bytes);
}

TEST_F(Bulk, AVeryLongTextInWindowsFitsTheQueue) {
  // More pieces than the engine's queue holds jobs.
  const std::string text = repeated("很长的一段话，没有尽头。", 20000);
  const auto windows = label({"好", text, "坏"}, {.long_texts = LongTexts::kWindow}, nullptr);
  for (const auto& outcome : windows) ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_GT(windows[1]->n_pieces, 1024U);
  EXPECT_EQ(windows[2]->n_pieces, 1U);
}

}  // namespace
}  // namespace munia::tasks
