// Screening of the scalar rung: plain loops that are the specification (screen.h). The vector rungs
// give the same bytes.
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/rungs.h"

namespace munia::kernels {
namespace {

#include "kernels/screen_pack.inc"

}  // namespace

void screen_pack_reference(const PackedMatrix& w, std::int64_t panel, std::byte* out) {
  const std::byte* source = w.data + static_cast<std::size_t>(panel) * w.panel_bytes;
  float wide[kScreenGroup * kPanelRows];
  for (std::int64_t begin = 0; begin < w.n_cols; begin += kScreenGroup) {
    const std::int64_t n = std::min(kScreenGroup, w.n_cols - begin);
    for (std::int64_t k = 0; k < n; ++k) {
      for (int lane = 0; lane < kPanelRows; ++lane) {
        wide[k * kPanelRows + lane] = packed_weight(w.type, source, w.n_cols, lane, begin + k);
      }
    }
    pack_screen_group(wide, n, out);
    out += screen_panel_bytes(n);
  }
}

void screen_reference(const ScreenMatrix& w, const ScreenRows& x, const ScreenOutput& out,
                      std::int64_t panel_begin, std::int64_t panel_end) {
  const std::int64_t n_groups = screen_groups(w.n_cols);
  const std::int64_t x_stride = screen_padded_cols(w.n_cols);
  const std::int64_t end = std::min(panel_end * kPanelRows, w.n_rows);
  for (std::int64_t n = panel_begin * kPanelRows; n < end; ++n) {
    const std::int64_t lane = n % kPanelRows;
    for (std::int64_t t = 0; t < x.n_rows; ++t) {
      const std::byte* at = w.data + static_cast<std::size_t>(n / kPanelRows) * w.panel_bytes;
      float estimate = 0;
      float bound = 0x1p-98F;
      for (std::int64_t g = 0; g < n_groups; ++g) {
        const std::int64_t first = g * kScreenGroup;
        const std::int64_t n_group_cols = std::min(kScreenGroup, x_stride - first);
        const auto* codes = reinterpret_cast<const std::int8_t*>(at);
        const auto* scales = reinterpret_cast<const float*>(at + n_group_cols * kPanelRows);
        std::int32_t sum = 0;  // at most 127 * 32767 * kScreenGroup < 2^30
        for (std::int64_t k = 0; k < n_group_cols; ++k) {
          sum += codes[(k / 2 * kPanelRows + lane) * 2 + k % 2] * x.codes[t * x_stride + first + k];
        }
        const ScreenGroup& group = x.groups[t * n_groups + g];
        const float s = scales[lane];
        estimate = std::fma(static_cast<float>(sum), s * group.scale, estimate);
        bound = std::fma(scales[kPanelRows + lane], group.residual, bound);
        bound = std::fma(s, group.rounding, bound);
        at += screen_panel_bytes(n_group_cols);
      }
      out.lower[t * out.row_stride + n] = estimate - bound;
      out.upper[t * out.row_stride + n] = estimate + bound;
    }
  }
}

double fma_matmul_error(std::int64_t n_cols) {
  const std::int64_t n_chains = (n_cols + kChainLength - 1) / kChainLength;
  return static_cast<double>(std::min(kChainLength, n_cols) + n_chains) * 1.01 * 0x1p-24;
}

}  // namespace munia::kernels
