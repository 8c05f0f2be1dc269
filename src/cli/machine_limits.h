// What this machine can do at most with the threads at hand, measured in about a second: float32
// FMAs, and reading memory in huge and in small pages. Speeds are told as shares of it.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/thread_pool.h"

namespace munia::cli {

struct MachineLimits {
  double flops = 0;           // float32 operations a second; 0: no loop for this rung
  double huge_bytes = 0;      // bytes read a second from memory in huge pages
  double small_bytes = 0;     // the same in pages of 4 KiB
  std::size_t footprint = 0;  // bytes that were read in a pass
};

/// Reads `footprint` bytes a pass: as many as the model, for a cache that holds a part of it helps
/// both alike. Less when memory is short. All of it is given back.
MachineLimits measure_limits(std::string_view rung, ThreadPool& pool, std::size_t footprint);

/// `part` of `whole` in percent; 0 where `whole` is not known.
double percent_of(double part, double whole);

}  // namespace munia::cli
