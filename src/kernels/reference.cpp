// The scalar rung: plain loops that are the specification of every kernel. The vector rungs are
// tested against these functions byte by byte, so the order of additions here is binding.
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/digits.h"
#include "kernels/narrow.h"
#include "kernels/packed_format.h"
#include "kernels/row_block.h"
#include "kernels/rungs.h"
#include "kernels/scalar_math.h"

namespace munia::kernels {
namespace {

// Rows of floats [n_rows][n_cols], then rows of FixedGroup [n_rows][n_digit_groups(n_cols)], then
// of NarrowGroup [n_rows][n_narrow_groups(n_cols)].
struct FixedGroup {
  std::int32_t x[kDigitCols];  // zeros behind the last column
  float to_float;
  float sum;  // of x, as a float
};

struct NarrowGroup {
  std::int32_t x[kNarrowCols];  // zeros behind the last column
  float to_float;
};

std::size_t floats_bytes(std::int64_t n_rows, std::int64_t n_cols) {
  return (static_cast<std::size_t>(n_rows * n_cols) * sizeof(float) + 63) / 64 * 64;
}

std::size_t narrow_offset(std::int64_t n_rows, std::int64_t n_cols) {
  return floats_bytes(n_rows, n_cols) +
         static_cast<std::size_t>(n_rows * n_digit_groups(n_cols)) * sizeof(FixedGroup);
}

std::size_t prepared_bytes(std::int64_t n_rows, std::int64_t n_cols) {
  return narrow_offset(n_rows, n_cols) +
         static_cast<std::size_t>(n_rows * n_narrow_groups(n_cols)) * sizeof(NarrowGroup);
}

/// The bits of the largest |x|.
std::uint32_t largest_bits(const float* x, std::int64_t n) {
  std::uint32_t largest = 0;  // of positive floats the larger has the larger bits
  for (std::int64_t k = 0; k < n; ++k) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[k]) & 0x7FFFFFFFU;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

NarrowGroup make_narrow_group(const float* x, std::int64_t n_cols) {
  const NarrowScale scale = narrow_scale(largest_bits(x, n_cols));
  NarrowGroup group = {};
  group.to_float = scale.to_float;
  for (std::int64_t k = 0; k < n_cols && scale.to_fixed != 0; ++k) {
    group.x[k] = static_cast<std::int32_t>(std::nearbyint(x[k] * scale.to_fixed));
  }
  return group;
}

FixedGroup make_fixed_group(const float* x, std::int64_t n_cols) {
  const DigitScale scale = digit_scale(largest_bits(x, n_cols));
  FixedGroup group = {};
  group.to_float = scale.to_float;
  std::int32_t sum = 0;
  for (std::int64_t k = 0; k < n_cols && scale.to_fixed != 0; ++k) {
    group.x[k] = static_cast<std::int32_t>(std::nearbyint(x[k] * scale.to_fixed));
    sum += group.x[k];
  }
  group.sum = static_cast<float>(sum) * scale.to_float;
  return group;
}

void prepare_rows(const float* x, std::int64_t n_rows, std::int64_t n_cols, WeightTypes types,
                  std::int64_t unit_begin, std::int64_t unit_end, std::byte* prepared) {
  auto* groups = reinterpret_cast<FixedGroup*>(prepared + floats_bytes(n_rows, n_cols));
  auto* narrow = reinterpret_cast<NarrowGroup*>(prepared + narrow_offset(n_rows, n_cols));
  const std::int64_t n_groups = n_digit_groups(n_cols);
  const std::int64_t n_narrow = n_narrow_groups(n_cols);
  for (std::int64_t t = unit_begin; t < unit_end && t < n_rows; ++t) {
    std::memcpy(prepared + static_cast<std::size_t>(t * n_cols) * sizeof(float), x + t * n_cols,
                static_cast<std::size_t>(n_cols) * sizeof(float));
    for (std::int64_t g = 0; g < n_groups && (types & kDigitTypes) != 0; ++g) {
      const std::int64_t k = g * kDigitCols;
      const std::int64_t rest = n_cols - k;
      groups[t * n_groups + g] =
          make_fixed_group(x + t * n_cols + k, rest < kDigitCols ? rest : kDigitCols);
    }
    for (std::int64_t g = 0; g < n_narrow && (types & kNarrowTypes) != 0; ++g) {
      const std::int64_t k = g * kNarrowCols;
      const std::int64_t rest = n_cols - k;
      narrow[t * n_narrow + g] =
          make_narrow_group(x + t * n_cols + k, rest < kNarrowCols ? rest : kNarrowCols);
    }
  }
}

std::size_t matmul_scratch_bytes(std::int64_t /*n_rows*/, std::int64_t n_cols) {
  static_assert(sizeof(PackedParts) >= sizeof(float));  // room for either
  return (static_cast<std::size_t>(n_cols) * sizeof(PackedParts) + 63) / 64 * 64;
}

/// The order of additions of kernels.h.
float dot(const float* x, const float* w, std::int64_t n) {
  float total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kChainLength) {
    const std::int64_t end = begin + kChainLength < n ? begin + kChainLength : n;
    float acc = 0;
    for (std::int64_t k = begin; k < end; ++k) acc = std::fma(x[k], w[k], acc);
    total = total + acc;
  }
  return total;
}

void unpack_row(const PackedMatrix& w, std::int64_t row, float* out) {
  const std::byte* panel = w.data + static_cast<std::size_t>(row / kPanelRows) * w.panel_bytes;
  for (std::int64_t k = 0; k < w.n_cols; ++k) {
    out[k] = packed_weight(w.type, panel, w.n_cols, static_cast<int>(row % kPanelRows), k);
  }
}

void unpack_panel(const PackedMatrix& w, std::int64_t panel, float* out) {
  const std::byte* data = w.data + static_cast<std::size_t>(panel) * w.panel_bytes;
  for (std::int64_t k = 0; k < w.n_cols; ++k) {
    for (std::int64_t lane = 0; lane < kPanelRows; ++lane) {
      out[k * kPanelRows + lane] = packed_weight(w.type, data, w.n_cols, static_cast<int>(lane), k);
    }
  }
}

void quantize_panel(WeightType type, const float* w, std::int64_t n_cols, const float* spread,
                    std::byte* panel) {
  std::vector<float> rows(static_cast<std::size_t>(kPanelRows * n_cols));
  const float* places[kPanelRows];
  for (std::int64_t lane = 0; lane < kPanelRows; ++lane) {
    float* row = rows.data() + lane * n_cols;
    for (std::int64_t k = 0; k < n_cols; ++k) row[k] = w[k * kPanelRows + lane];
    places[lane] = row;
  }
  quantize_rows(type, places, n_cols, spread, panel);
}

/// The arithmetic of digits.h: parts [n_cols] are one output's weights taken apart.
float dot_codes(const FixedGroup* groups, const PackedParts* parts, std::int64_t n_cols,
                WeightType type) {
  const PackedFormat format = packed_format(type);
  const int center = 1 << center_bits(type);
  float total = 0;
  for (std::int64_t block = 0; block < n_cols; block += kBlockCols) {
    const std::int64_t end = block + kBlockCols < n_cols ? block + kBlockCols : n_cols;
    float part = 0;
    for (std::int64_t begin = block; begin < end; begin += format.group) {
      const FixedGroup& group = groups[begin / kDigitCols];
      std::int32_t sums[kDigits] = {};
      for (std::int64_t k = begin; k < begin + format.group; ++k) {
        const Digits digits = split_digits(group.x[k % kDigitCols]);
        const auto code = static_cast<std::int32_t>(parts[k].q) - center;
        for (int i = 0; i < kDigits; ++i) sums[i] += code * digits.d[i];
      }
      const PackedParts& of_group = parts[begin];
      part = std::fma(of_group.scale * group.to_float, sum_of_digits(sums), part);
      if (format.has_min) {
        const float rest = std::fma(of_group.scale, static_cast<float>(center), of_group.addend);
        part = std::fma(rest, group.sum, part);
      }
    }
    total = total + part;
  }
  return total;
}

/// The arithmetic of narrow.h.
float dot_narrow(const NarrowGroup* groups, const PackedParts* parts, std::int64_t n_cols,
                 WeightType type) {
  const PackedFormat format = packed_format(type);
  const int center = 1 << center_bits(type);
  float total = 0;
  for (std::int64_t begin = 0; begin < n_cols; begin += format.group) {
    const std::int64_t end = begin + format.group < n_cols ? begin + format.group : n_cols;
    const NarrowGroup& group = groups[begin / kNarrowCols];
    const bool is_whole = narrow_digits(type) == 2;
    const float to_float = is_whole ? group.to_float : group.to_float * 256.0F;
    std::int32_t sum = 0;
    std::int32_t sum_x = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int32_t fixed = group.x[k % kNarrowCols];
      const std::int32_t x = is_whole ? fixed : narrow_high(fixed);
      sum += (static_cast<std::int32_t>(parts[k].q) - center) * x;
      sum_x += x;
    }
    const PackedParts& of_group = parts[begin];
    total = std::fma(of_group.scale * to_float, static_cast<float>(sum), total);
    if (format.has_min) {
      const float rest = std::fma(of_group.scale, static_cast<float>(center), of_group.addend);
      total = std::fma(rest, static_cast<float>(sum_x) * to_float, total);
    }
  }
  return total;
}

