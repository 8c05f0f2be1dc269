#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/affinity.h"
#include "base/error.h"

namespace munia {
namespace {

ThreadPool::Options options_of(int n_threads, std::int64_t spin_us = 50) {
  ThreadPool::Options options;
  options.n_threads = n_threads;
  options.spin_us = spin_us;
  return options;
}

// User and system time of all threads of this process.
std::int64_t process_cpu_us() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& t) {
    return static_cast<std::int64_t>(t.tv_sec) * 1000000 + static_cast<std::int64_t>(t.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

// Every item exactly once, chunks whole, thread indices in range. Plain ints: the sanitizer for
// threads sees a missing hand-over of memory at the end of an operation.
void expect_each_item_once(ThreadPool& pool, std::int64_t n_items, std::int64_t grain) {
  std::vector<int> times(static_cast<std::size_t>(n_items), 0);
  std::atomic<bool> well_formed{true};
  pool.parallel_for(n_items, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    const bool whole = end - begin == grain || end == n_items;
    if (begin % grain != 0 || begin >= end || !whole || thread < 0 || thread >= pool.n_threads()) {
      well_formed = false;
    }
    for (std::int64_t i = begin; i < end; ++i) ++times[static_cast<std::size_t>(i)];
  });
  EXPECT_TRUE(well_formed);
  for (std::int64_t i = 0; i < n_items; ++i) {
    ASSERT_EQ(times[static_cast<std::size_t>(i)], 1)
        << "item " << i << " of " << n_items << " by " << grain;
  }
}

TEST(ThreadPool, CoversEveryItemOnce) {
  for (const int n_threads : {1, 2, 3, 8, 33}) {
    ThreadPool pool(options_of(n_threads));
    EXPECT_EQ(pool.n_threads(), n_threads);
    for (const std::int64_t n_items : {1, 2, 7, 64, 1000}) {
      for (const std::int64_t grain : {1, 3, 64, 5000}) {
        expect_each_item_once(pool, n_items, grain);
      }
    }
  }
}

TEST(ThreadPool, DoesNothingForNoItems) {
  ThreadPool pool(options_of(2));
  pool.parallel_for(0, 1, [](std::int64_t, std::int64_t, int) { ADD_FAILURE(); });
}

TEST(ThreadPool, OneThreadRunsInline) {
  ThreadPool pool(options_of(1));
  const auto self = std::this_thread::get_id();
  std::vector<std::int64_t> begins;
  pool.parallel_for(10, 4, [&](std::int64_t begin, std::int64_t, int thread) {
    EXPECT_EQ(std::this_thread::get_id(), self);
    EXPECT_EQ(thread, 0);
    begins.push_back(begin);
  });
  EXPECT_EQ(begins, (std::vector<std::int64_t>{0, 4, 8}));
}

TEST(ThreadPool, TakesRangesNearTheLargestNumber) {
  ThreadPool pool(options_of(2));
  std::atomic<std::int64_t> sum{0};
  pool.parallel_for(INT64_MAX, INT64_MAX / 2 + 1,
                    [&](std::int64_t begin, std::int64_t end, int) { sum += end - begin; });
  EXPECT_EQ(sum, INT64_MAX);
}

// demands.md row 3: one slow worker holds one chunk, the others take all the rest. Thread 0 is held
// inside its first chunk until every other chunk is done, which static halves would never finish.
TEST(ThreadPool, OneSlowWorkerDoesNotStallTheRest) {
  ThreadPool pool(options_of(2));
  constexpr std::int64_t kChunks = 100;
  std::atomic<std::int64_t> n_done{0};
  pool.parallel_for(kChunks, 1, [&](std::int64_t, std::int64_t, int thread) {
    if (thread == 0) {
      while (n_done < kChunks - 1) std::this_thread::yield();
    } else {
      ++n_done;
    }
    if (thread == 0) ++n_done;
  });
  EXPECT_EQ(n_done, kChunks);
}

// Each chunk waits for all others, so every thread must come: none may stay asleep.
void expect_all_threads_meet(ThreadPool& pool) {
  const int n_threads = pool.n_threads();
  std::atomic<int> n_inside{0};
  std::vector<int> threads(static_cast<std::size_t>(n_threads));
  pool.parallel_for(n_threads, 1, [&](std::int64_t begin, std::int64_t, int thread) {
    threads[static_cast<std::size_t>(begin)] = thread;
    ++n_inside;
    while (n_inside < n_threads) std::this_thread::yield();
  });
  EXPECT_EQ(std::set<int>(threads.begin(), threads.end()).size(), threads.size());
}

TEST(ThreadPool, WorkersReallyTakePart) {
  for (const std::int64_t spin_us : {0, 50}) {
    ThreadPool pool(options_of(4, spin_us));
    for (int i = 0; i < 50; ++i) expect_all_threads_meet(pool);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // asleep, except on a busy machine
    expect_all_threads_meet(pool);
  }
}

// The race test: short operations back to back, with the next one's fields overwriting the last
// one's, with and without spinning, with as many and more threads than CPUs.
TEST(ThreadPool, RepeatedShortOperationsNeverLoseOrDoubleWork) {
  for (const int n_threads : {2, 3, 7}) {
    for (const std::int64_t spin_us : {0, 5, 200}) {
      ThreadPool pool(options_of(n_threads, spin_us));
      std::vector<std::int64_t> cells(16, 0);
      for (int repeat = 0; repeat < 3000; ++repeat) {
        const std::int64_t n_items = 1 + repeat % 16;
        const std::int64_t add = repeat;
        pool.parallel_for(n_items, 1 + repeat % 3, [&](std::int64_t begin, std::int64_t end, int) {
          for (std::int64_t i = begin; i < end; ++i) cells[static_cast<std::size_t>(i)] += add;
        });
      }
      for (std::int64_t i = 0; i < 16; ++i) {
        std::int64_t expected = 0;
        for (int repeat = 0; repeat < 3000; ++repeat) {
          if (i < 1 + repeat % 16) expected += repeat;
        }
        ASSERT_EQ(cells[static_cast<std::size_t>(i)], expected) << n_threads << " " << spin_us;
      }
    }
  }
}

// Destruction meets workers that spin, fall asleep, sleep, or wake too late for an operation.
TEST(ThreadPool, IsDestroyedAtAnyMoment) {
  for (int repeat = 0; repeat < 400; ++repeat) {
    std::atomic<std::int64_t> sum{0};
    {
      ThreadPool pool(options_of(2 + repeat % 4, repeat % 3 == 0 ? 0 : 20));
      for (int i = 0; i < repeat % 5; ++i) {
        pool.parallel_for(4, 1, [&](std::int64_t begin, std::int64_t, int) { sum += begin; });
      }
      if (repeat % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(sum, 6 * (repeat % 5));
  }
}

// More operations than the epoch has values while one worker may sleep through some of them.
TEST(ThreadPool, SurvivesTheWrapOfItsEpoch) {
  ThreadPool pool(options_of(3, 0));
  std::atomic<std::int64_t> sum{0};
  for (int repeat = 0; repeat < 70000; ++repeat) {
    pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t, int) { ++sum; });
  }
  EXPECT_EQ(sum, 140000);
}

// demands.md row 6. Counts CPU time, not wall time; spinning threads would use the whole wait.
TEST(ThreadPool, UsesNoCpuWhenIdleAndWakesAfterwards) {
  ThreadPool pool(options_of(8));
  expect_each_item_once(pool, 1000, 1);
  const std::int64_t before_us = process_cpu_us();
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  EXPECT_LT(process_cpu_us() - before_us, 20000);
  expect_all_threads_meet(pool);
}

// demands.md row 3: prefill and decode may use different numbers of threads of one pool.
TEST(ThreadPool, UsesAsManyThreadsAsAsked) {
  for (const std::int64_t spin_us : {0, 50}) {
    ThreadPool pool(options_of(6, spin_us));
    for (int repeat = 0; repeat < 40; ++repeat) {
      const int n_used = 1 + repeat * 5 % 6;
      pool.use_threads(n_used);
      std::vector<int> times(20, 0);
      std::atomic<bool> inside{true};
      pool.parallel_for(20, 1, [&](std::int64_t begin, std::int64_t, int thread) {
        if (thread < 0 || thread >= n_used) inside = false;
        ++times[static_cast<std::size_t>(begin)];
        std::this_thread::sleep_for(std::chrono::microseconds(100));  // lets all others come
      });
      EXPECT_TRUE(inside) << n_used;
      EXPECT_EQ(times, std::vector<int>(20, 1));
    }
    pool.use_threads(2);
    const std::int64_t before_us = process_cpu_us();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_LT(process_cpu_us() - before_us, 20000);  // parked threads burn nothing
    pool.use_threads(6);
    expect_all_threads_meet(pool);
    pool.use_threads(3);  // and it is destroyed with threads parked
  }
}

// The caller, too, must not burn CPU while it waits for a worker that blocks.
TEST(ThreadPool, WaitingCallerSleeps) {
  ThreadPool pool(options_of(2));
  std::atomic<bool> worker_inside{false};
  const std::int64_t before_us = process_cpu_us();
  pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t, int thread) {
    if (thread == 0) {
      while (!worker_inside) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else {
      worker_inside = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
    }
  });
  EXPECT_LT(process_cpu_us() - before_us, 20000);
}

// The CPUs that each thread of a pool may use, caller first.
std::vector<std::vector<int>> masks_of(const ThreadPool::Options& options) {
  ThreadPool pool(options);
  std::vector<std::vector<int>> masks(static_cast<std::size_t>(options.n_threads));
  std::atomic<int> n_inside{0};
  pool.parallel_for(options.n_threads, 1, [&](std::int64_t, std::int64_t, int thread) {
    masks[static_cast<std::size_t>(thread)] = affinity_cpus();
    ++n_inside;
    while (n_inside < options.n_threads) std::this_thread::yield();
  });
  return masks;
}

TEST(ThreadPool, BindsNothingUnlessAsked) {
  const std::vector<int> allowed = affinity_cpus();
  const std::vector<std::vector<int>> masks = masks_of(options_of(2));
  EXPECT_EQ(masks[0], allowed);
  EXPECT_EQ(masks[1], allowed);
}

// demands.md row 4. On a thread of its own, since the caller is bound as well.
TEST(ThreadPool, BindsThreadsToTheGivenCpus) {
  const std::vector<int> allowed = affinity_cpus();
  std::thread([&allowed] {
    auto options = options_of(3);
    options.cpus = {allowed.back(), allowed.front()};
    const std::vector<std::vector<int>> masks = masks_of(options);
    EXPECT_EQ(masks[0], std::vector<int>{allowed.back()});
    EXPECT_EQ(masks[1], std::vector<int>{allowed.front()});
    EXPECT_EQ(masks[2], std::vector<int>{allowed.back()});
  }).join();
}

// demands.md row 4: threads of a machine with several memory nodes stay on one of them.
TEST(ThreadPool, KeepsThreadsWithinTheGivenCpus) {
  const std::vector<int> allowed = affinity_cpus();
  std::thread([&allowed] {
    auto options = options_of(3);
    options.within = {allowed.front()};
    for (const std::vector<int>& mask : masks_of(options)) EXPECT_EQ(mask, options.within);
  }).join();
}

TEST(ThreadPool, RefusesWhatCannotBe) {
  for (const int n_threads : {-1, 0, 100000}) {
    EXPECT_THROW(ThreadPool{options_of(n_threads)}, LoadError) << n_threads;
  }
  auto options = options_of(2);
  options.cpus = {1 << 20};
  try {
    ThreadPool pool(options);
    FAIL();
  } catch (const LoadError& error) {
    EXPECT_NE(std::string(error.what()).find("CPU 1048576"), std::string::npos) << error.what();
  }
  options.cpus = {-1};
  EXPECT_THROW(ThreadPool{options}, LoadError);
}

TEST(ThreadPoolDeathTest, EndsWhenABodyCallsThePool) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ThreadPool pool(options_of(1));
        pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t, int) {
          pool.parallel_for(2, 1, [](std::int64_t, std::int64_t, int) {});
        });
      },
      "internal mistake");
}

TEST(Affinity, FormatsLists) {
  EXPECT_EQ(format_cpu_list({0, 2, 3, 4, 9}), "0,2-4,9");
  EXPECT_EQ(format_cpu_list({}), "");
}

}  // namespace
}  // namespace munia
