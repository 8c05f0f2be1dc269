// One row's part of a packed block, taken apart: what reading a file's blocks (pack.cpp) and
// quantizing floats (quantize.cpp) hand to the packing of lanes.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/kernels.h"

namespace munia::kernels {

/// Up to 256 k of one row: codes as unsigned integers, scales as stored.
struct RowBlock {
  std::array<std::uint8_t, kBlockCols> q;
  std::array<std::uint16_t, 8> d;    // f16; one-level: a group each, two-level: [0]
  std::array<std::uint16_t, 8> min;  // f16 m, or dmin in [0]
  std::array<std::uint8_t, 16> sc;   // two-level scales (Q6_K: int8 bits)
  std::array<std::uint8_t, 8> m;     // two-level minima
};

/// n weights w (a multiple of 32, at most kBlockCols) as codes and scales of `type`, INT8 or INT4.
/// Weights that are not finite make the block's weights NaN. `spread` [n][kBlockCols] or nullptr:
/// quantize.cpp.
void quantize_block(WeightType type, const float* w, std::int64_t n, const float* spread,
                    RowBlock& out);

/// The panel of `type`, INT8 or INT4, of 16 rows [n_cols]; `spread` as in Kernels::quantize_panel.
void quantize_rows(WeightType type, const float* const rows[kPanelRows], std::int64_t n_cols,
                   const float* spread, std::byte* panel);

}  // namespace munia::kernels