void write_output(const MatmulOutput& out, std::int64_t t, std::int64_t n, float result) {
  if (out.bias != nullptr) result = result + out.bias[n];
  float& y = out.y[t * out.row_stride + n];
  y = out.accumulate ? y + result : result;
}

void matmul(const PackedMatrix& w, const PreparedRows& x, const MatmulOutput& out,
            std::int64_t panel_begin, std::int64_t panel_end, std::byte* scratch) {
  const auto* rows = reinterpret_cast<const float*>(x.data);
  const auto* groups =
      reinterpret_cast<const FixedGroup*>(x.data + floats_bytes(x.n_rows, x.n_cols));
  const auto* narrow =
      reinterpret_cast<const NarrowGroup*>(x.data + narrow_offset(x.n_rows, x.n_cols));
  auto* weights = reinterpret_cast<float*>(scratch);      // [n_cols]
  auto* parts = reinterpret_cast<PackedParts*>(scratch);  // or these
  const std::int64_t end = panel_end * kPanelRows < w.n_rows ? panel_end * kPanelRows : w.n_rows;
  for (std::int64_t n = panel_begin * kPanelRows; n < end; ++n) {
    if (is_float_type(w.type)) {
      unpack_row(w, n, weights);
      for (std::int64_t t = 0; t < x.n_rows; ++t) {
        write_output(out, t, n, dot(rows + t * w.n_cols, weights, w.n_cols));
      }
      continue;
    }
    const std::byte* panel = w.data + static_cast<std::size_t>(n / kPanelRows) * w.panel_bytes;
    for (std::int64_t k = 0; k < w.n_cols; ++k) {
      parts[k] = packed_parts(w.type, panel, w.n_cols, static_cast<int>(n % kPanelRows), k);
    }
    for (std::int64_t t = 0; t < x.n_rows; ++t) {
      write_output(out, t, n,
                   is_narrow_type(w.type)
                       ? dot_narrow(narrow + t * n_narrow_groups(w.n_cols), parts, w.n_cols, w.type)
                       : dot_codes(groups + t * n_digit_groups(w.n_cols), parts, w.n_cols, w.type));
    }
  }
}

