// The kernel pool. All of an operation's life is in one 32-bit word, `state`:
//
//   epoch (15 bits) | open (1) | caller sleeps (1) | n_inside (15)
//
// The caller writes the operation's fields, then moves the epoch on and opens it. A worker that
// sees a new epoch enters by adding 1 to n_inside, takes chunks until none is left, and leaves. The
// caller takes chunks too, closes, and waits until n_inside is 0. A worker that comes too late
// finds it closed and stays out, so nobody ever waits for a thread that has not started: on a
// crowded machine the caller does the work alone rather than wait for a sleeper.
//
// The epoch may wrap: a worker that slept through exactly 2^15 operations misses one, which is the
// same as being late.
#include "base/thread_pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>

#include "base/affinity.h"
#include "base/error.h"

namespace munia {
namespace {

constexpr std::uint32_t kInsideMask = (1U << 15) - 1;
constexpr std::uint32_t kCallerSleeps = 1U << 15;
constexpr std::uint32_t kOpen = 1U << 16;
constexpr std::uint32_t kEpochUnit = 1U << 17;
constexpr std::uint32_t kEpochMask = ~(kEpochUnit - 1);
constexpr int kMaxThreads = 4096;
constexpr std::size_t kCacheLine = 64;

using Futex = std::atomic<std::uint32_t>;
static_assert(sizeof(Futex) == 4 && Futex::is_always_lock_free);

void futex_wait(Futex& word, std::uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr,
          nullptr, 0);
}

void futex_wake(Futex& word, int n_threads) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, n_threads,
          nullptr, nullptr, 0);
}

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Blocks signals that a program handles, so that no worker runs a handler; faults and the
// profiler's timer stay. New threads inherit the mask.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    for (const int kept : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF}) {
      sigdelset(&all, kept);
    }
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

struct ThreadPool::State {
  // Polled by spinning workers, changed by all.
  alignas(kCacheLine) Futex state{0};
  // The operation: written by the caller while closed and empty, read by those inside.
  alignas(kCacheLine) std::atomic<std::int64_t> next_chunk{0};
  std::int64_t n_items = 0;
  std::int64_t grain = 1;
  std::int64_t n_chunks = 0;
  const void* body = nullptr;
  RangeFunction function = nullptr;
  // Written only on the way to sleep and back.
  alignas(kCacheLine) Futex wake_word{0};
  std::atomic<int> n_sleeping{0};
  std::atomic<int> n_active{1};  // threads from this index on are parked
  Futex park_word{0};
  std::atomic<bool> stopping{false};

  std::atomic<bool> running{false};  // only to notice misuse
  Options options;
  bool oversubscribed = false;  // more threads than CPUs: spinners must let others run
  bool caller_bound = false;
  pthread_t bound_caller{};
  std::vector<std::thread> workers;

  void start();
  void stop();
  void work(int thread_index);
  void await_new_epoch(std::uint32_t seen);
  void park_unless_active(int thread_index);
  void await_empty();
  void run_chunks(int thread_index) noexcept;
  void bind_caller();
  template <class Done>
  bool spin_until(const Done& done) const;
};

