// A reply while it is made: the engine thread puts pieces of text into a queue, Python takes them
// out, by waiting (for) or when a file descriptor becomes readable (async for). The engine thread
// never needs the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "engine/job.h"
#include "python/core.h"

namespace munia::python {

/// Pieces on their way from the engine thread to one reader.
class PieceQueue {
 public:
  PieceQueue() = default;
  ~PieceQueue();
  PieceQueue(const PieceQueue&) = delete;
  PieceQueue& operator=(const PieceQueue&) = delete;

  void push(std::string_view piece);
  void end();
  /// Waits at most 50 ms for a piece or the end.
  bool wait();
  /// The oldest piece that nobody took.
  std::optional<std::string> pop();
  /// True when the reply has ended and every piece was taken.
  bool ended() const;
  /// A file descriptor that is readable while there is a piece, or after the end; -1: the system
  /// has none left. It belongs to the queue.
  int descriptor();

 private:
  void signal_descriptor();  // with the lock

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> pieces_;
  bool ended_ = false;
  int descriptor_ = -1;  // an eventfd, made when first asked for
};

class Stream {
 public:
  /// Submits the job. With the GIL, like everything here.
  Stream(std::shared_ptr<Core> core, engine::GenerateJob job);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// The next piece. None: the reply has ended, or without `wait`: there is none yet. Raises what
  /// ended the reply, unless it was cancel().
  std::optional<std::string> next(bool wait);
  /// True when next() has seen the end: what it gives is at hand then, too.
  bool ended() const { return taken_; }
  int descriptor() const;
  void cancel();
  /// After the end: the whole reply; nothing after cancel() and after an error.
  const std::optional<engine::GenerateResult>& result() const { return result_; }

 private:
  void take_result(Call& call);

  const std::shared_ptr<Core> core_;
  const std::shared_ptr<PieceQueue> queue_;  // shared with the job
  std::shared_ptr<engine::Ticket> ticket_;
  bool cancelled_ = false;
  bool taken_ = false;
  std::optional<engine::GenerateResult> result_;
};

}  // namespace munia::python
