#include "server/admission.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace munia::server {
namespace {

constexpr double kNewestShare = 0.2;  // of the newest piece of work in the mean
constexpr int kMaxRetrySeconds = 120;

Clock::duration seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

}  // namespace

void JobScope::stop(ErrorCode why) {
  const std::lock_guard lock(mutex_);
  if (why_) return;
  why_ = why;
  for (const auto& ticket : tickets_) ticket->cancel();
}

bool JobScope::stopped() const {
  const std::lock_guard lock(mutex_);
  return why_.has_value();
}

Error JobScope::reason() const {
  const std::lock_guard lock(mutex_);
  switch (why_.value_or(ErrorCode::kCancelled)) {
    case ErrorCode::kDeadline:
      return {ErrorCode::kDeadline,
              "the request's time ran out before the answer was complete; ask for fewer tokens, or "
              "allow more time (\"timeout\", or the server's --request-timeout)"};
    case ErrorCode::kUnavailable:
      return {ErrorCode::kUnavailable, "the server is shutting down"};
    default:
      return {ErrorCode::kCancelled, "the client left"};
  }
}

void JobScope::track(std::shared_ptr<engine::Ticket> ticket) {
  const std::lock_guard lock(mutex_);
  if (why_) ticket->cancel();
  tickets_.push_back(std::move(ticket));
}

void JobScope::forget(const std::shared_ptr<engine::Ticket>& ticket) {
  const std::lock_guard lock(mutex_);
  std::erase(tickets_, ticket);
}

double predict_wait_seconds(std::size_t n_ahead, int n_free, int parallel, double mean_seconds) {
  const double n_ends_needed = static_cast<double>(n_ahead) + 1 - n_free;
  return n_ends_needed <= 0 ? 0 : n_ends_needed * mean_seconds / std::max(parallel, 1);
}

int retry_after_seconds(double wait_seconds) {
  if (!(wait_seconds < kMaxRetrySeconds)) return kMaxRetrySeconds;
  return std::max(1, static_cast<int>(std::ceil(wait_seconds)));
}

Admission::Admission(const AdmissionOptions& options)
    : options_(options), mean_seconds_(options.expected_seconds) {
  for (int i = 0; i < options_.parallel; ++i) threads_.emplace_back([this] { work_loop(); });
  watcher_ = std::thread([this] { watch_loop(); });
}

Admission::~Admission() {
  stop_all();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  watch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  watcher_.join();
}

Clock::time_point Admission::deadline(Clock::time_point arrived,
                                      std::optional<double> asked_seconds) const {
  const double limit = options_.request_seconds;
  return arrived + seconds(std::min(asked_seconds.value_or(limit), limit));
}

std::optional<ApiError> Admission::submit(Work work) {
  const bool interactive = work.priority == Priority::kInteractive;
  {
    const std::lock_guard lock(mutex_);
    if (draining_) return unavailable_error("the server is shutting down");
    const std::size_t n_waiting = waiting_[0].size() + waiting_[1].size();
    const int n_slots = interactive ? options_.parallel : static_cast<int>(max_bulk());
    int n_free = options_.parallel - static_cast<int>(running_.size());
    if (!interactive) n_free = std::min(n_free, n_slots - static_cast<int>(n_bulk_running_));
    const double wait = predict_wait_seconds(interactive ? waiting_[0].size() : n_waiting, n_free,
                                             n_slots, mean_seconds_);
    // Bulk work takes half of the queue at most: it must not keep interactive requests out.
    const bool full = n_waiting + running_.size() >=
                      static_cast<std::size_t>(options_.parallel) + options_.max_queue;
    const bool bulk_full = !interactive && waiting_[1].size() >= static_cast<std::size_t>(n_free) +
                                                                     (options_.max_queue + 1) / 2;
    if (full || bulk_full) {
      return busy_error("the queue is full: " + std::to_string(n_waiting) +
                            " requests are waiting; try again later",
                        retry_after_seconds(wait));
    }
    const Clock::time_point now = Clock::now();
    const double left = std::chrono::duration<double>(work.scope->deadline() - now).count();
    if (left <= 0) return deadline_error("the request's time ran out before it could start");
    if (const double allowed = std::min(options_.queue_seconds, left); wait > allowed) {
      return busy_error("the wait would be about " + std::to_string(retry_after_seconds(wait)) +
                            " s, longer than the " + std::to_string(static_cast<int>(allowed)) +
                            " s that the request may wait; try again later",
                        retry_after_seconds(wait - allowed));
    }
    waiting_[interactive ? 0 : 1].push_back({std::move(work), now});
  }
  work_ready_.notify_one();
  watch_.notify_one();
  return std::nullopt;
}

