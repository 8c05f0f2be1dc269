// The measurements of munia bench, a function for each; cmd_bench.cpp holds the flags. Each prints
// its lines and adds its panels to the plot.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/bench_tools.h"

namespace munia::cli {

struct BenchRun {
  const Context& context;
  const Session& session;
  MachineLimits limits;
  std::int64_t n_decode = 32;
  std::int64_t repetitions = 5;
  std::int64_t seed = 1;
  std::vector<report::Panel> panels;

  const model::Model& model() const { return *session.bundle->model; }
  /// Another prompt for each number.
  std::vector<std::int32_t> prompt(std::int64_t n_tokens, std::int64_t number) const {
    return random_prompt(model(), n_tokens, seed * 1000003 + number);
  }
};

/// Prefill of these lengths and decoding, each alone. Returns the hash of the first prompt's
/// logits.
std::string bench_standard(BenchRun& run, const std::vector<std::int64_t>& lengths);
/// Prefill up to, and decoding at, each of these positions: time against bytes read, and memory
/// against the arithmetic of the KV cache.
void bench_positions(BenchRun& run, const std::vector<std::int64_t>& positions);
/// All tokens a second of so many sequences at once.
void bench_sequences(BenchRun& run, const std::vector<std::int64_t>& counts);
/// The latency of one reply step by step: no cache, cache, warm-up, streaming, threads.
void bench_ladder(BenchRun& run);

}  // namespace munia::cli