// Polls `done` for at most spin_us. False when the time is over.
template <class Done>
bool ThreadPool::State::spin_until(const Done& done) const {
  if (done()) return true;
  if (options.spin_us <= 0) return false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(options.spin_us);
  do {
    const int n_polls = oversubscribed ? 1 : 32;  // 32 pauses: about 1 us, so the clock is cheap
    for (int i = 0; i < n_polls; ++i) {
      oversubscribed ? static_cast<void>(sched_yield()) : pause_cpu();
      if (done()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

void ThreadPool::State::await_new_epoch(std::uint32_t seen) {
  // Either this thread sees the new epoch, or the caller sees a sleeper: both sides write first and
  // read then, all sequentially consistent.
  n_sleeping.fetch_add(1);
  for (;;) {
    const std::uint32_t word = wake_word.load();
    if ((state.load() & kEpochMask) != seen) break;
    futex_wait(wake_word, word);
  }
  n_sleeping.fetch_sub(1);
}

// Parked threads are woken by use_threads() and stop() alone, so operations never pay for them.
void ThreadPool::State::park_unless_active(int thread_index) {
  for (;;) {
    const std::uint32_t word = park_word.load();
    if (thread_index < n_active.load() || stopping.load()) return;
    futex_wait(park_word, word);
  }
}

void ThreadPool::State::await_empty() {
  const auto empty = [this] { return (state.load(std::memory_order_acquire) & kInsideMask) == 0; };
  if (spin_until(empty)) return;
  std::uint32_t now = state.fetch_or(kCallerSleeps, std::memory_order_acq_rel) | kCallerSleeps;
  while ((now & kInsideMask) != 0) {
    futex_wait(state, now);
    now = state.load(std::memory_order_acquire);
  }
  state.fetch_and(~kCallerSleeps, std::memory_order_relaxed);
}

// noexcept: a body that throws ends the program here, on whichever thread it runs.
void ThreadPool::State::run_chunks(int thread_index) noexcept {
  const std::int64_t n_items_local = n_items;
  const std::int64_t grain_local = grain;
  const std::int64_t n_chunks_local = n_chunks;
  const void* const body_local = body;
  const RangeFunction function_local = function;
  for (;;) {
    const std::int64_t chunk = next_chunk.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= n_chunks_local) return;
    const std::int64_t begin = chunk * grain_local;
    const std::int64_t end = begin + std::min(grain_local, n_items_local - begin);
    function_local(body_local, begin, end, thread_index);
  }
}

void ThreadPool::State::work(int thread_index) {
  std::uint32_t seen = 0;  // the epoch last dealt with
  bool spin = false;       // only right after an operation
  for (;;) {
    const auto new_epoch = [this, seen] {
      return (state.load(std::memory_order_acquire) & kEpochMask) != seen;
    };
    if (!spin || !spin_until(new_epoch)) await_new_epoch(seen);
    // `stopping` is read after the epoch it was set before, else the last epoch could be taken for
    // a missed operation and slept upon.
    const std::uint32_t now = state.load(std::memory_order_acquire);
    if (stopping.load(std::memory_order_acquire)) return;
    seen = now & kEpochMask;
    if (thread_index >= n_active.load(std::memory_order_acquire)) {
      park_unless_active(thread_index);
      spin = false;
      continue;
    }
    spin = true;
    if ((now & kOpen) == 0) continue;
    const std::uint32_t entered = state.fetch_add(1, std::memory_order_acq_rel);
    if ((entered & kOpen) != 0 && thread_index < n_active.load(std::memory_order_acquire)) {
      seen = entered & kEpochMask;
      run_chunks(thread_index);
    }
    const std::uint32_t left = state.fetch_sub(1, std::memory_order_acq_rel);
    if ((left & kInsideMask) == 1 && (left & kCallerSleeps) != 0) futex_wake(state, 1);
  }
}

void ThreadPool::State::start() {
  const std::vector<int> allowed = affinity_cpus();
  std::vector<int> cpus = allowed;
  if (!options.within.empty()) cpus = options.within;
  if (!options.cpus.empty()) cpus = options.cpus;
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  n_active.store(options.n_threads);
  oversubscribed = !cpus.empty() && static_cast<std::size_t>(options.n_threads) > cpus.size();
  for (const int cpu : options.cpus) {
    if (!std::binary_search(allowed.begin(), allowed.end(), cpu)) {
      throw LoadError(
          {ErrorCode::kInvalidArgument, "cannot bind a thread to CPU " + std::to_string(cpu) +
                                            ": this process may use the CPUs " +
                                            format_cpu_list(allowed) + "; name only these"});
    }
  }
  const BlockSignals block;
  try {
    for (int i = 1; i < options.n_threads; ++i) {
      workers.emplace_back([this, i] { work(i); });
      const pthread_t thread = workers.back().native_handle();
      pthread_setname_np(thread, ("munia-" + std::to_string(i)).c_str());
      if (options.cpus.empty()) {
        // Refusal costs speed alone.
        if (!options.within.empty()) (void)bind_thread(thread, options.within);
        continue;
      }
      const int cpu = options.cpus[static_cast<std::size_t>(i) % options.cpus.size()];
      if (const int code = bind_thread(thread, cpu); code != 0) {
        throw LoadError(
            {ErrorCode::kInvalidArgument,
             "cannot bind a thread to CPU " + std::to_string(cpu) + ": " + std::strerror(code)});
      }
    }
  } catch (const std::system_error& error) {
    const std::size_t n_started = workers.size() + 1;
    stop();
    throw LoadError({ErrorCode::kLimit, "cannot start thread " + std::to_string(n_started + 1) +
                                            " of " + std::to_string(options.n_threads) + " (" +
                                            error.what() + "); ask for fewer threads"});
  } catch (...) {
    stop();
    throw;
  }
}

void ThreadPool::State::stop() {
  stopping.store(true);
  state.fetch_add(kEpochUnit);
  wake_word.fetch_add(1);
  futex_wake(wake_word, INT_MAX);
  park_word.fetch_add(1);
  futex_wake(park_word, INT_MAX);
  for (std::thread& worker : workers) worker.join();
  workers.clear();
}

// Thread 0 is whoever calls, so it can only be bound when it does. Refusal costs speed alone.
void ThreadPool::State::bind_caller() {
  const pthread_t self = pthread_self();
  if (caller_bound && pthread_equal(bound_caller, self)) return;
  if (options.cpus.empty()) {
    (void)bind_thread(self, options.within);
  } else {
    (void)bind_thread(self, options.cpus[0]);
  }
  caller_bound = true;
  bound_caller = self;
}

ThreadPool::ThreadPool(const Options& options) {
  if (options.n_threads < 1 || options.n_threads > kMaxThreads) {
    throw LoadError({ErrorCode::kInvalidArgument,
                     "the number of threads is " + std::to_string(options.n_threads) +
                         "; it must be from 1 to " + std::to_string(kMaxThreads)});
  }
  state_ = std::make_unique<State>();
  state_->options = options;
  state_->start();
}

ThreadPool::~ThreadPool() { state_->stop(); }

int ThreadPool::n_threads() const { return state_->options.n_threads; }

void ThreadPool::use_threads(int n) {
  State& s = *state_;
  MUNIA_CHECK(n >= 1 && n <= s.options.n_threads);
  MUNIA_CHECK(!s.running.load(std::memory_order_relaxed));
  if (s.n_active.exchange(n) >= n) return;
  s.park_word.fetch_add(1);
  futex_wake(s.park_word, INT_MAX);
}

void ThreadPool::run(std::int64_t n_items, std::int64_t grain, const void* body,
                     RangeFunction function) {
  if (n_items <= 0) return;
  MUNIA_CHECK(grain >= 1);
  State& s = *state_;
  MUNIA_CHECK(!s.running.load(std::memory_order_relaxed));  // two callers, or a body that calls
  if (!s.options.cpus.empty() || !s.options.within.empty()) s.bind_caller();
  const std::int64_t n_chunks = (n_items - 1) / grain + 1;
  // The fields are free: the last operation ended with nobody inside, and who comes in while it is
  // closed reads none of them.
  s.next_chunk.store(0, std::memory_order_relaxed);
  s.n_items = n_items;
  s.grain = grain;
  s.n_chunks = n_chunks;
  s.body = body;
  s.function = function;
  s.running.store(true, std::memory_order_relaxed);
  if (s.n_active.load(std::memory_order_relaxed) == 1 || n_chunks == 1) {
    s.run_chunks(0);
    s.running.store(false, std::memory_order_relaxed);
    return;
  }
  s.state.fetch_add(kEpochUnit + kOpen);
  if (s.n_sleeping.load() > 0) {
    s.wake_word.fetch_add(1);
    futex_wake(s.wake_word, static_cast<int>(std::min<std::int64_t>(n_chunks - 1, INT_MAX)));
  }
  s.run_chunks(0);
  s.state.fetch_sub(kOpen, std::memory_order_acq_rel);
  s.await_empty();
  s.running.store(false, std::memory_order_relaxed);
}

}  // namespace munia