void Admission::wake() {
  { const std::lock_guard lock(mutex_); }
  watch_.notify_one();
}

void Admission::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

void Admission::stop_all() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    for (const auto& scope : running_) scope->stop(ErrorCode::kUnavailable);
    for (const auto& queue : waiting_) {
      for (const Waiting& waiting : queue) waiting.work.scope->stop(ErrorCode::kUnavailable);
    }
  }
  watch_.notify_one();
}

bool Admission::wait_idle(double limit_seconds) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, std::chrono::duration<double>(limit_seconds), [this] {
    return waiting_[0].empty() && waiting_[1].empty() && running_.empty();
  });
}

Admission::State Admission::state() const {
  const std::lock_guard lock(mutex_);
  return {waiting_[0].size() + waiting_[1].size(), running_.size(), mean_seconds_};
}

// A piece of bulk work keeps several jobs in the engine by itself: a few fill the machine, and an
// interactive request finds a free slot and a short queue in the engine.
std::size_t Admission::max_bulk() const {
  return static_cast<std::size_t>(std::max(1, options_.parallel / 8));
}

bool Admission::take_locked(Work& work) {
  auto* queue = &waiting_[0];
  if (queue->empty()) {
    queue = &waiting_[1];
    if (queue->empty() || n_bulk_running_ >= max_bulk()) return false;
  }
  work = std::move(queue->front().work);
  queue->pop_front();
  return true;
}

void Admission::work_loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    Work work;
    bool taken = false;
    work_ready_.wait(lock, [&] { return (taken = take_locked(work)) || stopping_; });
    if (!taken) return;
    const bool bulk = work.priority == Priority::kBulk;
    const auto place = running_.insert(running_.end(), work.scope);
    n_bulk_running_ += bulk;
    lock.unlock();
    watch_.notify_one();
    const Clock::time_point begin = Clock::now();
    work.run();
    const double took = seconds_since(begin);
    const bool whole = !work.scope->stopped();
    work = {};
    lock.lock();
    running_.erase(place);
    n_bulk_running_ -= bulk;
    if (whole) {
      mean_seconds_ =
          mean_seconds_ == 0 ? took : (1 - kNewestShare) * mean_seconds_ + kNewestShare * took;
    }
    work_ready_.notify_one();  // bulk work may have waited for this slot
    idle_.notify_all();
  }
}

// Takes out of the queues what was stopped or has waited too long.
void Admission::drop_ended_locked(std::vector<std::function<void()>>& refusals) {
  const Clock::time_point now = Clock::now();
  for (auto& queue : waiting_) {
    std::erase_if(queue, [&](Waiting& waiting) {
      JobScope& scope = *waiting.work.scope;
      ApiError error;
      if (scope.stopped()) {
        error = to_api_error(scope.reason());
      } else if (now >= scope.deadline()) {
        scope.stop(ErrorCode::kDeadline);
        error = deadline_error("the request's time ran out while it waited for its turn");
      } else if (now >= waiting.queued + seconds(options_.queue_seconds)) {
        scope.stop(ErrorCode::kDeadline);
        error = deadline_error("the request waited " +
                               std::to_string(static_cast<int>(options_.queue_seconds)) +
                               " s for its turn, as long as the server allows (--queue-timeout)");
      } else {
        return false;
      }
      refusals.push_back([refuse = std::move(waiting.work.refuse), error] { refuse(error); });
      return true;
    });
  }
}

void Admission::watch_loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_ || !waiting_[0].empty() || !waiting_[1].empty()) {
    std::vector<std::function<void()>> refusals;
    drop_ended_locked(refusals);
    const Clock::time_point now = Clock::now();
    Clock::time_point next = now + std::chrono::hours(1);
    for (const auto& scope : running_) {
      if (scope->stopped()) continue;
      if (now >= scope->deadline()) {
        scope->stop(ErrorCode::kDeadline);
      } else {
        next = std::min(next, scope->deadline());
      }
    }
    for (const auto& queue : waiting_) {
      for (const Waiting& waiting : queue) {
        next = std::min({next, waiting.work.scope->deadline(),
                         waiting.queued + seconds(options_.queue_seconds)});
      }
    }
    if (!refusals.empty()) {
      lock.unlock();
      for (const auto& refuse : refusals) refuse();
      lock.lock();
      idle_.notify_all();
      continue;
    }
    if (stopping_) return;
    watch_.wait_until(lock, next);
  }
}

}  // namespace munia::server