void rms_norm(const float* x, const float* weight, float eps, std::int64_t n_rows, std::int64_t dim,
              float* out) {
  for (std::int64_t t = 0; t < n_rows; ++t) {
    const float* row = x + t * dim;
    float squares[16] = {};
    for (std::int64_t i = 0; i < dim; ++i) {
      squares[i % 16] = std::fma(row[i], row[i], squares[i % 16]);
    }
    const float mean = sum_lanes(squares) / static_cast<float>(dim);
    const float inverse = 1.0F / std::sqrt(mean + eps);
    for (std::int64_t i = 0; i < dim; ++i) out[t * dim + i] = weight[i] * (row[i] * inverse);
  }
}

/// Hugging Face rounds both products before it adds them; so no fma here.
void rope(float* x, std::int64_t n_heads, std::int64_t head_dim, const float* cos_sin) {
  const std::int64_t half = head_dim / 2;
  for (std::int64_t h = 0; h < n_heads; ++h) {
    float* low = x + h * head_dim;
    float* high = low + half;
    for (std::int64_t i = 0; i < half; ++i) {
      const float a = low[i];
      const float b = high[i];
      low[i] = a * cos_sin[i] - b * cos_sin[half + i];
      high[i] = b * cos_sin[i] + a * cos_sin[half + i];
    }
  }
}

