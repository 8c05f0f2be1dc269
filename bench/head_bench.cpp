// The head of one decoded token on Qwen1.5-0.5B's shape (151,936 x 1,024, BF16, seeded random
// weights): the full pass and its argmax against the two-step argmax, interleaved, with what
// screening leaves and the time that the 8-bit copy takes to make.
//
//   head_bench [--threads N] [--rung NAME] [--rounds N] [--rows M, as many as the rung screens]
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "model/head.h"

namespace munia::model {
namespace {

constexpr std::int64_t kVocab = 151936;
constexpr std::int64_t kHidden = 1024;

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Normal values by a sum of four uniform ones: quick, and close enough for weights.
float random_normal(std::uint64_t& state) {
  int sum = 0;
  for (int i = 0; i < 4; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    sum += static_cast<int>(state >> 48) - 32768;
  }
  return static_cast<float>(sum) * (0.02F / 37837.0F);
}

std::int64_t argmax(const float* logits) {
  float best = -std::numeric_limits<float>::infinity();
  std::int64_t id = 0;
  for (std::int64_t i = 0; i < kVocab; ++i) {
    if (logits[i] > best) {
      best = logits[i];
      id = i;
    }
  }
  return id;
}

struct Spread {
  double best, median;
};
Spread spread_of(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

int run(int n_threads, std::string_view rung, int n_rounds, std::int64_t n_rows) {
  const kernels::Kernels* k = kernels::select_kernels(rung);
  if (k == nullptr) return std::fprintf(stderr, "no such rung\n"), 2;
  n_rows = std::min(n_rows, k->screen_rows);
  ThreadPool pool({.n_threads = n_threads, .cpus = {}, .spin_us = 50});
  kernels::PackedMatrix head;
  head.type = kernels::WeightType::kBf16;
  head.n_rows = kVocab;
  head.n_cols = kHidden;
  head.panel_bytes = kernels::packed_panel_bytes(head.type, kHidden);
  AlignedBuffer memory(head.size_bytes());
  head.data = memory.data();
  pool.parallel_for(head.n_panels(), 16, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<std::uint16_t> rows(static_cast<std::size_t>(kernels::kPanelRows * kHidden));
    for (std::int64_t p = begin; p < end; ++p) {
      std::uint64_t state = static_cast<std::uint64_t>(p) * 7919 + 1;
      for (std::uint16_t& value : rows) {
        value =
            static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(random_normal(state)) >> 16);
      }
      const std::byte* sources[kernels::kPanelRows];
      for (std::int64_t i = 0; i < kernels::kPanelRows; ++i) {
        sources[i] = reinterpret_cast<const std::byte*>(rows.data() + i * kHidden);
      }
      kernels::pack_panel(head.type, sources, kHidden,
                          memory.data() + static_cast<std::size_t>(p) * head.panel_bytes);
    }
  });
  const double begin_copy = now_ms();
  const HeadScreen screen = make_head_screen(head, HeadMode::kScreened, *k, pool);
  std::printf("%s, %d threads, %lld rows: copy of %.1f MB made in %.0f ms (head: %.1f MB)\n",
              k->name, n_threads, static_cast<long long>(n_rows),
              static_cast<double>(screen.memory.size_bytes()) / 1e6, now_ms() - begin_copy,
              static_cast<double>(memory.size_bytes()) / 1e6);

  HeadScratch scratch(*k, kVocab, kHidden, n_threads, n_rows);
  Head step(head, screen, *k, pool, scratch);
  std::vector<float> logits(static_cast<std::size_t>(n_rows * kVocab));
  std::vector<LogitRow> rows(static_cast<std::size_t>(n_rows), LogitRow(0));
  std::vector<const LogitRow*> pointers;
  for (LogitRow& row : rows) {
    row.want = LogitRow::Want::kLargest;
    pointers.push_back(&row);
  }
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<double> full_times;
  std::vector<double> screened_times;
  std::int64_t different = 0;
  for (int round = 0; round < n_rounds; ++round) {
    std::vector<float> x(static_cast<std::size_t>(n_rows * kHidden));
    for (float& value : x) value = normal(random);
    std::vector<std::int64_t> want;
    const double begin = now_ms();
    step.all(x.data(), n_rows, logits.data());
    for (std::int64_t t = 0; t < n_rows; ++t)
      want.push_back(argmax(&logits[static_cast<std::size_t>(t * kVocab)]));
    const double middle = now_ms();
    step.largest(x.data(), pointers, logits.data());
    std::vector<std::int64_t> got;
    for (std::int64_t t = 0; t < n_rows; ++t)
      got.push_back(argmax(&logits[static_cast<std::size_t>(t * kVocab)]));
    const double end = now_ms();
    full_times.push_back(middle - begin);
    screened_times.push_back(end - middle);
    different += want == got ? 0 : 1;
  }
  const Spread full = spread_of(full_times);
  const Spread screened = spread_of(screened_times);
  const HeadCounts& counts = scratch.counts;
  const auto full_bytes = static_cast<double>(memory.size_bytes());
  std::printf("full      %7.2f ms (best %7.2f)  %6.2f GB/s\n", full.median, full.best,
              full_bytes / full.median / 1e6);
  std::printf("two-step  %7.2f ms (best %7.2f)  %6.2f GB/s of the copy, %.2f x (best %.2f x)\n",
              screened.median, screened.best,
              static_cast<double>(screen.memory.size_bytes()) / screened.median / 1e6,
              full.median / screened.median, full.best / screened.best);
  std::printf("survivors %.1f a row, %lld of %lld rows screened, %lld argmax different\n",
              static_cast<double>(counts.survivors) /
                  static_cast<double>(std::max<std::int64_t>(1, counts.rows_screened)),
              static_cast<long long>(counts.rows_screened),
              static_cast<long long>(n_rounds * n_rows), static_cast<long long>(different));
  return different == 0 ? 0 : 1;
}

}  // namespace
}  // namespace munia::model

int main(int argc, char** argv) {
  int n_threads = 1;
  int n_rounds = 40;
  std::int64_t n_rows = 1;
  std::string_view rung;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--threads")
      n_threads = std::max(1, std::atoi(argv[i + 1]));
    else if (flag == "--rung")
      rung = argv[i + 1];
    else if (flag == "--rounds")
      n_rounds = std::max(1, std::atoi(argv[i + 1]));
    else if (flag == "--rows")
      n_rows = std::max(1, std::atoi(argv[i + 1]));
    else
      return std::fprintf(stderr, "unknown flag %s\n", argv[i]), 2;
  }
  return munia::model::run(n_threads, rung, n_rounds, n_rows);
}
