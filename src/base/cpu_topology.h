// How many threads munia may use and why: the affinity mask, the container's CPU quota (cgroup v1
// and v2, the tightest of all ancestors) and the physical cores, their kinds and memory nodes.
// Roots are parameters so that fixtures can stand for machines.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace munia {

struct CpuTopology {
  std::vector<int> allowed_cpus;  // this process's affinity mask, ascending
  int n_physical_cores = 0;       // distinct (package, core) pairs among allowed_cpus
  int n_fast_cores = 0;        // those of the fastest kind (P cores, big cores); else all of them
  int n_nodes = 1;             // memory nodes (sockets) that hold allowed CPUs
  std::vector<int> node_cpus;  // with several nodes: the allowed CPUs of the one to stay on
  std::optional<double> quota_cpus;  // CPUs per period, tightest of all ancestors
  int n_threads = 1;                 // max(1, min(fast cores of one node, floor(quota)))
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

/// Thread counts worth trying, ascending: 1 to 8, then thinned, up to all physical cores of all
/// nodes and never more than the quota has whole CPUs.
std::vector<int> thread_counts_to_try(const CpuTopology& topology);

/// The quota alone, for tests: CPUs, or nothing when unlimited.
std::optional<double> read_cpu_quota(const std::string& cgroup_root,
                                     const std::string& proc_self_cgroup);
/// Parses a CPU list such as "0,2-3", in the order written; empty when it is not one.
std::vector<int> parse_cpu_list(const std::string& list);

}  // namespace munia
