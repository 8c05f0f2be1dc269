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

TEST(Scheduler, EveryStepMovesSomething) {
  for (std::int64_t pending : {1, 2, 33, 1000}) {
    for (bool all_rows : {false, true}) {
      const Shares shares = plan({{pending, all_rows}}, {1, 1});
      EXPECT_EQ(shares[0].first, 1);
    }
  }
}

}  // namespace
}  // namespace munia::engine
