// What the kernel tells about this process, for the metrics: memory, CPU time, open files.
#pragma once

#include <cstdint>
#include <optional>

namespace munia::server {

struct ProcessInfo {
  std::uint64_t resident_bytes = 0;
  std::uint64_t peak_resident_bytes = 0;
  double cpu_seconds = 0;
  double start_time_seconds = 0;  // Unix time
  std::uint64_t n_open_fds = 0;
  std::uint64_t n_threads = 0;
  std::optional<std::uint64_t> n_throttled_periods;  // of the cgroup's CPU quota
};

/// Fields that cannot be read are 0.
ProcessInfo read_process_info();

}  // namespace munia::server
