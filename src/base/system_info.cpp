#include "base/system_info.h"

#include <time.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace munia {
namespace {

#if defined(__aarch64__) && defined(__linux__)

std::vector<std::string> read_features() {
  const unsigned long first = getauxval(AT_HWCAP);
  const unsigned long second = getauxval(AT_HWCAP2);
  std::vector<std::string> present;
  if ((first & HWCAP_ASIMD) != 0) present.emplace_back("asimd");
  if ((first & HWCAP_ASIMDDP) != 0) present.emplace_back("asimddp");
  if ((second & HWCAP2_I8MM) != 0) present.emplace_back("i8mm");
  if ((second & HWCAP2_BF16) != 0) present.emplace_back("bf16");
  if ((first & HWCAP_SVE) != 0) present.emplace_back("sve");
  return present;
}

#else

constexpr const char* kFeatures[] = {"avx2",     "fma",      "f16c",        "avx512f",
                                     "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
                                     "avx_vnni", "amx_bf16", "amx_int8"};

std::vector<std::string> read_features() {
  std::istringstream words(keyed_value("/proc/cpuinfo", "flags").value_or(""));
  std::vector<std::string> all;
  for (std::string word; words >> word;) all.push_back(word);
  std::vector<std::string> present;
  for (const char* feature : kFeatures) {
    if (std::find(all.begin(), all.end(), feature) != all.end()) present.emplace_back(feature);
  }
  return present;
}

#endif

std::optional<std::uint64_t> number(const std::optional<std::string>& text) {
  std::uint64_t value = 0;
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end == text->data()) return std::nullopt;
  return value;
}

/// The value of a line "key VALUE" (cpu.stat, memory.stat).
std::optional<std::uint64_t> spaced_value(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (name == key) return value;
  }
  return std::nullopt;
}

/// The group's directory and all its ancestors up to the controller's root.
std::vector<std::string> group_directories(const std::string& root, std::string group) {
  std::vector<std::string> out;
  while (!group.empty() && group != "/") {
    out.push_back(root + group);
    group.erase(group.find_last_of('/'));
  }
  out.push_back(root);
  return out;
}

struct Groups {
  std::vector<std::string> v2;
  std::vector<std::string> v1_memory;
  std::vector<std::string> v1_cpu;
};

Groups find_groups(const std::string& root, const std::string& proc_self_cgroup) {
  Groups groups;
  std::ifstream file(proc_self_cgroup);
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) groups.v2 = group_directories(root, group);
    std::istringstream names(controllers);
    std::string name;
    while (std::getline(names, name, ',')) {
      if (name == "memory") groups.v1_memory = group_directories(root + "/memory", group);
      if (name == "cpu") groups.v1_cpu = group_directories(root + "/" + controllers, group);
    }
  }
  return groups;
}

void take_limit(std::optional<std::uint64_t>& limit, const std::optional<std::string>& text) {
  constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 60;  // v1 writes a huge number
  const auto value = number(text);
  if (value && *value < kUnlimited) limit = std::min(limit.value_or(*value), *value);
}

/// An amount of /proc/self/status, which is in KiB.
std::optional<std::uint64_t> status_bytes(std::string_view key) {
  const auto kib = number(keyed_value("/proc/self/status", key));
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

}  // namespace

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<std::string> keyed_value(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string_view name(line.data(), colon);
    while (name.ends_with('\t') || name.ends_with(' ')) name.remove_suffix(1);
    if (name != key) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> resident_memory_bytes() { return status_bytes("VmRSS"); }
std::optional<std::uint64_t> peak_memory_bytes() { return status_bytes("VmHWM"); }
std::optional<std::uint64_t> anonymous_memory_bytes() { return status_bytes("RssAnon"); }

bool reset_peak_memory() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;  // proc(5): 5 resets VmHWM
  return file.good();
}

std::optional<std::uint64_t> free_memory_bytes() {
  const auto kilobytes = number(keyed_value("/proc/meminfo", "MemAvailable"));
  if (!kilobytes) return std::nullopt;
  std::uint64_t room = *kilobytes * 1024;
  if (const auto limit = read_cgroup().memory_limit_bytes) {
    const std::uint64_t used = anonymous_memory_bytes().value_or(0);
    room = std::min(room, *limit > used ? *limit - used : 0);
  }
  return room;
}

std::optional<std::uint64_t> process_threads() {
  return number(keyed_value("/proc/self/status", "Threads"));
}

double process_cpu_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::vector<std::string> cpu_features() { return read_features(); }

std::optional<std::string> cpu_name(const std::string& proc_root) {
  std::optional<std::string> name = keyed_value(proc_root + "/cpuinfo", "model name");
  if (name) return name;
  name = first_line(proc_root + "/device-tree/model");
  while (name && name->ends_with('\0')) name->pop_back();  // the tree's texts end so
  return name;
}

CgroupFacts read_cgroup(const std::string& cgroup_root, const std::string& proc_self_cgroup) {
  const Groups groups = find_groups(cgroup_root, proc_self_cgroup);
  CgroupFacts facts;
  for (const std::string& dir : groups.v2) {
    take_limit(facts.memory_limit_bytes, first_line(dir + "/memory.max"));
  }
  for (const std::string& dir : groups.v1_memory) {
    take_limit(facts.memory_limit_bytes, first_line(dir + "/memory.limit_in_bytes"));
  }
  // The innermost directory that exists: in a container the group's path may be the host's.
  for (const auto* directories : {&groups.v2, &groups.v1_cpu}) {
    for (const std::string& dir : *directories) {
      const std::string stat = dir + "/cpu.stat";
      if (facts.throttled_periods) break;
      facts.throttled_periods = spaced_value(stat, "nr_throttled");
      if (const auto us = spaced_value(stat, "throttled_usec")) {
        facts.throttled_seconds = static_cast<double>(*us) * 1e-6;
      } else if (const auto ns = spaced_value(stat, "throttled_time")) {
        facts.throttled_seconds = static_cast<double>(*ns) * 1e-9;
      }
    }
  }
  return facts;
}

}  // namespace munia
