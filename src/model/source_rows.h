// The rows of a file's tensors as the kernels pack them: as they stand, or, of GGUF types without a
// packed form of their own, in the form of another type that holds the same values. Nothing is
// rounded that the file's own decoder does not round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "files/tensor_file.h"
#include "kernels/kernels.h"

namespace munia::model {

struct SourceRows {
  kernels::WeightType type = kernels::WeightType::kF32;  // that pack_panel takes
  std::int64_t block_cols = 1;                           // columns of a block of the file
  std::size_t block_bytes = 4;                           // of the file
  /// Makes source_row_bytes(type, n_cols) bytes at `out` of a row of the file; nullptr: the row is
  /// taken as it is.
  void (*convert)(const std::byte* row, std::int64_t n_cols, std::byte* out) = nullptr;

  /// Bytes of a row in the file; n_cols is a multiple of block_cols.
  std::size_t row_bytes(std::int64_t n_cols) const {
    return static_cast<std::size_t>(n_cols / block_cols) * block_bytes;
  }
};

/// How the rows of `tensor` are taken; an Error that names the tensor and the types for one that
/// munia does not compute.
Result<SourceRows> source_rows(const files::TensorView& tensor);

/// n values of F16 or BF16 as float32, exactly.
std::vector<float> widen_floats(kernels::WeightType type, const std::byte* values, std::int64_t n);

/// Q3_K as Q6_K: both are d * sc * (q - offset) in groups of 16 columns, Q3_K with fewer bits.
void q3k_as_q6k(const std::byte* row, std::int64_t n_cols, std::byte* out);
/// Q2_K as F32: fl32(d * sc * q - dmin * m), the one rounding that ggml makes.
void q2k_as_f32(const std::byte* row, std::int64_t n_cols, std::byte* out);

}  // namespace munia::model
