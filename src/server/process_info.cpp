#include "server/process_info.h"

#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace munia::server {
namespace {

// The number behind `key` ("VmRSS:") in a file of lines "key value".
std::optional<std::uint64_t> number_after(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string first;
    std::uint64_t number = 0;
    if (words >> first && first == key && words >> number) return number;
  }
  return std::nullopt;
}

// Field 22 of /proc/self/stat in ticks since boot, plus the time of the boot. The name of the
// program, in brackets, may hold spaces.
double start_time() {
  std::ifstream file("/proc/self/stat");
  std::string content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t bracket = content.rfind(')');
  const auto boot = number_after("/proc/stat", "btime");
  if (bracket == std::string::npos || !boot) return 0;
  std::istringstream fields(content.substr(bracket + 1));
  std::string field;
  constexpr int kFirst = 3;
  constexpr int kStart = 22;
  for (int i = kFirst; i < kStart; ++i) fields >> field;
  double ticks = 0;
  fields >> ticks;
  return static_cast<double>(*boot) + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

ProcessInfo read_process_info() {
  ProcessInfo info;
  constexpr const char* kStatus = "/proc/self/status";
  constexpr std::uint64_t kKib = 1024;
  info.resident_bytes = number_after(kStatus, "VmRSS:").value_or(0) * kKib;
  info.peak_resident_bytes = number_after(kStatus, "VmHWM:").value_or(0) * kKib;
  info.n_threads = number_after(kStatus, "Threads:").value_or(0);
  timespec cpu{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0) {
    info.cpu_seconds = static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) * 1e-9;
  }
  static const double kStartTime = start_time();
  info.start_time_seconds = kStartTime;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    ++info.n_open_fds;
  }
  info.n_throttled_periods = number_after("/sys/fs/cgroup/cpu.stat", "nr_throttled");
  if (!info.n_throttled_periods) {
    info.n_throttled_periods = number_after("/sys/fs/cgroup/cpu/cpu.stat", "nr_throttled");
  }
  return info;
}

}  // namespace munia::server
