// How many threads munia may use and why: the affinity mask, the container's CPU quota (cgroup v1
// and v2, the tightest of all ancestors) and the physical cores. Roots are parameters so that
// fixtures can stand for machines.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace munia {

struct CpuTopology {
  std::vector<int> allowed_cpus;     // this process's affinity mask, ascending
  int n_physical_cores = 0;          // distinct (package, core) pairs among allowed_cpus
  std::optional<double> quota_cpus;  // CPUs per period, tightest of all ancestors
  int n_threads = 1;                 // max(1, min(physical cores, floor(quota)))
  std::string reason;  // one line: "2 threads: 2 physical cores of 2 allowed CPUs, no quota"
};

/// `cgroup_root` is usually "/sys/fs/cgroup", `proc_self_cgroup` "/proc/self/cgroup", `sysfs_root`
/// "/sys". What cannot be read counts as no limit and is said in `reason`.
CpuTopology detect_cpu_topology(const std::string& cgroup_root = "/sys/fs/cgroup",
                                const std::string& proc_self_cgroup = "/proc/self/cgroup",
                                const std::string& sysfs_root = "/sys");

/// The same for a process that may run on `allowed_cpus` (ascending) instead of this one's mask.
CpuTopology cpu_topology_of(std::vector<int> allowed_cpus, const std::string& cgroup_root,
                            const std::string& proc_self_cgroup, const std::string& sysfs_root);

/// The quota alone, for tests: CPUs, or nothing when unlimited.
std::optional<double> read_cpu_quota(const std::string& cgroup_root,
                                     const std::string& proc_self_cgroup);
/// Parses a CPU list such as "0,2-3", in the order written; empty when it is not one.
std::vector<int> parse_cpu_list(const std::string& list);

}  // namespace munia
