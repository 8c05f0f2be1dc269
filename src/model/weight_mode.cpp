#include "model/weight_mode.h"

#include <cstring>

namespace munia::model {
namespace {

using kernels::WeightType;

constexpr WeightMode kModes[] = {WeightMode::kExact, WeightMode::kInt8, WeightMode::kInt4};

}  // namespace

std::string_view weight_mode_name(WeightMode mode) {
  switch (mode) {
    case WeightMode::kExact:
      return "exact";
    case WeightMode::kInt8:
      return "int8";
    case WeightMode::kInt4:
      return "int4";
  }
  return "?";
}

std::optional<WeightMode> weight_mode_named(std::string_view name) {
  for (const WeightMode mode : kModes) {
    if (weight_mode_name(mode) == name) return mode;
  }
  return std::nullopt;
}

WeightType stored_type(WeightMode mode, bool is_embedding_or_head, WeightType type,
                       std::int64_t n_cols) {
  if (mode == WeightMode::kExact) return type;
  const WeightType own =
      mode == WeightMode::kInt8 || is_embedding_or_head ? WeightType::kInt8 : WeightType::kInt4;
  return n_cols % kernels::weight_block_cols(own) == 0 ? own : type;
}

void quantize_panel(const kernels::Kernels& kernels, const kernels::PackedMatrix& source,
                    std::int64_t panel, WeightType type, const float* spread,
                    std::vector<float>& floats, std::byte* out) {
  floats.resize(static_cast<std::size_t>(kernels::kPanelRows * source.n_cols));
  kernels.unpack_panel(source, panel, floats.data());
  kernels.quantize_panel(type, floats.data(), source.n_cols, spread, out);
}

kernels::PackedMatrix stored_form(WeightMode mode, bool is_embedding_or_head,
                                  const kernels::PackedMatrix& source) {
  kernels::PackedMatrix target = source;
  target.type = stored_type(mode, is_embedding_or_head, source.type, source.n_cols);
  target.panel_bytes = kernels::packed_panel_bytes(target.type, target.n_cols);
  target.data = nullptr;
  return target;
}

void store_matrix(const kernels::Kernels& kernels, const kernels::PackedMatrix& source,
                  const float* spread, kernels::PackedMatrix& target, std::byte* to,
                  ThreadPool& pool) {
  pool.parallel_for(source.n_panels(), 16, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> floats;
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::size_t offset = static_cast<std::size_t>(panel) * target.panel_bytes;
      if (target.type == source.type) {
        std::memcpy(to + offset, source.data + offset, target.panel_bytes);
      } else {
        quantize_panel(kernels, source, panel, target.type, spread, floats, to + offset);
      }
    }
  });
  target.data = to;
}

}  // namespace munia::model
