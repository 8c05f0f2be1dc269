#include "tasks/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace munia::tasks {
namespace {

Evaluation small_case() {
  Evaluation evaluation(2);
  for (int i = 0; i < 8; ++i) evaluation.add({0, 0});
  evaluation.add({0, 1});
  evaluation.add({0, 2});
  for (int i = 0; i < 5; ++i) evaluation.add({1, 1});
  return evaluation;
}

TEST(Evaluation, KnownFigures) {
  const Evaluation evaluation = small_case();
  EXPECT_EQ(evaluation.n_rows(), 15);
  EXPECT_EQ(evaluation.n_correct(), 13);
  const LabelFigures first = evaluation.label(0);
  EXPECT_EQ(first.n_wanted, 10);
  EXPECT_DOUBLE_EQ(first.precision(), 1);
  EXPECT_DOUBLE_EQ(first.recall(), 0.8);
  const LabelFigures second = evaluation.label(1);
  EXPECT_DOUBLE_EQ(second.precision(), 5.0 / 6);
  EXPECT_DOUBLE_EQ(second.recall(), 1);
  // F1: 2*8/(10+8) and 2*5/(5+6)
  EXPECT_NEAR(evaluation.macro_f1(), (16.0 / 18 + 10.0 / 11) / 2, 1e-12);
  EXPECT_FALSE(evaluation.has_confidence());
}

TEST(Evaluation, WilsonsInterval) {
  // 8 in 10, a textbook case: 0.4902 to 0.9433.
  const Interval interval = wilson_interval(8, 10);
  EXPECT_NEAR(interval.low, 0.4902, 5e-5);
  EXPECT_NEAR(interval.high, 0.9433, 5e-5);
  EXPECT_EQ(wilson_interval(0, 0).low, 0);
  EXPECT_EQ(wilson_interval(0, 0).high, 1);
}

TEST(Evaluation, MacroF1HasAnIntervalThatShrinksWithRows) {
  const Evaluation few = small_case();
  Evaluation many(2);
  for (int i = 0; i < 100; ++i) {
    for (int j = 0; j < 8; ++j) many.add({0, 0});
    many.add({0, 1});
    many.add({0, 2});
    for (int j = 0; j < 5; ++j) many.add({1, 1});
  }
  const Interval wide = few.macro_f1_interval();
  const Interval narrow = many.macro_f1_interval();
  EXPECT_LT(wide.low, few.macro_f1());
  EXPECT_GE(wide.high, few.macro_f1());
  EXPECT_LT(narrow.low, many.macro_f1());
  EXPECT_GT(narrow.high, many.macro_f1());
  // The spread falls with the root of the rows.
  EXPECT_NEAR((wide.high - wide.low) / (narrow.high - narrow.low), 10, 3);
  EXPECT_EQ(narrow.low, many.macro_f1_interval().low) << "another result for the same rows";
}

TEST(Evaluation, CalibrationError) {
  Evaluation evaluation(2);
  // 0.95 sure and right in 9 of 10; 0.55 sure and right in 1 of 4.
  for (int i = 0; i < 10; ++i) evaluation.add({0, i < 9 ? 0U : 1U, 0.95});
  for (int i = 0; i < 4; ++i) evaluation.add({0, i < 1 ? 0U : 1U, 0.55});
  evaluation.add({1, 1, 1.0});  // the last tenth holds 1
  const auto bins = evaluation.reliability();
  ASSERT_EQ(bins.size(), 2U);
  EXPECT_EQ(bins[0].n_rows, 4);
  EXPECT_DOUBLE_EQ(bins[0].accuracy, 0.25);
  EXPECT_EQ(bins[1].n_rows, 11);
  EXPECT_NEAR(bins[1].confidence, (9.5 + 1) / 11, 1e-12);
  const double last = std::fabs((9.5 + 1) / 11 - 10.0 / 11);
  EXPECT_NEAR(evaluation.calibration_error(), (4 * 0.3 + 11 * last) / 15, 1e-12);
}

TEST(Evaluation, PairedComparison) {
  std::vector<JudgedRow> first;
  std::vector<JudgedRow> second;
  for (std::size_t i = 0; i < 100; ++i) {
    first.push_back({0, i < 70 ? 0U : 1U});             // right in 70
    second.push_back({0, i >= 5 && i < 90 ? 0U : 1U});  // loses 5 of them, gains 20
  }
  const PairedComparison result = compare(first, second);
  EXPECT_EQ(result.only_first_right, 5);
  EXPECT_EQ(result.only_second_right, 20);
  EXPECT_DOUBLE_EQ(result.difference(), 0.15);
  // (15 / 102) -+ 1.96 sqrt(26 - 15^2 / 102) / 102
  const double half = 1.959963984540054 * std::sqrt(26 - 225.0 / 102) / 102;
  EXPECT_NEAR(result.interval().low, 15.0 / 102 - half, 1e-12);
  EXPECT_NEAR(result.interval().high, 15.0 / 102 + half, 1e-12);
  EXPECT_LT(compare(first, first).interval().low, 0);
  EXPECT_GT(compare(first, first).interval().high, 0);
}

}  // namespace
}  // namespace munia::tasks
