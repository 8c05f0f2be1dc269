// demands.md rows 1, 2 and 7: machines stood for by small directory trees.
#include "base/cpu_topology.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "base/affinity.h"

namespace munia {
namespace {

namespace fs = std::filesystem;

std::vector<int> first_cpus(int n) {
  std::vector<int> cpus(static_cast<std::size_t>(n));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

class CpuTopologyTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "munia_cpu_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const fs::path full = root_ / path;
    fs::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void self_cgroup(const std::string& text) { write("proc", text); }
  void cpu(int id, int package, int core, const std::string& siblings = "") {
    const std::string directory = "sys/devices/system/cpu/cpu" + std::to_string(id) + "/topology/";
    write(directory + "physical_package_id", std::to_string(package) + "\n");
    write(directory + "core_id", std::to_string(core) + "\n");
    if (!siblings.empty()) write(directory + "thread_siblings_list", siblings + "\n");
  }
  std::optional<double> quota() const {
    return read_cpu_quota((root_ / "cgroup").string(), (root_ / "proc").string());
  }
  CpuTopology topology(const std::vector<int>& allowed) const {
    return cpu_topology_of(allowed, (root_ / "cgroup").string(), (root_ / "proc").string(),
                           (root_ / "sys").string());
  }

  fs::path root_;
};

TEST_F(CpuTopologyTest, TakesTheWholeCpusOfAV2Quota) {
  self_cgroup("0::/\n");
  const struct {
    const char* cpu_max;
    int n_threads;
    const char* reason;
  } cases[] = {
      {"400000 100000\n", 4, "4 threads: 16 physical cores of 16 allowed CPUs, a quota of 4 CPUs"},
      {"765000 100000\n", 7,
       "7 threads: 16 physical cores of 16 allowed CPUs, a quota of 7.65 CPUs"},
      {"50000 100000\n", 1, "1 thread: 16 physical cores of 16 allowed CPUs, a quota of 0.5 CPUs"},
      {"max 100000\n", 16, "16 threads: 16 physical cores of 16 allowed CPUs, no quota"},
      {"max\n", 16, "16 threads: 16 physical cores of 16 allowed CPUs, no quota"},
      {"200000\n", 2, "2 threads: 16 physical cores of 16 allowed CPUs, a quota of 2 CPUs"},
      {"100000 100000", 1, "1 thread: 16 physical cores of 16 allowed CPUs, a quota of 1 CPU"},
  };
  for (int i = 0; i < 16; ++i) cpu(i, 0, i);
  for (const auto& c : cases) {
    write("cgroup/cpu.max", c.cpu_max);
    const CpuTopology t = topology(first_cpus(16));
    EXPECT_EQ(t.n_threads, c.n_threads) << c.cpu_max;
    EXPECT_EQ(t.reason, c.reason);
  }
}

TEST_F(CpuTopologyTest, TakesTheTightestOfAllAncestors) {
  self_cgroup("0::/kubepods/pod1/main\n");
  write("cgroup/kubepods/cpu.max", "800000 100000\n");
  write("cgroup/kubepods/pod1/cpu.max", "150000 50000\n");
  write("cgroup/kubepods/pod1/main/cpu.max", "600000 100000\n");
  EXPECT_EQ(quota(), 3.0);  // the parent is tighter than the child
  write("cgroup/kubepods/pod1/main/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota(), 2.0);
  write("cgroup/kubepods/pod1/main/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 3.0);
  write("cgroup/kubepods/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(CpuTopologyTest, ReadsV1UnderItsMountNames) {
  for (const char* mount : {"cpu,cpuacct", "cpu", "cpuacct,cpu"}) {
    self_cgroup("5:memory:/docker/a\n4:" + std::string(mount) + ":/docker/a\n0::/\n");
    write("cgroup/" + std::string(mount) + "/docker/a/cpu.cfs_quota_us", "150000\n");
    write("cgroup/" + std::string(mount) + "/docker/a/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(quota(), 1.5) << mount;
    EXPECT_EQ(topology(first_cpus(4)).n_threads, 1);
    fs::remove_all(root_ / "cgroup");
  }
  // The group names both controllers, the mount is a link named "cpu".
  self_cgroup("4:cpu,cpuacct:/a\n");
  write("cgroup/cpu/a/cpu.cfs_quota_us", "300000\n");
  write("cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 3.0);
}

TEST_F(CpuTopologyTest, TakesTheTightestAncestorOfV1) {
  self_cgroup("4:cpu:/a/b\n");
  write("cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write("cgroup/cpu/a/cpu.cfs_quota_us", "200000\n");
  write("cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  write("cgroup/cpu/a/b/cpu.cfs_quota_us", "400000\n");
  write("cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 2.0);
  write("cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota(), 4.0);
}

// /proc shows the host's path, the mount is the container's own group.
TEST_F(CpuTopologyTest, FindsAContainersOwnGroupAtTheMount) {
  self_cgroup("4:cpu,cpuacct:/docker/0123\n");
  write("cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
  write("cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 2.5);
  self_cgroup("0::/../../outside\n");
  write("cgroup/cpu.max", "100000 100000\n");
  write("outside/cpu.max", "1000 100000\n");
  EXPECT_EQ(quota(), 1.0);
}

TEST_F(CpuTopologyTest, FindsTheMountsWithoutProc) {
  write("cgroup/cpu.max", "200000 100000\n");
  const CpuTopology t = topology(first_cpus(4));
  EXPECT_EQ(t.quota_cpus, 2.0);
  EXPECT_NE(t.reason.find("/proc cannot be read"), std::string::npos) << t.reason;
}

TEST_F(CpuTopologyTest, TakesNonsenseAsNoLimitAndSaysSo) {
  self_cgroup("0::/a:b\nnonsense\n\n:\n9:cpuset:/x\n");
  for (const char* bad : {"", "abc 100000", "-5 100000", "0 100000", "100000 0", "1e5 100000",
                          "99999999999999999999 100000", "100000 x"}) {
    write("cgroup/a:b/cpu.max", bad);
    const CpuTopology t = topology(first_cpus(3));
    EXPECT_FALSE(t.quota_cpus.has_value()) << bad;
    EXPECT_EQ(t.n_threads, 3);
    const bool told = t.reason.find("not understood") != std::string::npos;
    EXPECT_EQ(told, *bad != '\0') << t.reason;  // an empty file is as good as none
  }
  fs::remove_all(root_ / "cgroup");
  fs::create_directories(root_ / "cgroup/a:b/cpu.max");  // a directory in the file's place
  EXPECT_FALSE(quota().has_value());
  fs::remove(root_ / "proc");
  fs::create_directories(root_ / "proc");
  EXPECT_FALSE(quota().has_value());
}

// demands.md row 2: a virtual machine that shows every CPU as a package of one core.
TEST_F(CpuTopologyTest, CountsTwelvePackagesOfOneCore) {
  self_cgroup("0::/\n");
  for (int i = 0; i < 12; ++i) cpu(i, i, 0, std::to_string(i));
  const CpuTopology t = topology(first_cpus(12));
  EXPECT_EQ(t.n_physical_cores, 12);
  EXPECT_EQ(t.n_threads, 12);
}

// demands.md row 3: 6 P cores of two threads and 8 E cores, as Intel's hybrids show themselves.
TEST_F(CpuTopologyTest, CountsTheFastCoresOfAHybrid) {
  self_cgroup("0::/\n");
  for (int i = 0; i < 12; ++i) {
    cpu(i, 0, i / 2 * 4, std::to_string(i / 2 * 2) + "-" + std::to_string(i / 2 * 2 + 1));
  }
  for (int i = 12; i < 20; ++i) cpu(i, 0, 24 + i, std::to_string(i));
  write("sys/devices/cpu_core/cpus", "0-11\n");
  write("sys/devices/cpu_atom/cpus", "12-19\n");
  const CpuTopology t = topology(first_cpus(20));
  EXPECT_EQ(t.n_physical_cores, 14);
  EXPECT_EQ(t.n_fast_cores, 6);
  EXPECT_EQ(t.n_threads, 6);
  EXPECT_EQ(t.reason,
            "6 threads: 6 fast cores among 14 physical cores of 20 allowed CPUs, no quota");
  EXPECT_EQ(thread_counts_to_try(t), (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 12, 14}));
  EXPECT_EQ(topology({12, 13, 14}).n_threads, 3);  // a mask of E cores alone is all one kind
  EXPECT_EQ(topology({0, 1, 12, 13}).n_threads, 1);
}

TEST_F(CpuTopologyTest, CountsTheFastCoresByCapacity) {
  self_cgroup("0::/\n");
  const int capacities[] = {381, 381, 381, 381, 1009, 1009, 1024, 1024};
  for (int i = 0; i < 8; ++i) {
    cpu(i, 0, i);
    write("sys/devices/system/cpu/cpu" + std::to_string(i) + "/cpu_capacity",
          std::to_string(capacities[i]) + "\n");
  }
  EXPECT_EQ(topology(first_cpus(8)).n_fast_cores, 4);
  EXPECT_EQ(topology(first_cpus(8)).n_threads, 4);
  EXPECT_EQ(topology(first_cpus(4)).n_threads, 4);
}

// demands.md row 4: two sockets whose CPU numbers interleave; a small model stays on one.
TEST_F(CpuTopologyTest, StaysOnOneOfSeveralNodes) {
  self_cgroup("0::/\n");
  for (int i = 0; i < 16; ++i) cpu(i, i % 2, i / 2, std::to_string(i));
  write("sys/devices/system/node/online", "0-2\n");
  write("sys/devices/system/node/node0/cpulist", "0,2,4,6,8,10,12,14\n");
  write("sys/devices/system/node/node1/cpulist", "1,3,5,7,9,11,13,15\n");
  write("sys/devices/system/node/node2/cpulist", "\n");  // memory without CPUs
  const CpuTopology t = topology(first_cpus(16));
  EXPECT_EQ(t.n_nodes, 2);
  EXPECT_EQ(t.n_physical_cores, 16);
  EXPECT_EQ(t.n_threads, 8);
  ASSERT_EQ(t.node_cpus.size(), 8U);
  for (const int c : t.node_cpus) EXPECT_EQ(c % 2, t.node_cpus[0] % 2);
  EXPECT_NE(t.reason.find("8 threads: one of 2 memory nodes, CPUs "), t.reason.npos) << t.reason;
  EXPECT_EQ(thread_counts_to_try(t).back(), 16);

  const CpuTopology uneven = topology({0, 1, 3, 5});  // the mask leaves more of node 1
  EXPECT_EQ(uneven.node_cpus, (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(uneven.n_threads, 3);
  const CpuTopology one = topology({1, 3, 5, 7});
  EXPECT_EQ(one.n_nodes, 1);
  EXPECT_TRUE(one.node_cpus.empty());
  EXPECT_EQ(one.n_threads, 4);
}

TEST_F(CpuTopologyTest, TriesNoMoreThreadsThanQuotaAndMaskAllow) {
  self_cgroup("0::/\n");
  write("cgroup/cpu.max", "150000 100000\n");
  for (int i = 0; i < 4; ++i) cpu(i, 0, i);
  const CpuTopology t = topology(first_cpus(4));
  EXPECT_EQ(t.quota_cpus, 1.5);
  EXPECT_EQ(t.n_threads, 1);
  EXPECT_EQ(t.reason, "1 thread: 4 physical cores of 4 allowed CPUs, a quota of 1.5 CPUs");
  EXPECT_EQ(thread_counts_to_try(t), std::vector<int>{1});
  write("cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(thread_counts_to_try(topology({2})), std::vector<int>{1});
  EXPECT_EQ(thread_counts_to_try(topology(first_cpus(4))), (std::vector<int>{1, 2, 3, 4}));
  CpuTopology large;
  large.n_physical_cores = 96;
  EXPECT_EQ(thread_counts_to_try(large),
            (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96}));
}

// demands.md row 7: small and middle machines, with and without hyper-threads.
TEST_F(CpuTopologyTest, CountsCoresNotHyperThreads) {
  self_cgroup("0::/\n");
  for (int i = 0; i < 16; ++i) {
    cpu(i, 0, i % 8, std::to_string(i % 8) + "," + std::to_string(i % 8 + 8));
  }
  EXPECT_EQ(topology(first_cpus(16)).n_threads, 8);
  EXPECT_EQ(topology({0, 8}).n_threads, 1);  // both threads of one core
  EXPECT_EQ(topology({0, 9}).n_threads, 2);
  EXPECT_EQ(topology({5}).n_threads, 1);
  EXPECT_EQ(topology({5}).reason, "1 thread: 1 physical core of 1 allowed CPU, no quota");
  EXPECT_EQ(topology(first_cpus(2)).n_threads, 2);
}

TEST_F(CpuTopologyTest, CountsEqualNumbersInOtherDiesAsOtherCores) {
  self_cgroup("0::/\n");
  for (int i = 0; i < 4; ++i) {
    cpu(i, 0, i % 2);
    write("sys/devices/system/cpu/cpu" + std::to_string(i) + "/topology/die_id",
          std::to_string(i / 2));
  }
  EXPECT_EQ(topology(first_cpus(4)).n_threads, 4);
}

TEST_F(CpuTopologyTest, FallsBackOnTheMaskWhereTheTopologyIsMissingOrOdd) {
  self_cgroup("0::/\n");
  EXPECT_EQ(topology(first_cpus(6)).n_threads, 6);  // no sysfs at all
  EXPECT_EQ(topology(first_cpus(6)).reason,
            "6 threads: 6 allowed CPUs (the system does not tell their cores), no quota");
  for (int i = 0; i < 5; ++i) cpu(i, 0, i);
  EXPECT_EQ(topology(first_cpus(6)).n_threads, 6);  // one CPU lacks its files
  for (int i = 0; i < 6; ++i) cpu(i, 0, -1);
  EXPECT_EQ(topology(first_cpus(6)).n_threads, 6);
  for (int i = 0; i < 6; ++i) cpu(i, 0, 0, std::to_string(i));  // alone, yet one number
  EXPECT_EQ(topology(first_cpus(6)).n_threads, 6);
  for (int i = 0; i < 12; ++i) cpu(i, 0, 0);  // twelve threads on a core
  EXPECT_EQ(topology(first_cpus(12)).n_threads, 12);
  EXPECT_EQ(topology({}).n_threads, 1);
}

TEST_F(CpuTopologyTest, QuotaAndCoresBothBound) {
  self_cgroup("0::/\n");
  write("cgroup/cpu.max", "900000 100000\n");
  for (int i = 0; i < 4; ++i) cpu(i, 0, i);
  EXPECT_EQ(topology(first_cpus(4)).n_threads, 4);
  write("cgroup/cpu.max", "390000 100000\n");
  EXPECT_EQ(topology(first_cpus(4)).n_threads, 3);
}

TEST(CpuTopology, OfThisMachineIsWithinItsMask) {
  const CpuTopology t = detect_cpu_topology();
  EXPECT_EQ(t.allowed_cpus, affinity_cpus());
  EXPECT_GE(t.n_threads, 1);
  EXPECT_LE(t.n_threads, static_cast<int>(t.allowed_cpus.size()));
  EXPECT_FALSE(t.reason.empty());
  std::printf("%s\n", t.reason.c_str());
}

TEST(CpuList, Parses) {
  EXPECT_EQ(parse_cpu_list("0"), std::vector<int>{0});
  EXPECT_EQ(parse_cpu_list("0,2-3"), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(parse_cpu_list("3,1"), (std::vector<int>{3, 1}));
  for (const char* bad : {"", ",", "1,", "a", "3-1", "-1", "1-", "0-", "1--2", "0-9999999999",
                          "0-262144", " 1", "1 ", "0-262143,0-262143", "99999999999999999999"}) {
    EXPECT_TRUE(parse_cpu_list(bad).empty()) << bad;
  }
}

}  // namespace
}  // namespace munia
