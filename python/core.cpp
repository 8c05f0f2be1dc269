#include "python/core.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace munia::python {
namespace {

namespace nb = nanobind;

constexpr std::chrono::milliseconds kPoll{50};  // how late a signal or close() is seen
constexpr std::size_t kKeptClassifiers = 16;    // each pins its instruction in the prefix cache

thread_local int calls_of_this_thread = 0;

}  // namespace

Result<ClassifierPtr> Loaded::classifier(const TaskPtr& task) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(classifiers_.begin(), classifiers_.end(),
                                  [&](const auto& entry) { return entry.first == task; });
  if (found != classifiers_.end()) {
    std::rotate(found, found + 1, classifiers_.end());
    return classifiers_.back().second;
  }
  MUNIA_ASSIGN_OR_RETURN(tasks::Classifier made, tasks::Classifier::create(engine, *task));
  if (classifiers_.size() == kKeptClassifiers) classifiers_.erase(classifiers_.begin());
  classifiers_.emplace_back(task, std::make_shared<const tasks::Classifier>(std::move(made)));
  return classifiers_.back().second;
}

Core::Core(std::unique_ptr<Loaded> loaded)
    : pid_(getpid()), loaded_(loaded.release(), [pid = pid_](Loaded* owned) {
        if (pid == getpid()) delete owned;
      }) {}

Core::~Core() {
  if (pid_ != getpid()) return;
  loaded_.reset();
}

std::shared_ptr<Loaded> Core::enter() {
  if (const pid_t here = getpid(); here != pid_) {
    raise_model_error("this model was loaded by process " + std::to_string(pid_) +
                      ", and process " + std::to_string(here) +
                      " was forked from it, which does not copy the model's threads; load the "
                      "model in the child, or start processes by \"spawn\"");
  }
  const std::lock_guard lock(mutex_);
  if (loaded_ == nullptr || closing_) {
    raise_model_error("the model was closed; load it again");
  }
  ++n_calls_;
  ++calls_of_this_thread;
  return loaded_;
}

void Core::leave() {
  const std::lock_guard lock(mutex_);
  --n_calls_;
  --calls_of_this_thread;
  idle_.notify_all();
}

void Core::close() {
  if (pid_ != getpid()) return;
  closing_ = true;
  // A signal's handler that closes the model runs within the call that it interrupts: that call
  // frees the model when it ends.
  const bool within_a_call = calls_of_this_thread > 0;
  const nb::gil_scoped_release release;
  std::shared_ptr<Loaded> last;
  std::unique_lock lock(mutex_);
  if (!within_a_call) idle_.wait(lock, [this] { return n_calls_ == 0; });
  last.swap(loaded_);
  lock.unlock();
}

Call::~Call() {
  loaded_.reset();
  core_.leave();
}

bool Call::must_stop() {
  if (stopped_) return true;
  if (core_.closing_) {
    stopped_ = true;
    return true;
  }
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() == 0) return false;
  signal_.emplace();
  stopped_ = true;
  return true;
}

void Call::wait(engine::Ticket& ticket) {
  // Also where every single job is quick.
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ >= kPoll) {
    looked_ = now;
    must_stop();
  }
  if (stopped_) ticket.cancel();
  while (!ticket.wait_for(kPoll)) {
    if (must_stop()) ticket.cancel();
  }
}

void Call::raise_if_stopped() {
  if (signal_) {
    nb::python_error raised = std::move(*signal_);
    signal_.reset();
    throw raised;
  }
  if (stopped_) raise_model_error("the model was closed before the call had ended");
}

}  // namespace munia::python
