// Screening: bounds of all outputs of a matrix from an 8-bit copy of it, to find which of them can
// be the largest without reading the matrix itself. Part of kernels.h; include that.
//
// Output n, in groups g of kScreenGroup columns: a weight is w[k] = s*c[k] + e[k] with an integer
// |c| <= 127 and the scale s of its group; an activation is x[k] = t*a[k] + f[k] with an integer
// |a| <= 32767. With all norms over a group and u = 2^-24:
//   sum w x = sum_g s t (sum c a)  +  sum_g s sum c f  +  sum_g sum e x
//   |sum c f| <= 127 |f|_1,   |sum e x| <= |e|_2 |x|_2         (Cauchy-Schwarz)
// The first part, the estimate, is an exact integer for each group, made a float, times fl(s t),
// added up by n_g fused operations: its rounding is at most (n_g + 2) u sum_g s t |sum c a| to
// first order, and |t sum c a| <= 127 (|x|_1 + |f|_1). The matmul kernel itself returns
//   |y - sum w x| <= E sum |w x| + 2^-100 (1 + sum |w|),   E = Kernels::matmul_error(n_cols),
// where sum |w x| <= sum_g (127 s |x|_1 + |e|_2 |x|_2). So |y - estimate| is at most
//   bound = 2^-98 + sum_g (r X + s B)   with r >= |e|_2 and
//   X = |x|_2 (1 + E) + 2^-86
//   B = 127 (|f|_1 + (E + (n_g + 4) u') (|x|_1 + |f|_1)) + 2^-86,   u' = 1.01 u,
// all times 1 + (2 n_g + 8) u', which pays for evaluating the bound in float32. The absolute terms
// hold what underflow can lose (each of at most 2^20 operations errs by 2^-120 at most), and two of
// the n_g + 4 roundings are those of estimate +- bound. X and B belong to the row of x, s and r to
// the copy, so the kernel adds two products a group. A row of w that is not finite, or beyond
// kScreenLimit, gets r = infinity: its bounds are infinite, it is never ruled out. Rows of x that
// are not finite or beyond kScreenLimit cannot be screened at all (prepare_screen_row).
//
// Why 16-bit activations: memory is what the copy costs, arithmetic is free beside it, and with
// them the error of the activations is a hundredth of that of the weights: about five candidates
// of 152,000 random outputs are left, with 8-bit ones about fifty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace munia::kernels {

inline constexpr std::int64_t kScreenGroup = 128;   // columns that share a scale
inline constexpr std::int64_t kScreenMaxRows = 16;  // rows of x in one call
inline constexpr float kScreenLimit = 0x1p+50F;     // largest magnitude in w and x
inline constexpr std::int64_t kScreenQuad = 4;      // groups are padded with zeros to a multiple

/// The 8-bit copy of a matrix [n_rows, n_cols], in panels of kPanelRows = 16 outputs. A panel is a
/// run of groups; a group of c columns (padded to c4) is
///   codes int8 [c4/2][16 outputs][2 columns],  s f32 [16],  r f32 [16].
struct ScreenMatrix {
  std::int64_t n_rows = 0;
  std::int64_t n_cols = 0;
  const std::byte* data = nullptr;  // [n_panels][panel_bytes], 64-aligned
  std::size_t panel_bytes = 0;
  std::int64_t n_panels() const { return (n_rows + 15) / 16; }
};
constexpr std::int64_t screen_groups(std::int64_t n_cols) {
  return (n_cols + kScreenGroup - 1) / kScreenGroup;
}
constexpr std::int64_t screen_padded_cols(std::int64_t n_cols) {
  return (n_cols + kScreenQuad - 1) / kScreenQuad * kScreenQuad;
}
constexpr std::size_t screen_panel_bytes(std::int64_t n_cols) {
  return static_cast<std::size_t>(screen_padded_cols(n_cols) * 16 + screen_groups(n_cols) * 128);
}

struct ScreenGroup {
  float scale = 0;     // t
  float residual = 0;  // X: multiplies r
  float rounding = 0;  // B: multiplies s
};
/// Rows of x, at most kScreenMaxRows, as prepare_screen_row makes them.
struct ScreenRows {
  const std::int16_t* codes = nullptr;  // [n_rows][screen_padded_cols(n_cols)], 4-aligned
  const ScreenGroup* groups = nullptr;  // [n_rows][screen_groups(n_cols)]
  std::int64_t n_rows = 0;
};
/// One row of x [n_cols] for screening against a matrix whose matmul errs by `matmul_error`. False
/// when x is not finite or beyond kScreenLimit; then nothing may be concluded.
bool prepare_screen_row(std::span<const float> x, double matmul_error, std::int16_t* codes,
                        ScreenGroup* groups);

/// Where the bounds go: lower[t][n] <= y[t][n] <= upper[t][n], at lower + t*row_stride + n.
struct ScreenOutput {
  float* lower = nullptr;
  float* upper = nullptr;
  std::int64_t row_stride = 0;  // in floats
};

}  // namespace munia::kernels
