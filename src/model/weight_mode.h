// What a model's matrices are computed with: the values of its files, or munia's own 8- and 4-bit
// integers made from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace munia::model {

enum class WeightMode : std::uint8_t {
  kExact,  // as the files store them, with float32 accuracy
  kInt8,   // all matrices INT8
  kInt4,   // the blocks' matrices INT4; embedding and head INT8
};
std::string_view weight_mode_name(WeightMode mode);  // "exact", "int8", "int4"
std::optional<WeightMode> weight_mode_named(std::string_view name);

/// How `mode` stores a matrix that a file stores as `type`. Rows that are no multiple of 32 long
/// stay as they are.
kernels::WeightType stored_type(WeightMode mode, bool is_embedding_or_head,
                                kernels::WeightType type, std::int64_t n_cols);

/// Panel `panel` of the packed matrix `source` as a panel of `type` (INT8 or INT4) at `out`.
/// `spread`: of Kernels::quantize_panel. `floats` is made large enough, and then holds the panel as
/// float32 [n_cols][16].
void quantize_panel(const kernels::Kernels& kernels, const kernels::PackedMatrix& source,
                    std::int64_t panel, kernels::WeightType type, const float* spread,
                    std::vector<float>& floats, std::byte* out);

/// The form in which `mode` stores `source`, still without data.
kernels::PackedMatrix stored_form(WeightMode mode, bool is_embedding_or_head,
                                  const kernels::PackedMatrix& source);
/// Writes `source` in the form of `target` to `to` [target.size_bytes()], 64-aligned, which becomes
/// the target's data. `spread`: of Kernels::quantize_panel.
void store_matrix(const kernels::Kernels& kernels, const kernels::PackedMatrix& source,
                  const float* spread, kernels::PackedMatrix& target, std::byte* to,
                  ThreadPool& pool);

}  // namespace munia::model
