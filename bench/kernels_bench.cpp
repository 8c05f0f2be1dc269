// Speed of the kernels: GFLOP/s and GB/s of matmul for every weight type, rung and number of rows,
// of attention and of the small kernels, each with its share of what the machine can do (FMA peak
// of one thread's registers, read bandwidth of memory; for the AMX rung the tiles' peak as well),
// measured in the same run. AMX multiplies each weight with three terms: its share counts all three
// products, so 100% is a third of that peak in GFLOP/s.
//
//   kernels_bench [--threads N] [--rung NAME] [--type NAME] [--rows M] [--kib N] [--seconds S]
//
// A figure is the median of the runs, with the best in brackets. Matrices are large enough
// (64 MiB) that few rows of x measure memory, not cache; more rows use 4 MiB.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/amx.h"
#include "kernels/kernels.h"
#include "kernels/rungs.h"
#include "kernels/test_data.h"

namespace munia::kernels {
namespace {

struct Options {
  int n_threads = 1;
  std::string rung;
  std::string type;
  std::int64_t n_rows = 0;
  std::int64_t kib = 0;  // of a matrix; 0: the sizes said above
  double seconds = 0.3;
};

double seconds_of(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Runs job(thread) on all threads at once and returns the longest of their processor times, which
/// a busy neighbour on the same core does not lengthen. Kernels never sleep, so it is their time.
double run_on_all_threads(int n_threads, const std::function<void(int)>& job) {
  std::vector<double> times(static_cast<std::size_t>(n_threads));
  const auto timed = [&](int thread) {
    const double start = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    job(thread);
    times[static_cast<std::size_t>(thread)] = seconds_of(CLOCK_THREAD_CPUTIME_ID) - start;
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < n_threads; ++i) threads.emplace_back(timed, i);
  timed(0);
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(times.begin(), times.end());
}

struct Timing {
  double median = 0;
  double best = 0;
};

Timing measure(const Options& options, const std::function<void(int)>& job) {
  run_on_all_threads(options.n_threads, job);
  std::vector<double> times;
  const double begin = seconds_of(CLOCK_MONOTONIC);
  while (times.size() < 5 || seconds_of(CLOCK_MONOTONIC) - begin < options.seconds) {
    times.push_back(run_on_all_threads(options.n_threads, job));
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[0]};
}

/// FLOP/s of a rung's FMA on all threads; 0 where no loop exists.
double fma_peak(const Options& options, std::string_view rung) {
  constexpr std::int64_t kLoops = 400000;
  const double flops = fma_probe(rung, 1) * kLoops;
  if (flops == 0) return 0;
  const Timing timing = measure(options, [&](int) { fma_probe(rung, kLoops); });
  return flops * options.n_threads / timing.best;
}

/// FLOP/s of BF16 tile products on all threads; 0 for the other rungs.
double amx_peak(const Options& options, std::string_view rung) {
#if MUNIA_KERNELS_X86
  constexpr std::int64_t kLoops = 100000;
  if (rung != "amx") return 0;
  double flop = 0;
  const Timing timing = measure(options, [&](int thread) {
    const double done = run_tile_products(kLoops);
    if (thread == 0) flop = done;
  });
  return flop * options.n_threads / timing.best;
#else
  static_cast<void>(options);
  static_cast<void>(rung);
  return 0;
#endif
}

double read_bandwidth(const Options& options) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  AlignedBuffer buffer(kBytes);
  for (std::size_t i = 0; i < kBytes; i += 64) buffer.data()[i] = std::byte{1};
  const std::size_t share = kBytes / static_cast<std::size_t>(options.n_threads) / 128 * 128;
  const Timing timing = measure(options, [&](int thread) {
    read_probe(buffer.data() + share * static_cast<std::size_t>(thread), share);
  });
  return static_cast<double>(kBytes) / timing.best;
}

struct Limits {
  double flops = 0;
  double bytes = 0;
  double amx_flops = 0;
};

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

void bench_matmul(const Options& options, const Kernels& kernels, WeightType type,
                  std::int64_t n_tokens, const Limits& limits) {
  constexpr std::int64_t kCols = 1024;
  const std::size_t panel_bytes = packed_panel_bytes(type, kCols);
  const bool is_scalar = std::string_view(kernels.name) == "scalar";
  const std::int64_t kib = options.kib > 0 ? options.kib
                           : is_scalar     ? 1024
                           : n_tokens <= 4 ? 64 * 1024
                                           : 4 * 1024;
  const std::size_t budget = static_cast<std::size_t>(kib) * 1024;
  const auto n_panels = static_cast<std::int64_t>(budget / panel_bytes);
  PackedMatrix w = {type, n_panels * kPanelRows, kCols, nullptr, panel_bytes};
  AlignedBuffer weights(static_cast<std::size_t>(n_panels) * panel_bytes);
  w.data = weights.data();
  const std::vector<std::byte> rows = random_rows(type, kPanelRows, kCols, 1);
  const std::byte* sources[kPanelRows];
  for (std::size_t lane = 0; lane < 16; ++lane) {
    sources[lane] = rows.data() + lane * source_row_bytes(type, kCols);
  }
  pack_panel(type, sources, kCols, weights.data());
  for (std::int64_t p = 1; p < n_panels; ++p) {
    std::memcpy(weights.data() + static_cast<std::size_t>(p) * panel_bytes, weights.data(),
                panel_bytes);
  }
  const std::vector<float> x = random_floats(n_tokens * kCols, 2);
  AlignedBuffer prepared(kernels.prepared_bytes(n_tokens, kCols));
  const std::int64_t n_units =
      (n_tokens + kernels.prepare_unit_rows - 1) / kernels.prepare_unit_rows;
  kernels.prepare_rows(x.data(), n_tokens, kCols, only(type), 0, n_units, prepared.data());
  AlignedBuffer y(static_cast<std::size_t>(n_tokens * w.n_rows) * sizeof(float));
  const MatmulOutput out = {y.as<float>(), w.n_rows, nullptr, false};
  std::vector<AlignedBuffer> scratch;
  for (int i = 0; i < options.n_threads; ++i) {
    scratch.emplace_back(kernels.matmul_scratch_bytes(n_tokens, kCols));
  }
  const Timing timing = measure(options, [&](int thread) {
    kernels.matmul(w, {prepared.data(), n_tokens, kCols}, out,
                   n_panels * thread / options.n_threads,
                   n_panels * (thread + 1) / options.n_threads,
                   scratch[static_cast<std::size_t>(thread)].data());
  });
  const double flop = 2.0 * static_cast<double>(n_tokens * w.n_rows * kCols);
  const auto bytes = static_cast<double>(weights.size_bytes());
  std::printf(
      "%-7s %-5s M %4lld  %8.1f GFLOP/s (%8.1f) %5.1f%% of FMA  %6.2f GB/s (%6.2f) %5.1f%%\n",
      kernels.name, std::string(weight_type_name(type)).c_str(), static_cast<long long>(n_tokens),
      flop / timing.median / 1e9, flop / timing.best / 1e9,
      percent(flop / timing.median, limits.flops), bytes / timing.median / 1e9,
      bytes / timing.best / 1e9, percent(bytes / timing.median, limits.bytes));
  if (limits.amx_flops > 0 && &byte_reference(kernels, type) != &kScalarKernels) {
    std::printf("%-7s %-5s M %4lld  three products a weight: %5.1f%% of AMX\n", kernels.name,
                std::string(weight_type_name(type)).c_str(), static_cast<long long>(n_tokens),
                percent(3 * flop / timing.median, limits.amx_flops));
  }
  std::fflush(stdout);
}

void bench_attention(const Options& options, const Kernels& kernels, std::int64_t n_tokens,
                     std::int64_t pos_begin, std::int64_t n_rep, const Limits& limits) {
  constexpr std::int64_t kDim = 64;
  const std::int64_t n_keys = pos_begin + n_tokens;
  const std::int64_t n_pages = (n_keys + kPageTokens - 1) / kPageTokens;
  const std::vector<float> cache = random_floats(n_pages * 2 * kPageTokens * kDim, 3);
  std::vector<const float*> pages;
  for (std::int64_t p = 0; p < n_pages; ++p)
    pages.push_back(&cache[static_cast<std::size_t>(p * 2 * kPageTokens * kDim)]);
  const std::vector<float> q = random_floats(n_tokens * n_rep * kDim, 4);
  std::vector<float> out(q.size());
  AttentionArgs args;
  args.q = q.data();
  args.q_token_stride = args.out_token_stride = n_rep * kDim;
  args.n_tokens = n_tokens;
  args.n_rep = n_rep;
  args.head_dim = kDim;
  args.pos_begin = pos_begin;
  args.pages = pages.data();
  args.scale = 0.125F;
  args.out = out.data();
  AlignedBuffer scratch(kernels.attention_scratch_bytes(n_tokens, n_rep, kDim, n_keys));
  Options one = options;
  one.n_threads = 1;
  const Timing timing = measure(one, [&](int) { kernels.attention(args, scratch.data()); });
  double pairs = 0;
  for (std::int64_t i = 0; i < n_tokens; ++i)
    pairs += static_cast<double>((pos_begin + i + 1) * n_rep);
  const double flop = pairs * kDim * 4;
  std::printf(
      "%-7s attention %4lld tokens after %5lld, n_rep %lld: %8.1f us  %7.1f GFLOP/s %5.1f%% of FMA "
      " %6.2f GB/s\n",
      kernels.name, static_cast<long long>(n_tokens), static_cast<long long>(pos_begin),
      static_cast<long long>(n_rep), timing.median * 1e6, flop / timing.median / 1e9,
      percent(flop / timing.median, limits.flops / options.n_threads),
      static_cast<double>(n_keys * kDim * 8) / timing.median / 1e9);
}

/// One token's attention in a model of 24 layers and 16 KV heads of 64, beside plain reading of the
/// same memory: each page of keys and values lies far from the next, and no cache holds them.
void bench_attention_of_reply(const Options& options, const Kernels& kernels, std::int64_t n_keys) {
  constexpr std::int64_t kDim = 64;
  constexpr std::int64_t kParts = 24 * 16;
  constexpr std::int64_t kPartFloats = 2 * kPageTokens * kDim;
  const std::vector<float> page = random_floats(kParts * kPartFloats, 3);
  std::vector<AlignedBuffer> cache;
  std::vector<const float*> pages;
  for (std::int64_t i = 0; i < n_keys; i += kPageTokens) {
    cache.emplace_back(page.size() * sizeof(float));
    std::memcpy(cache.back().data(), page.data(), page.size() * sizeof(float));
    pages.push_back(cache.back().as<float>());
  }
  const std::vector<float> q = random_floats(kDim, 4);
  std::vector<AlignedBuffer> scratch;
  for (int i = 0; i < options.n_threads; ++i) {
    scratch.emplace_back(kernels.attention_scratch_bytes(1, 1, kDim, n_keys));
  }
  const Timing timing = measure(options, [&](int thread) {
    float out[kDim];
    AttentionArgs args;
    args.q = q.data();
    args.out = out;
    args.n_tokens = 1;
    args.head_dim = kDim;
    args.pos_begin = n_keys - 1;
    args.pages = pages.data();
    args.scale = 0.125F;
    for (std::int64_t part = kParts * thread / options.n_threads;
         part < kParts * (thread + 1) / options.n_threads; ++part) {
      args.page_offset = part * kPartFloats;
      kernels.attention(args, scratch[static_cast<std::size_t>(thread)].data());
    }
  });
  const Timing reading = measure(options, [&](int thread) {
    for (auto i = static_cast<std::size_t>(thread); i < cache.size();
         i += static_cast<std::size_t>(options.n_threads)) {
      read_probe(cache[i].data(), cache[i].size_bytes());
    }
  });
  const auto bytes = static_cast<double>(cache.size() * page.size() * sizeof(float));
  std::printf("%-7s attention of a reply at %5lld: %6.2f GB/s, %5.1f%% of reading the same\n",
              kernels.name, static_cast<long long>(n_keys), bytes / timing.median / 1e9,
              percent(reading.median, timing.median));
}

void bench_small(const Options& options, const Kernels& kernels) {
  constexpr std::int64_t kRows = 64;
  constexpr std::int64_t kDim = 1024;
  const std::vector<float> x = random_floats(kRows * kDim, 5);
  const std::vector<float> other = random_floats(kRows * kDim, 6);
  std::vector<float> out = x;
  std::vector<std::byte> prepared(kernels.prepared_bytes(kRows, kDim));
  Options one = options;
  one.n_threads = 1;
  const auto report = [&](const char* name, double n, const std::function<void(int)>& job) {
    const double time = measure(one, job).median;
    std::printf("%-7s %-12s %7.3f ns a value\n", kernels.name, name, time / n * 1e9);
  };
  constexpr double kValues = kRows * kDim;
  const std::int64_t n_units = (kRows + kernels.prepare_unit_rows - 1) / kernels.prepare_unit_rows;
  for (const WeightType type :
       {WeightType::kF32, WeightType::kBf16, WeightType::kQ4_0, WeightType::kQ6K}) {
    const std::string name = "rows for " + std::string(weight_type_name(type));
    report(name.c_str(), kValues, [&](int) {
      kernels.prepare_rows(x.data(), kRows, kDim, only(type), 0, n_units, prepared.data());
    });
  }
  report("rms_norm", kValues,
         [&](int) { kernels.rms_norm(x.data(), other.data(), 1e-6F, kRows, kDim, out.data()); });
  report("silu_mul", kValues,
         [&](int) { kernels.silu_mul(x.data(), other.data(), kRows * kDim, out.data()); });
  report("rope", kValues, [&](int) { kernels.rope(out.data(), kRows * kDim / 64, 64, x.data()); });
}

void bench_pack(const Options& options) {
  constexpr std::int64_t kCols = 4096;
  Options one = options;
  one.n_threads = 1;
  for (const WeightType type : all_types()) {
    const std::vector<std::byte> rows = random_rows(type, kPanelRows, kCols, 7);
    std::vector<std::byte> panel(packed_panel_bytes(type, kCols));
    const std::byte* sources[kPanelRows];
    for (std::size_t lane = 0; lane < 16; ++lane) {
      sources[lane] = rows.data() + lane * source_row_bytes(type, kCols);
    }
    const Timing timing =
        measure(one, [&](int) { pack_panel(type, sources, kCols, panel.data()); });
    std::printf("pack_panel %-5s %6.2f GB/s\n", std::string(weight_type_name(type)).c_str(),
                static_cast<double>(rows.size()) / timing.median / 1e9);
  }
}

int run(const Options& options) {
  const double bandwidth = read_bandwidth(options);
  std::printf("threads %d, read bandwidth %.2f GB/s\n", options.n_threads, bandwidth / 1e9);
  if (options.type.empty() && options.rung.empty()) bench_pack(options);
  std::vector<const Kernels*> list = rungs();
  if (options.rung == "amx-emulated") list = {select_kernels("amx-emulated")};
  for (const Kernels* kernels : list) {
    if (kernels == nullptr || (!options.rung.empty() && options.rung != kernels->name)) continue;
    const Limits limits = {fma_peak(options, kernels->name), bandwidth,
                           amx_peak(options, kernels->name)};
    std::printf("%s: FMA peak %.1f GFLOP/s", kernels->name, limits.flops / 1e9);
    if (limits.amx_flops > 0) std::printf(", AMX peak %.1f GFLOP/s", limits.amx_flops / 1e9);
    std::printf("\n");
    for (const WeightType type : all_types()) {
      if (!options.type.empty() && options.type != weight_type_name(type)) continue;
      for (const std::int64_t n_tokens : {1, 2, 4, 5, 8, 9, 16, 64, 512}) {
        if (options.n_rows != 0 && options.n_rows != n_tokens) continue;
        bench_matmul(options, *kernels, type, n_tokens, limits);
      }
    }
    if (!options.type.empty()) continue;
    bench_attention(options, *kernels, 1, 511, 1, limits);
    bench_attention(options, *kernels, 1, 511, 7, limits);
    bench_attention(options, *kernels, 1, 8191, 1, limits);
    bench_attention(options, *kernels, 1, 8191, 7, limits);
    bench_attention(options, *kernels, 512, 0, 1, limits);
    bench_attention(options, *kernels, 512, 0, 7, limits);
    bench_attention_of_reply(options, *kernels, 2048);
    bench_small(options, *kernels);
  }
  return 0;
}

}  // namespace
}  // namespace munia::kernels

int main(int argc, char** argv) {
  munia::kernels::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--threads")
      options.n_threads = std::max(1, std::atoi(argv[i + 1]));
    else if (flag == "--rung")
      options.rung = argv[i + 1];
    else if (flag == "--type")
      options.type = argv[i + 1];
    else if (flag == "--rows")
      options.n_rows = std::atoi(argv[i + 1]);
    else if (flag == "--kib")
      options.kib = std::atoi(argv[i + 1]);
    else if (flag == "--seconds")
      options.seconds = std::atof(argv[i + 1]);
    else
      return std::fprintf(stderr, "unknown flag %s\n", argv[i]), 2;
  }
  return munia::kernels::run(options);
}
