// Reads the three things that bound the number of threads. Text files only, so that directories of
// fixtures can stand for machines.
//
// Cores come from sysfs and not from hwloc: hwloc takes another file-system root only by an
// environment variable, which a library must not touch, and its XML and synthetic forms would test
// its parser rather than what a broken machine shows. It also counts CPUs outside the affinity mask
// of `taskset`. Two to four small numbers per allowed CPU are all that is needed here.
#include "base/cpu_topology.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "base/affinity.h"

namespace munia {
namespace {

constexpr int kMaxCpus = 1 << 18;
constexpr int kMaxThreadsPerCore = 8;  // the most that any CPU which runs Linux has (POWER)
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 16;

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(kMaxFileBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || file.gcount() <= 0) return std::nullopt;  // a directory ends here, too
  text.resize(static_cast<std::size_t>(file.gcount()));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> read_integer(const std::string& path) {
  const auto text = read_text(path);
  return text ? parse_integer(*text) : std::nullopt;
}

struct Quota {
  std::optional<double> cpus;  // tightest so far
  std::string trouble;         // what could not be read, for `reason`

  void tighten(std::int64_t quota_us, std::int64_t period_us) {
    const double limit = static_cast<double>(quota_us) / static_cast<double>(period_us);
    cpus = cpus ? std::min(*cpus, limit) : limit;
  }
};

// cgroup v2: "max 100000", "400000 100000", or the quota alone.
void read_v2_limit(const std::string& directory, Quota& quota) {
  const auto text = read_text(directory + "/cpu.max");
  if (!text) return;  // the root of the hierarchy has none
  const auto fields = split(*text, ' ');
  if (fields[0] == "max") return;
  const auto limit_us = parse_integer(fields[0]);
  const auto period_us = fields.size() > 1 ? parse_integer(fields[1]) : 100000;
  if (!limit_us || !period_us || *limit_us < 1 || *period_us < 1) {
    quota.trouble = directory + "/cpu.max is not understood";
    return;
  }
  quota.tighten(*limit_us, *period_us);
}

// cgroup v1: two files, -1 for no limit.
void read_v1_limit(const std::string& directory, Quota& quota) {
  const auto limit_text = read_text(directory + "/cpu.cfs_quota_us");
  if (!limit_text) return;
  const auto limit_us = parse_integer(*limit_text);
  if (limit_us == -1) return;
  const auto period_us = read_integer(directory + "/cpu.cfs_period_us");
  if (!limit_us || !period_us || *limit_us < 1 || *period_us < 1) {
    quota.trouble = directory + "/cpu.cfs_quota_us is not understood";
    return;
  }
  quota.tighten(*limit_us, *period_us);
}

// The directories of `path` under `mount`, from the mount itself down. Those that do not exist
// (a container sees its own group as the mount, while /proc may still show the host's path) simply
// have no files. A path with ".." lies outside what is mounted.
std::vector<std::string> ancestors(const std::string& mount, std::string_view path) {
  std::vector<std::string> directories{mount};
  const auto parts = split(path, '/');
  if (std::find(parts.begin(), parts.end(), "..") != parts.end()) return directories;
  for (const std::string_view part : parts) {
    if (part.empty()) continue;
    directories.push_back(directories.back() + '/' + std::string(part));
  }
  return directories;
}

Quota read_quota(const std::string& cgroup_root, const std::string& proc_self_cgroup) {
  Quota quota;
  const auto groups = read_text(proc_self_cgroup);
  if (!groups) quota.trouble = proc_self_cgroup + " cannot be read";
  // Without /proc the mounts themselves may still hold a container's limits.
  const std::string lines = groups ? *groups : "0::/\n1:cpu,cpuacct:/\n2:cpu:/";
  for (const std::string_view line : split(lines, '\n')) {
    // hierarchy-id:controllers:path; the path may hold further colons
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (controllers.empty()) {
      for (const std::string& directory : ancestors(cgroup_root, path)) {
        read_v2_limit(directory, quota);
      }
      continue;
    }
    const auto names = split(controllers, ',');
    if (std::find(names.begin(), names.end(), "cpu") == names.end()) continue;
    // Mounted under the controllers' joint name, its reverse, or a link named "cpu".
    std::vector<std::string> mounts{std::string(controllers), "cpu", "cpuacct,cpu"};
    std::sort(mounts.begin(), mounts.end());
    mounts.erase(std::unique(mounts.begin(), mounts.end()), mounts.end());
    for (const std::string& mount : mounts) {
      for (const std::string& directory : ancestors(cgroup_root + '/' + mount, path)) {
        read_v1_limit(directory, quota);
      }
    }
  }
  return quota;
}

// Distinct cores among `cpus`, or nothing when the files are missing or contradict themselves.
// Die and cluster are part of the key because some machines number cores anew in each.
std::optional<int> count_cores(const std::vector<int>& cpus, const std::string& sysfs_root) {
  std::map<std::array<std::int64_t, 4>, int> threads_of_core;
  for (const int cpu : cpus) {
    const std::string directory =
        sysfs_root + "/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    const auto package = read_integer(directory + "physical_package_id");
    const auto core = read_integer(directory + "core_id");
    if (!package || !core || *core < 0) return std::nullopt;
    const std::array<std::int64_t, 4> key{*package, read_integer(directory + "die_id").value_or(0),
                                          read_integer(directory + "cluster_id").value_or(0),
                                          *core};
    const int n_threads = ++threads_of_core[key];
    if (n_threads > kMaxThreadsPerCore) return std::nullopt;
    // A CPU that is said to be alone on its core may not share the core's number with others.
    const auto siblings = read_text(directory + "thread_siblings_list");
    const std::size_t n_siblings = siblings ? parse_cpu_list(*siblings).size() : 0;
    if (n_siblings > 0 && n_threads > static_cast<int>(n_siblings)) return std::nullopt;
  }
  return static_cast<int>(threads_of_core.size());
}

// "1 thread", "2 threads"
std::string counted(std::size_t n, const std::string& noun) {
  return std::to_string(n) + ' ' + noun + (n == 1 ? "" : "s");
}

// The CPUs among `cpus` of the fastest kind. Empty where all are of one kind, or nothing tells.
// Intel's hybrids have a list for each kind, ARM a capacity for each CPU.
std::vector<int> fast_cpus(const std::vector<int>& cpus, const std::string& sysfs_root) {
  std::vector<int> fast;
  const auto performance = read_text(sysfs_root + "/devices/cpu_core/cpus");
  if (performance && read_text(sysfs_root + "/devices/cpu_atom/cpus")) {
    const std::vector<int> list = parse_cpu_list(*performance);
    std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(fast),
                 [&](int cpu) { return std::find(list.begin(), list.end(), cpu) != list.end(); });
  } else {
    std::vector<std::int64_t> capacities;
    for (const int cpu : cpus) {
      const auto capacity = read_integer(sysfs_root + "/devices/system/cpu/cpu" +
                                         std::to_string(cpu) + "/cpu_capacity");
      if (!capacity) return {};
      capacities.push_back(*capacity);
    }
    for (std::size_t i = 0; i < cpus.size(); ++i) {
      // Cores of one kind differ by some percent on some chips, kinds by a half and more.
      const auto most = *std::max_element(capacities.begin(), capacities.end());
      if (capacities[i] * 4 >= most * 3) fast.push_back(cpus[i]);
    }
  }
  return fast.size() == cpus.size() ? std::vector<int>{} : fast;
}

struct Nodes {
  int n_used = 1;           // nodes that hold some of the CPUs
  std::vector<int> chosen;  // with several: the CPUs of the largest; of equal ones, `here`'s node
};

Nodes read_nodes(const std::vector<int>& cpus, const std::string& sysfs_root, int here) {
  const std::string directory = sysfs_root + "/devices/system/node";
  const auto online = read_text(directory + "/online");
  Nodes nodes;
  if (!online) return nodes;
  nodes.n_used = 0;
  for (const int node : parse_cpu_list(*online)) {
    const auto text = read_text(directory + "/node" + std::to_string(node) + "/cpulist");
    const std::vector<int> list = text ? parse_cpu_list(*text) : std::vector<int>{};
    std::vector<int> inside;
    std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(inside),
                 [&](int cpu) { return std::find(list.begin(), list.end(), cpu) != list.end(); });
    if (inside.empty()) continue;  // memory only, or not ours
    ++nodes.n_used;
    const bool is_here = std::find(inside.begin(), inside.end(), here) != inside.end();
    if (inside.size() > nodes.chosen.size() || (inside.size() == nodes.chosen.size() && is_here)) {
      nodes.chosen = std::move(inside);
    }
  }
  if (nodes.n_used < 2) return {};
  return nodes;
}

