#include "server/process_info.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/system_info.h"

namespace munia::server {
namespace {

// Unix time of the boot; 0 if it cannot be read.
double boot_time() {
  std::ifstream file("/proc/stat");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string key;
    double seconds = 0;
    if (words >> key && key == "btime" && words >> seconds) return seconds;
  }
  return 0;
}

// Field 22 of /proc/self/stat in ticks since boot, plus the time of the boot. The name of the
// program, in brackets, may hold spaces.
double start_time() {
  std::ifstream file("/proc/self/stat");
  std::string content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t bracket = content.rfind(')');
  if (bracket == std::string::npos) return 0;
  std::istringstream fields(content.substr(bracket + 1));
  std::string field;
  constexpr int kFirst = 3;
  constexpr int kStart = 22;
  for (int i = kFirst; i < kStart; ++i) fields >> field;
  double ticks = 0;
  fields >> ticks;
  return boot_time() + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

ProcessInfo read_process_info() {
  ProcessInfo info;
  info.resident_bytes = resident_memory_bytes().value_or(0);
  info.peak_resident_bytes = peak_memory_bytes().value_or(0);
  info.n_threads = process_threads().value_or(0);
  info.cpu_seconds = process_cpu_seconds();
  static const double kStartTime = start_time();
  info.start_time_seconds = kStartTime;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    ++info.n_open_fds;
  }
  info.n_throttled_periods = read_cgroup().throttled_periods;
  return info;
}

}  // namespace munia::server
