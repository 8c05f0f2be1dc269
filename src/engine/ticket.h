// The engine's side of a submitted job: where its result is left, and whether it is still wanted.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/job.h"

namespace munia::engine {

class EngineTicket : public Ticket {
 public:
  Result<JobResult> wait() override {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return result_.has_value(); });
    return *std::move(result_);
  }
  bool wait_for(std::chrono::milliseconds most) override {
    std::unique_lock lock(mutex_);
    return done_.wait_for(lock, most, [this] { return result_.has_value(); });
  }
  void when_done(std::function<void()> call) override {
    {
      const std::lock_guard lock(mutex_);
      if (!result_) {
        when_done_ = std::move(call);
        return;
      }
    }
    call();
  }
  void cancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  void finish(Result<JobResult> result) {
    std::function<void()> call;
    {
      const std::lock_guard lock(mutex_);
      result_.emplace(std::move(result));
      done_.notify_all();
      call = std::move(when_done_);
    }
    if (call) call();
  }

 private:
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::condition_variable done_;
  std::optional<Result<JobResult>> result_;
  std::function<void()> when_done_;
};

}  // namespace munia::engine
