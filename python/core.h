// A loaded model as the Python objects share it: who may use it, and how they wait for its jobs.
// Calls from any number of threads; none holds the GIL while it waits, and each sees Ctrl-C and
// close() within a twentieth of a second (but for the prompt of a task that is used for the first
// time, and for learning a head from what was read). Knows no Python values beside exceptions.
#pragma once

#include <nanobind/nanobind.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "python/errors.h"
#include "tasks/classify.h"

namespace munia::python {

using TaskPtr = std::shared_ptr<const tasks::Task>;
using ClassifierPtr = std::shared_ptr<const tasks::Classifier>;

/// Weights, engine and what is prepared for tasks; lives until the last call has ended.
class Loaded {
 public:
  Loaded(std::shared_ptr<const engine::ModelBundle> of, std::unique_ptr<ThreadPool> pool,
         const engine::EngineOptions& options)
      : n_threads(pool->n_threads()),
        bundle(std::move(of)),
        engine(bundle, std::move(pool), options) {}

  const int n_threads;
  const std::shared_ptr<const engine::ModelBundle> bundle;
  engine::Engine engine;

  /// The task prepared for this model; the last few are kept.
  Result<ClassifierPtr> classifier(const TaskPtr& task);

 private:
  std::mutex mutex_;
  std::vector<std::pair<TaskPtr, ClassifierPtr>> classifiers_;  // the last used is the last
};

class Core {
 public:
  explicit Core(std::unique_ptr<Loaded> loaded);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  /// Ends what is running, as if it were cancelled, and frees the model. Waits for the calls of
  /// other threads. Any number of times; does nothing in a forked child. With the GIL.
  void close();
  bool closed() const { return closing_; }

 private:
  friend class Call;
  std::shared_ptr<Loaded> enter();
  void leave();

  const pid_t pid_;
  std::atomic<bool> closing_{false};
  std::mutex mutex_;
  std::condition_variable idle_;
  int n_calls_ = 0;
  std::shared_ptr<Loaded> loaded_;  // in a forked child never freed: its threads are not there
};

/// One use of a model by one thread. Made and destroyed with the GIL; what stands between may run
/// without.
class Call {
 public:
  /// Raises ModelError when the model was closed, or loaded before a fork.
  explicit Call(Core& core) : core_(core), loaded_(core.enter()) {}
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Loaded* operator->() const { return loaded_.get(); }

  /// Without the GIL: blocks until the job has ended, or cancels it because of a signal or close().
  void wait(engine::Ticket& ticket);
  tasks::BeforeWait before_wait() {
    return [this](engine::Ticket& ticket) { wait(ticket); };
  }
  /// Without the GIL: true when the call must end, because of close() or of a signal whose handler
  /// raised (Ctrl-C).
  bool must_stop();
  /// With the GIL: raises what ended the call, if anything did.
  void raise_if_stopped();
  /// With the GIL: the value, or raises.
  template <class T>
  T take(Result<T> result) {
    raise_if_stopped();
    return python::take(std::move(result));
  }

 private:
  Core& core_;
  std::shared_ptr<Loaded> loaded_;
  bool stopped_ = false;
  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
  std::optional<nanobind::python_error> signal_;  // what a signal's handler raised
};

/// Submits and waits without the GIL; the job's own kind of result. With the GIL.
template <class ResultOfKind>
ResultOfKind run_job(Call& call, engine::Job job) {
  std::optional<Result<engine::JobResult>> result;
  {
    const nanobind::gil_scoped_release release;
    const auto ticket = call->engine.submit(std::move(job));
    if (ticket) {
      call.wait(**ticket);
      result.emplace((*ticket)->wait());
    } else {
      result.emplace(ticket.error());
    }
  }
  return std::get<ResultOfKind>(call.take(*std::move(result)));
}

}  // namespace munia::python
