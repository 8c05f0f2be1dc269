#include "engine/scheduler.h"

#include <gtest/gtest.h>

namespace munia::engine {
namespace {

using Shares = std::vector<std::pair<std::int64_t, std::int64_t>>;

Shares plan(std::vector<SequenceDemand> demands, StepLimits limits) {
  Shares out;
  for (const StepShare& share : plan_step(demands, limits)) {
    out.emplace_back(share.n_tokens, share.n_logit_rows);
  }
  return out;
}

TEST(Scheduler, DecodingComesBeforeAnEarlierPrompt) {
  EXPECT_EQ(plan({{100, false}, {1, false}, {1, false}}, {10, 8}),
            (Shares{{8, 0}, {1, 1}, {1, 1}}));
}

TEST(Scheduler, PromptsShareTheRestInOrderOfArrival) {
  EXPECT_EQ(plan({{6, false}, {6, false}, {6, false}}, {10, 8}), (Shares{{6, 1}, {4, 0}, {0, 0}}));
}

TEST(Scheduler, AllRowsAreBoundedByLogitRows) {
  EXPECT_EQ(plan({{100, true}, {1, false}}, {512, 8}), (Shares{{7, 7}, {1, 1}}));
}

TEST(Scheduler, WithoutALogitRowTheLastTokenWaits) {
  EXPECT_EQ(plan({{1, false}, {1, false}, {5, false}}, {512, 2}), (Shares{{1, 1}, {1, 1}, {4, 0}}));
  EXPECT_EQ(plan({{1, false}, {1, false}, {1, false}}, {512, 2}), (Shares{{1, 1}, {1, 1}, {0, 0}}));
}

TEST(Scheduler, PromptsArePiecesBesideReplies) {
  const StepLimits limits{.max_tokens = 512, .max_prompt_beside_replies = 40};
  EXPECT_EQ(plan({{300}, {1}, {1}}, limits), (Shares{{40, 0}, {1, 1}, {1, 1}}));
  EXPECT_EQ(plan({{300}, {2}}, limits), (Shares{{300, 1}, {2, 1}}));
}

TEST(Scheduler, BulkGivesWay) {
  const StepLimits limits{
      .max_tokens = 100, .max_prompt_beside_replies = 90, .max_bulk_beside_interactive = 10};
  const SequenceDemand bulk{.n_pending = 50, .is_bulk = true};
  const SequenceDemand bulk_reply{.n_pending = 1, .is_bulk = true};
  EXPECT_EQ(plan({bulk, bulk}, limits), (Shares{{50, 1}, {50, 1}}));
  EXPECT_EQ(plan({bulk, bulk_reply, bulk}, limits), (Shares{{50, 1}, {1, 1}, {49, 0}}));
  EXPECT_EQ(plan({bulk, bulk_reply, {1}}, limits), (Shares{{10, 0}, {1, 1}, {1, 1}}));
  EXPECT_EQ(plan({bulk, {30}}, limits), (Shares{{10, 0}, {30, 1}}));
  EXPECT_EQ(plan({bulk, {200}}, limits), (Shares{{0, 0}, {100, 0}}));
}

TEST(Scheduler, EveryStepMovesSomething) {
  for (std::int64_t pending : {1, 2, 33, 1000}) {
    for (bool all_rows : {false, true}) {
      for (bool is_bulk : {false, true}) {
        const Shares shares = plan({{pending, all_rows, is_bulk}}, {1, 1});
        EXPECT_EQ(shares[0].first, 1);
      }
    }
  }
}

}  // namespace
}  // namespace munia::engine