std::string describe(const CpuTopology& topology, bool cores_known, const Quota& quota) {
  std::string text = counted(static_cast<std::size_t>(topology.n_threads), "thread") + ": ";
  const std::string allowed =
      counted(std::max<std::size_t>(topology.allowed_cpus.size(), 1), "allowed CPU");
  if (topology.n_nodes > 1) {
    text += "one of " + std::to_string(topology.n_nodes) + " memory nodes, CPUs " +
            format_cpu_list(topology.node_cpus) + "; ";
  }
  if (topology.n_fast_cores < topology.n_physical_cores) {
    text += counted(static_cast<std::size_t>(topology.n_fast_cores), "fast core") + " among ";
  }
  if (cores_known) {
    text += counted(static_cast<std::size_t>(topology.n_physical_cores), "physical core") + " of " +
            allowed;
  } else {
    text += allowed + " (the system does not tell their cores)";
  }
  if (quota.cpus) {
    char number[32];
    std::snprintf(number, sizeof number, "%.4g", *quota.cpus);
    text += std::string(", a quota of ") + number + (*quota.cpus == 1 ? " CPU" : " CPUs");
  } else {
    text += ", no quota";
  }
  if (!quota.trouble.empty()) text += " (" + quota.trouble + ")";
  return text;
}

}  // namespace

