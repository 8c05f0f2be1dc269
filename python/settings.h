// What Python code sets before a model is loaded or asked: plain values, filled by munia/_model.py,
// which has checked their kinds. Ranges are checked by who uses them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decode/beam.h"
#include "decode/sampler.h"
#include "grammar/grammar.h"
#include "python/core.h"

namespace munia::python {

struct LoadSettings {
  std::string weights;  // "": exact, or what a packed file holds
  int threads = 0;      // 0: as many as affinity and container quota allow
  std::vector<int> cpus;
  std::int64_t context = 0;  // 0: the model's own, at most 4,096
  std::string isa;
  bool kv_cache = true;
  bool map_packed = false;
  bool verify = false;
  std::int64_t max_sequences = 16;
};

struct ReplySettings {
  std::int64_t max_tokens = 128;
  std::int64_t min_tokens = 0;
  decode::SamplingParams sampling;
  decode::BeamParams beams;
  std::vector<std::string> stops;
  grammar::GrammarPtr constraint;  // of the reply's form; null: free text

  /// "true", "false" or "never". Raises ValueError, as the following do.
  void set_early_stopping(const std::string& name);
  void set_json_schema(const std::string& schema);  // as JSON
  void set_regex(const std::string& pattern);
  void set_choice(std::vector<std::string> choices);

  engine::GenerateJob job(std::vector<std::int32_t> prompt) const;
};

/// Loads a directory, a .gguf or a packed .munia file. With the GIL; raises.
std::shared_ptr<Core> load_core(const std::string& path, const LoadSettings& settings);

}  // namespace munia::python
