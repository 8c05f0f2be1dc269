// The kernel pool: a fixed set of workers that run the parts of one operation and meet at its end.
// Owned by whoever owns the model (the engine thread calls it); not for I/O or waiting work.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace munia {

class ThreadPool {
 public:
  struct Options {
    int n_threads = 1;          // the calling thread counts as one of them
    std::vector<int> cpus;      // when not empty: thread i is bound to cpus[i % size]
    std::int64_t spin_us = 50;  // how long a worker spins for the next operation before it sleeps
    std::vector<int> within{};  // when not empty, and cpus is: threads stay on these CPUs
  };
  explicit ThreadPool(const Options& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const;
  /// From the next operation on, only threads 0 to n - 1 take part (n from 1 to n_threads()); the
  /// others sleep. For work that more threads make slower, such as decoding. Not while one runs.
  void use_threads(int n);

  /// Calls body(begin, end, thread_index) for disjoint ranges that cover [0, n_items), in chunks of
  /// `grain` items handed out dynamically, and returns when all are done. The caller takes part.
  /// `body` must not throw and must not call the pool. Only one operation at a time.
  template <class Body>
  void parallel_for(std::int64_t n_items, std::int64_t grain, const Body& body) {
    run(n_items, grain, &body, [](const void* b, std::int64_t begin, std::int64_t end, int thread) {
      (*static_cast<const Body*>(b))(begin, end, thread);
    });
  }

 private:
  using RangeFunction = void (*)(const void* body, std::int64_t begin, std::int64_t end,
                                 int thread);
  void run(std::int64_t n_items, std::int64_t grain, const void* body, RangeFunction function);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace munia