std::vector<int> parse_cpu_list(const std::string& list) {
  std::vector<int> cpus;
  for (const std::string_view item : split(list, ',')) {
    const std::size_t dash = item.find('-', 1);
    const auto first = parse_integer(item.substr(0, dash));
    const auto last = dash == item.npos ? first : parse_integer(item.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kMaxCpus) return {};
    if (cpus.size() + static_cast<std::size_t>(*last - *first) >= std::size_t{kMaxCpus}) return {};
    for (std::int64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

std::optional<double> read_cpu_quota(const std::string& cgroup_root,
                                     const std::string& proc_self_cgroup) {
  return read_quota(cgroup_root, proc_self_cgroup).cpus;
}

CpuTopology cpu_topology_of(std::vector<int> allowed_cpus, const std::string& cgroup_root,
                            const std::string& proc_self_cgroup, const std::string& sysfs_root) {
  CpuTopology topology;
  topology.allowed_cpus = std::move(allowed_cpus);
  const std::size_t n_allowed = std::max<std::size_t>(topology.allowed_cpus.size(), 1);
  const auto n_cores = count_cores(topology.allowed_cpus, sysfs_root);
  const bool cores_known = n_cores.value_or(0) > 0;
  topology.n_physical_cores = cores_known ? *n_cores : static_cast<int>(n_allowed);
  const Quota quota = read_quota(cgroup_root, proc_self_cgroup);
  topology.quota_cpus = quota.cpus;

  const auto cores_of = [&](const std::vector<int>& cpus) {
    return cores_known ? count_cores(cpus, sysfs_root).value_or(static_cast<int>(cpus.size()))
                       : static_cast<int>(cpus.size());
  };
  const std::vector<int> fast = fast_cpus(topology.allowed_cpus, sysfs_root);
  topology.n_fast_cores = fast.empty() ? topology.n_physical_cores : cores_of(fast);
  const Nodes nodes = read_nodes(topology.allowed_cpus, sysfs_root, sched_getcpu());
  topology.n_nodes = nodes.n_used;
  topology.node_cpus = nodes.chosen;

  topology.n_threads = topology.n_fast_cores;
  if (!nodes.chosen.empty()) {
    const std::vector<int> fast_here = fast_cpus(nodes.chosen, sysfs_root);
    topology.n_threads = cores_of(fast_here.empty() ? nodes.chosen : fast_here);
  }
  if (quota.cpus && *quota.cpus < topology.n_threads) {
    topology.n_threads = std::max(1, static_cast<int>(*quota.cpus));  // a quota is positive
  }
  topology.reason = describe(topology, cores_known, quota);
  return topology;
}

std::vector<int> thread_counts_to_try(const CpuTopology& topology) {
  int most = std::max(1, topology.n_physical_cores);
  if (topology.quota_cpus && *topology.quota_cpus < most) {
    most = std::max(1, static_cast<int>(*topology.quota_cpus));
  }
  std::vector<int> counts;
  int step = 1;
  for (int n = 1; n < most; n += step) {
    counts.push_back(n);
    // 8, 12, 16, 24, 32, 48, 64, …: half of the last power of two at a time
    if (n >= 8 && (n & (n - 1)) == 0) step = n / 2;
  }
  counts.push_back(most);
  return counts;
}

CpuTopology detect_cpu_topology(const std::string& cgroup_root, const std::string& proc_self_cgroup,
                                const std::string& sysfs_root) {
  std::vector<int> allowed = affinity_cpus();
  if (allowed.empty()) {  // no mask: all that are there
    const auto n_online = std::clamp<std::int64_t>(sysconf(_SC_NPROCESSORS_ONLN), 1, kMaxCpus);
    for (int cpu = 0; cpu < n_online; ++cpu) allowed.push_back(cpu);
  }
  return cpu_topology_of(std::move(allowed), cgroup_root, proc_self_cgroup, sysfs_root);
}

}  // namespace munia
