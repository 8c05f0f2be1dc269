// What `munia tune` found out: thread counts for one model on one machine under one set of allowed
// CPUs, quota and instruction set. Kept in HOME/tuned.json beside the models; an entry that does
// not fit in every part is never used.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/cpu_topology.h"
#include "cli/context.h"

namespace munia::cli {

/// All that a measured thread count depends on.
struct TunedKey {
  std::string machine;  // digest of the processor's name and features, memory and machine id
  std::string model;    // its path
  std::string stamp;    // sizes and times of its files
  std::string cpus;     // allowed ones, "bound" behind those of --cpus
  std::string quota;    // of the container, or "none"
  std::string isa;
  bool operator==(const TunedKey&) const = default;
};
TunedKey tuned_key(const Context& context, const std::string& model_path,
                   const CpuTopology& topology);

struct TunedThreads {
  int threads = 1;         // for prompts
  int decode_threads = 1;  // for replies; at most `threads`
};

/// Median speeds, tokens a second, with so many threads.
struct CountSpeeds {
  int threads = 1;
  double prefill = 0;
  double decode = 0;
};
/// For each phase the fewest threads that are as good as the best. `rows` ascending, not empty.
TunedThreads pick_threads(const std::vector<CountSpeeds>& rows);

/// HOME/tuned.json; empty when no home is known.
std::string tuned_path(const Context& context);
/// The entry of `key`, or nothing: also when the file is absent or damaged.
std::optional<TunedThreads> find_tuned(const std::string& path, const TunedKey& key);
/// Puts the entry in the place of an older one of the same machine, model, CPUs, quota and
/// instruction set. Fails with status 1 when it cannot be written.
void store_tuned(const std::string& path, const TunedKey& key, const TunedThreads& threads,
                 const Context& context);
/// What tune found for this model here and now.
std::optional<TunedThreads> tuned_threads(const Context& context, const std::string& model_path,
                                          const CpuTopology& topology);

}  // namespace munia::cli
