// Admission with work that waits for the test, so that nothing depends on time.
#include "server/admission.h"

#include <gtest/gtest.h>

#include <future>
#include <set>

namespace munia::server {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

TEST(Arithmetic, PredictedWait) {
  EXPECT_EQ(predict_wait_seconds(0, 1, 4, 10), 0);    // a free slot
  EXPECT_EQ(predict_wait_seconds(3, 4, 4, 10), 0);    // one for each before it, and one more
  EXPECT_EQ(predict_wait_seconds(0, 0, 4, 10), 2.5);  // one of four ends every 2.5 s
  EXPECT_EQ(predict_wait_seconds(7, 0, 4, 10), 20);   // the eighth
  EXPECT_EQ(predict_wait_seconds(7, 0, 4, 0), 0);     // no rate known yet
  EXPECT_EQ(predict_wait_seconds(1, 0, 0, 10), 20);   // no division by zero
}

TEST(Arithmetic, RetryAfter) {
  EXPECT_EQ(retry_after_seconds(0), 1);
  EXPECT_EQ(retry_after_seconds(1.2), 2);
  EXPECT_EQ(retry_after_seconds(1e9), 120);
  EXPECT_EQ(retry_after_seconds(std::numeric_limits<double>::quiet_NaN()), 120);
}

class FakeTicket : public engine::Ticket {
 public:
  Result<engine::JobResult> wait() override { return Error{ErrorCode::kCancelled, "cancelled"}; }
  bool wait_for(std::chrono::milliseconds) override { return true; }
  void when_done(std::function<void()> call) override { call(); }
  void cancel() override { cancelled = true; }
  std::atomic<bool> cancelled{false};
};

TEST(Scope, StopsWhatItTracks) {
  JobScope scope(Clock::now() + std::chrono::hours(1));
  const auto early = std::make_shared<FakeTicket>();
  const auto forgotten = std::make_shared<FakeTicket>();
  const auto late = std::make_shared<FakeTicket>();
  scope.track(early);
  scope.track(forgotten);
  scope.forget(forgotten);
  scope.stop(ErrorCode::kDeadline);
  scope.stop(ErrorCode::kCancelled);
  scope.track(late);
  EXPECT_TRUE(early->cancelled);
  EXPECT_FALSE(forgotten->cancelled);
  EXPECT_TRUE(late->cancelled);
  EXPECT_EQ(scope.reason().code, ErrorCode::kDeadline);
}

// Work that runs until let go, and says what became of it.
struct Piece {
  explicit Piece(double seconds = 3600)
      : scope(std::make_shared<JobScope>(
            Clock::now() +
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)))) {}
  Work work(Priority priority, std::vector<int>* order = nullptr, int number = 0) {
    Work out;
    out.priority = priority;
    out.scope = scope;
    out.run = [this, order, number] {
      if (order != nullptr) order->push_back(number);
      started.set_value();
      release.get_future().wait_for(kPatience);
    };
    out.refuse = [this](const ApiError& error) { refused.set_value(error); };
    return out;
  }
  void wait_started() {
    ASSERT_EQ(started.get_future().wait_for(kPatience), std::future_status::ready);
  }
  ApiError wait_refused() {
    auto future = refused.get_future();
    EXPECT_EQ(future.wait_for(kPatience), std::future_status::ready);
    return future.get();
  }
  std::shared_ptr<JobScope> scope;
  std::promise<void> started, release;
  std::promise<ApiError> refused;
};

TEST(Admission, QueueIsBounded) {
  Piece pieces[4];
  Admission admission({1, 2, 3600, 3600});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(admission.submit(pieces[i].work(Priority::kInteractive))) << i;
  }
  const auto refused = admission.submit(pieces[3].work(Priority::kInteractive));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 429);
  EXPECT_EQ(refused->headers, (Fields{{"retry-after", "1"}}));  // no rate known yet
  pieces[0].wait_started();
  EXPECT_EQ(admission.state().n_running, 1U);
  EXPECT_EQ(admission.state().n_waiting, 2U);
  for (Piece& piece : pieces) piece.release.set_value();
  EXPECT_TRUE(admission.wait_idle(60));
}

TEST(Admission, InteractiveFirst) {
  Piece first;
  Piece bulk;
  Piece interactive;
  std::vector<int> order;
  Admission admission({1, 8, 3600, 3600});
  ASSERT_FALSE(admission.submit(first.work(Priority::kInteractive, &order, 0)));
  first.wait_started();
  ASSERT_FALSE(admission.submit(bulk.work(Priority::kBulk, &order, 1)));
  ASSERT_FALSE(admission.submit(interactive.work(Priority::kInteractive, &order, 2)));
  for (Piece* piece : {&first, &bulk, &interactive}) piece->release.set_value();
  ASSERT_TRUE(admission.wait_idle(60));
  EXPECT_EQ(order, (std::vector<int>{0, 2, 1}));
}

TEST(Admission, BulkLeavesSlotsFree) {
  Piece bulk[4];
  Piece interactive;
  Admission admission({4, 8, 3600, 3600});
  for (Piece& piece : bulk) ASSERT_FALSE(admission.submit(piece.work(Priority::kBulk)));
  bulk[0].wait_started();
  ASSERT_FALSE(admission.submit(interactive.work(Priority::kInteractive)));
  interactive.wait_started();
  EXPECT_EQ(admission.state().n_waiting, 3U);  // the other slots are not for bulk work
  interactive.release.set_value();
  for (Piece& piece : bulk) piece.release.set_value();
  EXPECT_TRUE(admission.wait_idle(60));
}

