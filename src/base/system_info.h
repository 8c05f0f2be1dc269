// Facts about the machine and this process, read from /proc and /sys: for bench,
// doctor and the metrics. What cannot be read is absent, never guessed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace munia {

/// First line of a small file without its newline; nothing when it cannot be read.
std::optional<std::string> first_line(const std::string& path);
/// The value behind "key:" in a file such as /proc/cpuinfo or /proc/self/status.
std::optional<std::string> keyed_value(const std::string& path, std::string_view key);
/// Resident memory of this process now (VmRSS), and the largest so far (VmHWM).
std::optional<std::uint64_t> resident_memory_bytes();
std::optional<std::uint64_t> peak_memory_bytes();
/// Memory of this process that no file stands behind, now (RssAnon).
std::optional<std::uint64_t> anonymous_memory_bytes();
/// Starts peak_memory_bytes() anew from what is resident now; false when the system does not do it.
bool reset_peak_memory();
/// What can still be allocated: the machine's available memory, or less in a container.
std::optional<std::uint64_t> free_memory_bytes();
/// Threads of this process now.
std::optional<std::uint64_t> process_threads();
/// Processor time of all threads of this process so far, user and system.
double process_cpu_seconds();

/// The flags of the CPU that matter for the kernels, in a fixed order: of x86 from /proc/cpuinfo,
/// of ARM what the system hands each process (HWCAP), under the names that /proc/cpuinfo has for
/// them.
std::vector<std::string> cpu_features();
/// The CPU's name in /proc/cpuinfo; ARM has none there: the board's, where the device tree tells
/// it.
std::optional<std::string> cpu_name(const std::string& proc_root = "/proc");

struct CgroupFacts {
  std::optional<std::uint64_t> memory_limit_bytes;  // tightest of all ancestors
  std::optional<std::uint64_t> throttled_periods;   // of this group
  std::optional<double> throttled_seconds;
};
/// cgroup v1 and v2; the roots are parameters so that fixtures can stand for machines.
CgroupFacts read_cgroup(const std::string& cgroup_root = "/sys/fs/cgroup",
                        const std::string& proc_self_cgroup = "/proc/self/cgroup");

}  // namespace munia
