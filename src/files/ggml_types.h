// The tensor types of the ggml project by their ids in a GGUF file: name, values a block, bytes
// a block, and which of them munia computes with.
// Source: the ggml project's gguf Python package, gguf/constants.py (GGML_QUANT_SIZES).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "files/tensor_file.h"

namespace munia::files {

struct GgmlType {
  std::uint32_t id;
  std::string_view name;
  std::uint32_t block_values;  // values along the fastest dimension that share a block
  std::uint32_t block_bytes;   // 0: a withdrawn type whose size is not known here
  TensorType type;
};

/// nullptr for an id that no known version of ggml gave out.
const GgmlType* find_ggml_type(std::uint32_t id);

/// The type's name, or "type ID" for an unknown one.
std::string ggml_type_name(std::uint32_t id);

}  // namespace munia::files
