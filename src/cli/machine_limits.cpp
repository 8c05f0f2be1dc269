#include "cli/machine_limits.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "base/aligned_buffer.h"
#include "base/system_info.h"
#include "kernels/kernels.h"

namespace munia::cli {
namespace {

constexpr double kSeconds = 0.25;  // for each of the three
constexpr int kLeastRuns = 4;
constexpr std::size_t kLeastBytes = std::size_t{1} << 20;
constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The shortest of several runs: a limit is what can be reached, so a neighbour's noise is left
/// out.
template <class Run>
double best_seconds(const Run& run) {
  run();
  double best = 1e30;
  const double begin = seconds_now();
  for (int i = 0; i < kLeastRuns || seconds_now() - begin < kSeconds; ++i) {
    const double start = seconds_now();
    run();
    best = std::min(best, seconds_now() - start);
  }
  return best;
}

double measure_flops(std::string_view rung, ThreadPool& pool) {
  constexpr std::int64_t kLoops = 20000;  // about 0.1 ms
  const std::int64_t n_chunks = std::int64_t{64} * pool.n_threads();
  const double flops = kernels::fma_probe(rung, 1) * kLoops * static_cast<double>(n_chunks);
  if (flops == 0) return 0;
  return flops / best_seconds([&] {
           pool.parallel_for(n_chunks, 1, [&](std::int64_t begin, std::int64_t end, int) {
             for (std::int64_t i = begin; i < end; ++i) kernels::fma_probe(rung, kLoops);
           });
         });
}

double measure_read(ThreadPool& pool, std::size_t size_bytes, bool huge_pages) {
  try {
    AlignedBuffer buffer(size_bytes);
    if (!huge_pages) (void)madvise(buffer.data(), size_bytes, MADV_NOHUGEPAGE);
    const auto n_chunks = static_cast<std::int64_t>(size_bytes / kChunkBytes);
    const auto chunk = [&](std::int64_t i) {
      return buffer.data() + static_cast<std::size_t>(i) * kChunkBytes;
    };
    // First touched by the threads that read it.
    pool.parallel_for(n_chunks, 4, [&](std::int64_t begin, std::int64_t end, int) {
      std::fill(chunk(begin), chunk(end), std::byte{1});
    });
    const double seconds = best_seconds([&] {
      pool.parallel_for(n_chunks, 4, [&](std::int64_t begin, std::int64_t end, int) {
        kernels::read_probe(chunk(begin), static_cast<std::size_t>(end - begin) * kChunkBytes);
      });
    });
    return static_cast<double>(size_bytes) / seconds;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

}  // namespace

MachineLimits measure_limits(std::string_view rung, ThreadPool& pool, std::size_t footprint) {
  MachineLimits limits;
  const std::uint64_t room = free_memory_bytes().value_or(kMostBytes) / 2;
  footprint = std::min({footprint, kMostBytes, static_cast<std::size_t>(room)});
  limits.footprint = std::max(footprint, kLeastBytes) / kChunkBytes * kChunkBytes;
  limits.flops = measure_flops(rung, pool);
  limits.huge_bytes = measure_read(pool, limits.footprint, true);
  limits.small_bytes = measure_read(pool, limits.footprint, false);
  return limits;
}

double percent_of(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace munia::cli