void silu_mul(const float* gate, const float* up, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = gate[i] / (1.0F + exp_f32(-gate[i])) * up[i];
  }
}

std::size_t attention_scratch_bytes(std::int64_t /*n_tokens*/, std::int64_t /*n_rep*/,
                                    std::int64_t /*head_dim*/, std::int64_t n_keys) {
  return (static_cast<std::size_t>(n_keys) * sizeof(float) + 63) / 64 * 64;
}

/// One query: q and out [head_dim], keys 0..n_keys-1.
void attend(const AttentionArgs& args, const float* q, std::int64_t n_keys, float* scores,
            float* out) {
  const std::int64_t dim = args.head_dim;
  float max = -std::numeric_limits<float>::infinity();
  for (std::int64_t key = 0; key < n_keys; ++key) {
    const std::int64_t slot = key % kPageTokens;
    const float* k_panel =
        args.pages[key / kPageTokens] + args.page_offset + slot / 16 * dim * 16 + slot % 16;
    float dot_product = 0;
    for (std::int64_t d = 0; d < dim; ++d) {
      dot_product = std::fma(q[d], k_panel[d * 16], dot_product);
    }
    scores[key] = dot_product * args.scale;
    if (scores[key] > max) max = scores[key];
  }
  float lanes[16] = {};
  for (std::int64_t key = 0; key < n_keys; ++key) {
    scores[key] = exp_f32(scores[key] - max);
    lanes[key % 16] += scores[key];
  }
  const float sum = sum_lanes(lanes);
  for (std::int64_t d = 0; d < dim; ++d) {
    float total = 0;
    for (std::int64_t begin = 0; begin < n_keys; begin += kChainLength) {
      const std::int64_t end = begin + kChainLength < n_keys ? begin + kChainLength : n_keys;
      float acc = 0;
      for (std::int64_t key = begin; key < end; ++key) {
        const float* v = args.pages[key / kPageTokens] + args.page_offset +
                         (kPageTokens + key % kPageTokens) * dim;
        acc = std::fma(scores[key], v[d], acc);
      }
      total = total + acc;
    }
    out[d] = total / sum;
  }
}

void attention(const AttentionArgs& args, std::byte* scratch) {
  for (std::int64_t i = 0; i < args.n_tokens; ++i) {
    for (std::int64_t r = 0; r < args.n_rep; ++r) {
      attend(args, args.q + i * args.q_token_stride + r * args.head_dim, args.pos_begin + i + 1,
             reinterpret_cast<float*>(scratch),
             args.out + i * args.out_token_stride + r * args.head_dim);
    }
  }
}

}  // namespace

const Kernels kScalarKernels = {
    .name = "scalar",
    .prepared_bytes = prepared_bytes,
    .prepare_unit_rows = 1,
    .prepare_rows = prepare_rows,
    .matmul_scratch_bytes = matmul_scratch_bytes,
    .matmul = matmul,
    .matmul_error = fma_matmul_error,
    .screen_pack = screen_pack_reference,
    .screen = screen_reference,
    .screen_rows = 4,
    .unpack_row = unpack_row,
    .unpack_panel = unpack_panel,
    .quantize_panel = quantize_panel,
    .rms_norm = rms_norm,
    .rope = rope,
    .silu_mul = silu_mul,
    .attention_scratch_bytes = attention_scratch_bytes,
    .attention = attention,
};

}  // namespace munia::kernels
