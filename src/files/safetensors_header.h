// The JSON header of a safetensors file, read into a list. Knows the grammar of the header only;
// whether the offsets fit the file is checked by safetensors.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace munia::files {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;  // slowest first; empty for a scalar
  std::uint64_t begin = 0;          // [begin, end) in the data after the header
  std::uint64_t end = 0;
};

/// In the order of the header. Names may repeat (the caller keeps the index of names). The error's
/// message is to be put after the file's name.
Result<std::vector<SafetensorsEntry>> parse_safetensors_header(std::string_view json);

}  // namespace munia::files
