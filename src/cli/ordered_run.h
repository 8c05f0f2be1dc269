// Several jobs at once, results in the order of the input: each line is submitted at once and its
// finisher runs when its turn comes. Bounded, so memory does not grow with the input; never waits
// for the next line while results are ready to be shown (a program may send one line at a time).
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "cli/exit_status.h"
#include "cli/input.h"

namespace munia::cli {

class OrderedRun {
 public:
  /// More than an engine computes at once, so that it always has the next job at hand.
  static constexpr std::size_t kMaxPending = 32;

  /// Calls `submit(line)` for each line; it returns the function that waits for the result and
  /// prints it. When a line fails, the results before it are printed first.
  template <class Submit>
  void run(LineReader& reader, const Submit& submit) {
    try {
      for (;;) {
        if (!reader.ready()) drain();
        const std::optional<std::string> line = reader.next_filled();
        if (!line) break;
        if (pending_.size() >= kMaxPending) finish_first();
        pending_.push_back(submit(*line));
      }
    } catch (const CommandFailure&) {
      drain();
      throw;
    }
    drain();
  }

 private:
  void finish_first() {
    const std::function<void()> finish = std::move(pending_.front());
    pending_.pop_front();
    finish();
  }
  void drain() {
    while (!pending_.empty()) finish_first();
  }
  std::deque<std::function<void()>> pending_;
};

}  // namespace munia::cli
