// The only header of this room that others include: a table of function pointers for one rung of
// the instruction-set ladder, chosen at run time (select_kernels). reference.cpp is the
// specification; every other rung must give the same bytes (the FMA rungs all add in one order).
// The AMX rung adds BF16 and quantized weights in orders of its own (amx_matmul.inc,
// amx_codes.inc).
//
// The one order of additions for float weights and every number of rows (that for quantized weights
// is in digits.h, as integers for the most part):
//   total = 0
//   for each chain of kChainLength consecutive k (by absolute index):
//     acc = 0;  for k in the chain, ascending:  acc = fma(x[k], w[n][k], acc)
//     total = total + acc
// where w[n][k] is the float32 value that the stored weight stands for (see WeightType). Short
// chains keep the rounding error at or below that of a blocked BLAS (measured against float64 on
// tiny and real models: with chains of 256 munia erred up to 1.9 times as much as torch float32); a
// vector lane is one output, so the width of the vector never shows in the result. Attention mixes
// values in the same way, in chains of kChainLength absolute positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/screen.h"

namespace munia::kernels {

inline constexpr std::int64_t kPanelRows = 16;    // outputs that are packed side by side
inline constexpr std::int64_t kBlockCols = 256;   // k that are packed together
inline constexpr std::int64_t kChainLength = 64;  // products in one chain of additions
inline constexpr std::int64_t kPageTokens = 32;   // positions in one page of the KV cache

/// The name of the packed form that pack_panel writes and all rungs read, kept in packed files. Any
/// change of a byte of a panel needs a new name (pack_test.cpp has the sums of today's panels).
inline constexpr std::string_view kPackedLayout = "panels16-blocks256-v1";

/// How a weight is stored; its float32 value w is exact or rounded once, as the file format says:
///   kF32 the number; kF16, kBf16 widened;
///   kQ4_0 d*(q-8), kQ5_0 d*(q-16), kQ8_0 d*q, kQ4_1/kQ5_1 fl32(d*q + m), groups of 32;
///   kQ4K, kQ5K fl32(d*sc*q - dmin*m), super-blocks of 256 in groups of 32;
///   kQ6K d*sc*(q-32), super-blocks of 256 in groups of 16;
///   kInt8 d*(q-128), groups of 64; kInt4 fl32(d*sc*q - dmin*m), blocks of 256 in groups of 32:
///   munia's own, made from float32 source rows, multiplied with activations of two bytes
///   or one (narrow.h).
enum class WeightType : std::uint8_t {
  kF32,
  kF16,
  kBf16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4K,
  kQ5K,
  kQ6K,
  kInt8,
  kInt4,
};
std::string_view weight_type_name(WeightType type);  // "F32", "Q4_K", …
/// A set of weight types.
using WeightTypes = std::uint32_t;
constexpr WeightTypes only(WeightType type) {
  return WeightTypes{1} << static_cast<unsigned>(type);
}
/// Whether screen.h is for matrices of this type: F32, F16, BF16.
bool can_screen(WeightType type);

/// k per storage block: n_cols of a matrix must be a multiple (1 for the float types).
std::int64_t weight_block_cols(WeightType type);
/// Bytes of one row of n_cols weights as the file stores it (GGUF's block layout).
std::size_t source_row_bytes(WeightType type, std::int64_t n_cols);

/// A weight matrix w [n_rows, n_cols] in panels of kPanelRows rows. Borrowed bytes, 64-aligned.
struct PackedMatrix {
  WeightType type = WeightType::kF32;
  std::int64_t n_rows = 0;          // outputs; the last panel is padded with zero weights
  std::int64_t n_cols = 0;          // inputs (k)
  const std::byte* data = nullptr;  // [n_panels][panel_bytes]
  std::size_t panel_bytes = 0;      // multiple of 64
  std::int64_t n_panels() const { return (n_rows + kPanelRows - 1) / kPanelRows; }
  std::size_t size_bytes() const { return panel_bytes * static_cast<std::size_t>(n_panels()); }
};
std::size_t packed_panel_bytes(WeightType type, std::int64_t n_cols);
/// Packs kPanelRows source rows (each source_row_bytes long; nullptr stands for a row of zeros)
/// into one panel of packed_panel_bytes bytes at `panel`.
void pack_panel(WeightType type, const std::byte* const rows[kPanelRows], std::int64_t n_cols,
                std::byte* panel);

/// Inputs of matmul that stay the same for several matrices: rows of activations prepared once.
struct PreparedRows {
  const std::byte* data = nullptr;  // Kernels::prepared_bytes(n_rows, n_cols), 64-aligned
  std::int64_t n_rows = 0;
  std::int64_t n_cols = 0;
};

/// Where matmul's results go: y[t][n] at y + t*row_stride + n.
struct MatmulOutput {
  float* y = nullptr;
  std::int64_t row_stride = 0;  // in floats
  const float* bias = nullptr;  // [n_rows of w] or nullptr: result = total + bias[n]
  bool accumulate = false;      // true: y = y + result (residual); false: y = result
};

/// One attention job: all query heads of one KV head, for consecutive tokens of one sequence.
/// Token i (0 <= i < n_tokens) is at absolute position pos_begin + i and sees keys 0..pos_begin+i.
struct AttentionArgs {
  const float* q = nullptr;         // head r of token i at q + i*q_token_stride + r*head_dim
  std::int64_t q_token_stride = 0;  // in floats
  std::int64_t n_tokens = 0;
  std::int64_t n_rep = 1;     // query heads per KV head, consecutive in q
  std::int64_t head_dim = 0;  // multiple of 16
  std::int64_t pos_begin = 0;
  const float* const* pages = nullptr;  // [ceil((pos_begin+n_tokens)/kPageTokens)] page addresses
  std::int64_t page_offset = 0;  // floats from a page's address to this layer's and head's part
  float scale = 0;               // score = dot(q, k) * scale
  float* out = nullptr;          // same layout as q
  std::int64_t out_token_stride = 0;  // in floats
};
// The part of a page at page_offset: K as panels [kPageTokens/16][head_dim][16 positions] f32, then
// V as rows [kPageTokens][head_dim] f32.

/// One rung. All pointers are set; none allocates, throws or keeps state between calls.
struct Kernels {
  const char* name;  // "scalar"; "avx2", "avx512", "amx", "amx-emulated"; "neon", "neon_dotprod"

