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
  void cancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  void finish(Result<JobResult> result) {
    const std::lock_guard lock(mutex_);
    result_.emplace(std::move(result));
    done_.notify_all();
  }

 private:
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::condition_variable done_;
  std::optional<Result<JobResult>> result_;
};

}  // namespace munia::engine