TEST(Admission, BulkNeitherFillsTheQueueNorCountsSlotsThatItCannotHave) {
  Piece bulk[5];
  Piece interactive[4];
  Admission admission({2, 4, 30, 3600, 40});  // a piece takes 40 s, and 30 s may be waited
  ASSERT_FALSE(admission.submit(bulk[0].work(Priority::kBulk)));
  bulk[0].wait_started();
  const auto refused = admission.submit(bulk[1].work(Priority::kBulk));
  ASSERT_TRUE(refused) << "one slot is free, but not for bulk work";
  EXPECT_EQ(refused->status, 429);
  bulk[0].release.set_value();
  ASSERT_TRUE(admission.wait_idle(60));

  Admission quick({2, 4, 3600, 3600});
  for (int i = 1; i < 4; ++i) ASSERT_FALSE(quick.submit(bulk[i].work(Priority::kBulk))) << i;
  bulk[1].wait_started();
  const auto too_many = quick.submit(bulk[4].work(Priority::kBulk));
  ASSERT_TRUE(too_many);
  EXPECT_EQ(too_many->status, 429);
  for (Piece& piece : interactive) {
    if (&piece == &interactive[3]) break;
    EXPECT_FALSE(quick.submit(piece.work(Priority::kInteractive)));
  }
  EXPECT_TRUE(quick.submit(interactive[3].work(Priority::kInteractive)));
  for (int i = 1; i < 4; ++i) bulk[i].release.set_value();
  for (int i = 0; i < 3; ++i) interactive[i].release.set_value();
  EXPECT_TRUE(quick.wait_idle(60));
}

TEST(Admission, StoppedWorkLeavesTheQueue) {
  Piece first;
  Piece waiting;
  Admission admission({1, 8, 3600, 3600});
  ASSERT_FALSE(admission.submit(first.work(Priority::kInteractive)));
  first.wait_started();
  ASSERT_FALSE(admission.submit(waiting.work(Priority::kInteractive)));
  waiting.scope->stop(ErrorCode::kCancelled);
  admission.wake();
  EXPECT_EQ(waiting.wait_refused().status, 499);
  EXPECT_EQ(admission.state().n_waiting, 0U);
  first.release.set_value();
}

TEST(Admission, WaitHasALimit) {
  Piece first;
  Piece waiting;
  Admission admission({1, 8, 2, 3600});
  ASSERT_FALSE(admission.submit(first.work(Priority::kInteractive)));
  first.wait_started();
  ASSERT_FALSE(admission.submit(waiting.work(Priority::kInteractive)));
  EXPECT_EQ(waiting.wait_refused().code, "deadline_exceeded");
  first.release.set_value();
}

TEST(Admission, NothingStartsBehindItsDeadline) {
  Piece late(-1);
  Admission admission({1, 8, 3600, 3600});
  const auto refused = admission.submit(late.work(Priority::kInteractive));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->headers, (Fields{{"x-should-retry", "false"}}));
}

TEST(Admission, RunningWorkIsStoppedAtItsDeadline) {
  Piece piece(2);
  const auto ticket = std::make_shared<FakeTicket>();
  piece.scope->track(ticket);
  Admission admission({1, 8, 3600, 3600});
  ASSERT_FALSE(admission.submit(piece.work(Priority::kInteractive)));
  while (!ticket->cancelled) std::this_thread::yield();
  EXPECT_EQ(piece.scope->reason().code, ErrorCode::kDeadline);
  piece.release.set_value();
}

TEST(Admission, RefusesAtOnceWhatWouldWaitTooLong) {
  Piece running;
  Piece next;
  Admission admission({1, 8, 30, 3600, 100});  // a piece takes 100 s, and 30 s may be waited
  ASSERT_FALSE(admission.submit(running.work(Priority::kInteractive)));
  running.wait_started();
  const auto refused = admission.submit(next.work(Priority::kInteractive));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 429);
  EXPECT_EQ(refused->headers, (Fields{{"retry-after", "70"}}));
  running.release.set_value();
  ASSERT_TRUE(admission.wait_idle(60));
  EXPECT_LT(admission.state().mean_seconds, 100);  // the rate is learnt
}

TEST(Admission, DrainRefusesAndFinishes) {
  Piece running;
  Piece late;
  Admission admission({1, 8, 3600, 3600});
  ASSERT_FALSE(admission.submit(running.work(Priority::kInteractive)));
  admission.drain();
  const auto refused = admission.submit(late.work(Priority::kInteractive));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 503);
  EXPECT_FALSE(admission.wait_idle(0.01));
  running.release.set_value();
  EXPECT_TRUE(admission.wait_idle(60));
}

TEST(Admission, StopAllStopsTheWaitingAndTheRunning) {
  Piece running;
  Piece waiting;
  Admission admission({1, 8, 3600, 3600});
  ASSERT_FALSE(admission.submit(running.work(Priority::kInteractive)));
  running.wait_started();
  ASSERT_FALSE(admission.submit(waiting.work(Priority::kInteractive)));
  admission.stop_all();
  EXPECT_EQ(waiting.wait_refused().code, "unavailable");
  EXPECT_EQ(running.scope->reason().code, ErrorCode::kUnavailable);
  running.release.set_value();
}

}  // namespace
}  // namespace munia::server
