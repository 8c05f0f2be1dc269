#include "python/stream.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>

namespace munia::python {
namespace {

namespace nb = nanobind;

constexpr std::chrono::milliseconds kPoll{50};

/// In a forked child the queue's waiters are not there to leave it, so it is not destroyed.
std::shared_ptr<PieceQueue> make_queue() {
  return {new PieceQueue, [pid = getpid()](PieceQueue* owned) {
            if (pid == getpid()) delete owned;
          }};
}

}  // namespace

PieceQueue::~PieceQueue() {
  if (descriptor_ >= 0) close(descriptor_);
}

void PieceQueue::signal_descriptor() {
  if (descriptor_ < 0) return;
  const std::uint64_t one = 1;
  // It fails only where the counter is full, and then it is readable already.
  [[maybe_unused]] const auto n = write(descriptor_, &one, sizeof one);
}

void PieceQueue::push(std::string_view piece) {
  const std::lock_guard lock(mutex_);
  pieces_.emplace_back(piece);
  signal_descriptor();
  changed_.notify_all();
}

void PieceQueue::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  signal_descriptor();
  changed_.notify_all();
}

bool PieceQueue::wait() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPoll, [this] { return ended_ || !pieces_.empty(); });
}

std::optional<std::string> PieceQueue::pop() {
  const std::lock_guard lock(mutex_);
  if (pieces_.empty()) return std::nullopt;
  std::string piece = std::move(pieces_.front());
  pieces_.pop_front();
  if (pieces_.empty() && !ended_ && descriptor_ >= 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = read(descriptor_, &count, sizeof count);
  }
  return piece;
}

bool PieceQueue::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_ && pieces_.empty();
}

int PieceQueue::descriptor() {
  const std::lock_guard lock(mutex_);
  if (descriptor_ >= 0) return descriptor_;
  descriptor_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (ended_ || !pieces_.empty()) signal_descriptor();
  return descriptor_;
}

Stream::Stream(std::shared_ptr<Core> core, engine::GenerateJob job)
    : core_(std::move(core)), queue_(make_queue()) {
  job.on_text = [queue = queue_](std::string_view piece) { queue->push(piece); };
  Call call(*core_);
  ticket_ = call.take(call->engine.submit(std::move(job)));
  ticket_->when_done([queue = queue_] { queue->end(); });
}

Stream::~Stream() {
  if (ticket_ != nullptr) ticket_->cancel();
}

int Stream::descriptor() const {
  const Call call(*core_);
  const int descriptor = queue_->descriptor();
  if (descriptor >= 0) return descriptor;
  PyErr_SetFromErrno(PyExc_OSError);
  throw nb::python_error();
}

void Stream::cancel() {
  cancelled_ = true;
  ticket_->cancel();
}

std::optional<std::string> Stream::next(bool wait) {
  if (taken_) return std::nullopt;
  Call call(*core_);
  if (wait) {
    const nb::gil_scoped_release release;
    while (!queue_->wait() && !call.must_stop()) {
    }
  }
  call.raise_if_stopped();
  std::optional<std::string> piece = queue_->pop();
  if (!piece && queue_->ended()) take_result(call);
  return piece;
}

void Stream::take_result(Call& call) {
  if (taken_) return;
  taken_ = true;
  Result<engine::JobResult> result = ticket_->wait();  // has ended
  if (!result && cancelled_ && result.error().code == ErrorCode::kCancelled) return;
  result_ = std::get<engine::GenerateResult>(call.take(std::move(result)));
}

}  // namespace munia::python
