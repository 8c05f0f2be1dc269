// The CPUs that a thread may run on (sched_getaffinity, sched_setaffinity), for any number of CPUs.
#pragma once

#include <pthread.h>

#include <string>
#include <vector>

namespace munia {

/// The calling thread's affinity mask, ascending. Empty when the system does not tell.
std::vector<int> affinity_cpus();
/// Binds `thread` to `cpu` alone, or to any of `cpus`; 0 or an errno value.
int bind_thread(pthread_t thread, int cpu);
int bind_thread(pthread_t thread, const std::vector<int>& cpus);
/// "0,2-3" for {0, 2, 3}; `cpus` ascending.
std::string format_cpu_list(const std::vector<int>& cpus);

}  // namespace munia
