// What Python code sets before a model is loaded or asked: plain values, filled by munia/_model.py,
// which has checked their kinds. Ranges are checked by who uses them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decode/sampler.h"
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
  decode::SamplingParams sampling;
  std::vector<std::string> stops;

  engine::GenerateJob job(std::vector<std::int32_t> prompt) const;
};

/// Loads a directory, a .gguf or a packed .munia file. With the GIL; raises.
std::shared_ptr<Core> load_core(const std::string& path, const LoadSettings& settings);

}  // namespace munia::python