  /// Bytes for PreparedRows of x [n_rows, n_cols].
  std::size_t (*prepared_bytes)(std::int64_t n_rows, std::int64_t n_cols);
  /// Rows that one unit of prepare_rows covers; unit i covers rows [i*prepare_unit_rows, …).
  std::int64_t prepare_unit_rows;
  /// Prepares units [unit_begin, unit_end) of x [n_rows, n_cols] f32 row-major into `prepared`, for
  /// matrices of `types`.
  void (*prepare_rows)(const float* x, std::int64_t n_rows, std::int64_t n_cols, WeightTypes types,
                       std::int64_t unit_begin, std::int64_t unit_end, std::byte* prepared);

  /// Bytes of scratch that one matmul call needs (per thread), for any matrix of n_cols.
  std::size_t (*matmul_scratch_bytes)(std::int64_t n_rows, std::int64_t n_cols);
  /// y[t][n] for all rows t of x and the outputs n of panels [panel_begin, panel_end) of w.
  void (*matmul)(const PackedMatrix& w, const PreparedRows& x, const MatmulOutput& out,
                 std::int64_t panel_begin, std::int64_t panel_end, std::byte* scratch);

  /// The E of screen.h: matmul's results y for n_cols inputs and float weights satisfy
  ///   |y - sum w x| <= E * sum |w x| + 2^-100 * (1 + sum |w|)
  /// for finite sums. A rung with another order of additions states its own.
  double (*matmul_error)(std::int64_t n_cols);
  /// The 8-bit copy of panel `panel` of w (can_screen(w.type)): screen_panel_bytes(w.n_cols) bytes
  /// at `out`.
  void (*screen_pack)(const PackedMatrix& w, std::int64_t panel, std::byte* out);
  /// Bounds of what matmul gives for the rows x and the outputs of panels [panel_begin, panel_end).
  void (*screen)(const ScreenMatrix& w, const ScreenRows& x, const ScreenOutput& out,
                 std::int64_t panel_begin, std::int64_t panel_end);
  /// Up to this many rows screening is less work than matmul (bench/head_bench); at most
  /// kScreenMaxRows. Few where only memory bounds matmul, more where products of integers are
  /// quicker than those of floats.
  std::int64_t screen_rows;

