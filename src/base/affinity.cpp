// Masks of growing size: cpu_set_t ends at 1,024 CPUs, and the kernel refuses a smaller buffer than
// its own mask.
#include "base/affinity.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>

namespace munia {
namespace {

constexpr int kMaxCpus = 1 << 18;

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, FreeCpuSet>;

}  // namespace

std::vector<int> affinity_cpus() {
  std::vector<int> cpus;
  for (int n_cpus = 1024; n_cpus <= kMaxCpus; n_cpus *= 4) {
    const CpuSet set(CPU_ALLOC(n_cpus));
    const std::size_t size_bytes = CPU_ALLOC_SIZE(n_cpus);
    if (!set) return cpus;
    CPU_ZERO_S(size_bytes, set.get());
    if (sched_getaffinity(0, size_bytes, set.get()) != 0) {
      if (errno == EINVAL) continue;  // the buffer is smaller than the kernel's mask
      return cpus;
    }
    for (int cpu = 0; cpu < n_cpus; ++cpu) {
      if (CPU_ISSET_S(cpu, size_bytes, set.get())) cpus.push_back(cpu);
    }
    return cpus;
  }
  return cpus;
}

int bind_thread(pthread_t thread, int cpu) { return bind_thread(thread, std::vector<int>{cpu}); }

int bind_thread(pthread_t thread, const std::vector<int>& cpus) {
  if (cpus.empty()) return EINVAL;
  const auto [lowest, highest] = std::minmax_element(cpus.begin(), cpus.end());
  if (*lowest < 0 || *highest >= kMaxCpus) return EINVAL;
  const CpuSet set(CPU_ALLOC(*highest + 1));
  if (!set) return ENOMEM;
  const std::size_t size_bytes = CPU_ALLOC_SIZE(*highest + 1);
  CPU_ZERO_S(size_bytes, set.get());
  for (const int cpu : cpus) CPU_SET_S(cpu, size_bytes, set.get());
  return pthread_setaffinity_np(thread, size_bytes, set.get());
}

std::string format_cpu_list(const std::vector<int>& cpus) {
  std::string list;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    if (!list.empty()) list += ',';
    list += std::to_string(cpus[i]);
    if (end - i > 1) list += '-' + std::to_string(cpus[end - 1]);
    i = end;
  }
  return list;
}

}  // namespace munia
