// In front of the engine: at most `parallel` pieces of work run at once, a bounded queue waits,
// interactive before bulk. What would wait too long is refused at once with the time after which to
// try again, computed from the rate of the work done so far. Every piece of work can be stopped at
// any stage: client gone, deadline, shutdown.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "server/errors.h"

namespace munia::server {

using engine::Priority;

/// Stops one piece of work: the tickets that it has submitted, and those to come.
class JobScope {
 public:
  explicit JobScope(Clock::time_point deadline) : deadline_(deadline) {}

  Clock::time_point deadline() const { return deadline_; }
  /// Cancels the tickets tracked so far and each one tracked later. `why` is kCancelled (the client
  /// left), kDeadline or kUnavailable (shutdown); the first one counts.
  void stop(ErrorCode why);
  bool stopped() const;
  /// Why it was stopped, as an Error.
  Error reason() const;
  /// Takes a submitted job; forget() it when it is done.
  void track(std::shared_ptr<engine::Ticket> ticket);
  void forget(const std::shared_ptr<engine::Ticket>& ticket);

 private:
  const Clock::time_point deadline_;
  mutable std::mutex mutex_;
  std::optional<ErrorCode> why_;
  std::vector<std::shared_ptr<engine::Ticket>> tickets_;
};

struct AdmissionOptions {
  int parallel = 16;             // pieces of work that run at once, a thread for each
  std::size_t max_queue = 64;    // pieces that wait; half of them bulk at most
  double queue_seconds = 30;     // longest wait
  double request_seconds = 600;  // from arrival to the last byte
  double expected_seconds = 0;   // of a piece of work, until one has ended; 0: unknown
};

/// When work that arrives now would start: `n_ahead` pieces stand before it, `n_free` of `parallel`
/// slots are free, a piece takes `mean_seconds`.
double predict_wait_seconds(std::size_t n_ahead, int n_free, int parallel, double mean_seconds);
/// Whole seconds for Retry-After, from 1 to 120.
int retry_after_seconds(double wait_seconds);

struct Work {
  Priority priority = Priority::kInteractive;
  std::shared_ptr<JobScope> scope;
  std::function<void()> run;  // on a thread of Admission; must look at the scope when it starts
  std::function<void(const ApiError&)> refuse;  // instead of run(), after a wait
};

class Admission {
 public:
  explicit Admission(const AdmissionOptions& options);
  /// Stops all work and joins.
  ~Admission();
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  const AdmissionOptions& options() const { return options_; }
  /// The deadline of a request that arrived at `arrived` and asks for at most `asked_seconds`.
  Clock::time_point deadline(Clock::time_point arrived, std::optional<double> asked_seconds) const;
  /// Queues the work, or says why not: 429 queue full or wait too long, 503 shutting down. Then
  /// nothing of `work` is called.
  std::optional<ApiError> submit(Work work);
  /// Tells that the scope of waiting work was stopped, so that it leaves the queue now.
  void wake();

  /// From now on submit() refuses. What waits and runs goes on.
  void drain();
  /// Stops all that waits and runs with kUnavailable.
  void stop_all();
  /// True when nothing waits or runs. Waits at most `seconds`.
  bool wait_idle(double seconds);

  struct State {
    std::size_t n_waiting = 0;
    std::size_t n_running = 0;
    double mean_seconds = 0;  // of recent work; 0: none yet
  };
  State state() const;

 private:
  void work_loop();
  void watch_loop();
  std::size_t max_bulk() const;
  bool take_locked(Work& work);
  void drop_ended_locked(std::vector<std::function<void()>>& refusals);

  const AdmissionOptions options_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable work_ready_;
  std::condition_variable watch_;
  std::condition_variable idle_;
  struct Waiting {
    Work work;
    Clock::time_point queued;
  };
  std::deque<Waiting> waiting_[2];  // by Priority
  std::list<std::shared_ptr<JobScope>> running_;
  std::size_t n_bulk_running_ = 0;
  double mean_seconds_ = 0;
  bool draining_ = false;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
  std::thread watcher_;
};

}  // namespace munia::server