  /// Row `row` of w as float32: out [n_cols]. For the embedding.
  void (*unpack_row)(const PackedMatrix& w, std::int64_t row, float* out);

  /// All rows of panel `panel` of w as float32, k by k: out [n_cols][kPanelRows]. For quantizing.
  void (*unpack_panel)(const PackedMatrix& w, std::int64_t panel, float* out);
  /// The panel of `type`, INT8 or INT4, of 16 rows of float32 k by k: w [n_cols][kPanelRows]. The
  /// bytes are those of pack_panel of the same rows (quantize.cpp). `spread` [n_cols][kBlockCols]
  /// or nullptr, for INT4 alone: what the rounding of a weight does to those behind it.
  void (*quantize_panel)(WeightType type, const float* w, std::int64_t n_cols, const float* spread,
                         std::byte* panel);

  /// out[t][i] = weight[i] * (x[t][i] * (1 / sqrt(mean(x[t]^2) + eps))), as Hugging Face orders it.
  void (*rms_norm)(const float* x, const float* weight, float eps, std::int64_t n_rows,
                   std::int64_t dim, float* out);
  /// Rotates the pairs (i, i + head_dim/2) of each of n_heads heads of one token, in place:
  /// x [n_heads, head_dim], cos_sin [head_dim] = head_dim/2 cosines, then head_dim/2 sines.
  void (*rope)(float* x, std::int64_t n_heads, std::int64_t head_dim, const float* cos_sin);
  /// out[i] = gate[i] / (1 + exp(-gate[i])) * up[i]; out may be gate.
  void (*silu_mul)(const float* gate, const float* up, std::int64_t n, float* out);

  /// Bytes of scratch that one attention call needs (per thread).
  std::size_t (*attention_scratch_bytes)(std::int64_t n_tokens, std::int64_t n_rep,
                                         std::int64_t head_dim, std::int64_t n_keys);
  /// softmax(q k^T * scale) v for one AttentionArgs.
  void (*attention)(const AttentionArgs& args, std::byte* scratch);
};

/// The rungs that this machine can run, best last; always at least "scalar".
struct KernelList {
  const Kernels* rungs[8];
  int n_rungs;
};
KernelList available_kernels();
/// The best rung (`name` empty) or the one named; nullptr when this machine cannot run it or no
/// rung has that name. Tests also find "amx-emulated" (where AVX-512 is): the bytes of "amx"
/// without its instructions; it is slow, so available_kernels() does not offer it.
const Kernels* select_kernels(std::string_view name);

/// For measuring what the machine can do at most. FMAs in registers, with the vectors of the rung
/// named: returns the float32 operations done, 0 for a rung without such a loop.
double fma_probe(std::string_view rung, std::int64_t n_loops);
/// Reads every byte: `data` 64-aligned, `size_bytes` a multiple of 128.
void read_probe(const std::byte* data, std::size_t size_bytes);
/// Why "amx" is not among available_kernels(), in a few words; empty when it is.
std::string_view amx_problem();

/// The rung whose matmul says which bytes `rung` must give for weights of `type`: "scalar", or
/// "amx-emulated" for the types that the AMX rung adds in its own order.
const Kernels& byte_reference(const Kernels& rung, WeightType type);

}  // namespace munia::kernels
