// What both containers of weights look like from outside: named tensors with a type, a shape and
// borrowed bytes of a mapped file. The readers (gguf, safetensors) check every size against the
// file before they hand out a view; the model room maps the names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace munia::files {

enum class TensorType : std::uint8_t {
  kF32,
  kF16,
  kBf16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kOther,  // well-formed but not one munia computes with; see TensorView::type_name
};

/// One tensor; `bytes` borrows from the file object that gave it.
struct TensorView {
  std::string name;
  TensorType type = TensorType::kOther;
  std::string type_name;             // as the file spells it: "BF16", "Q4_K", "IQ2_XS", …
  std::vector<std::int64_t> shape;   // row-major, slowest first: [n_rows, n_cols] for a matrix
  std::span<const std::byte> bytes;  // empty for kOther whose size is not known
};

}  // namespace munia::files
