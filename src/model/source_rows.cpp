#include "model/source_rows.h"

#include <array>
#include <cstring>

#include "base/aligned_buffer.h"

namespace munia::model {
namespace {

using files::TensorType;
using kernels::kPanelRows;
using kernels::WeightType;

constexpr std::int64_t kSuperBlock = 256;  // columns
constexpr std::size_t kQ2KBytes = 84;
constexpr std::size_t kQ3KBytes = 110;
constexpr std::size_t kQ6KBytes = 210;

unsigned byte_at(const std::byte* p, std::int64_t i) { return std::to_integer<unsigned>(p[i]); }

/// Q2_K and Q3_K: the two bits of column k in a block's 64 code bytes. A byte serves columns k,
/// k+32, k+64 and k+96, from bit 0 up; the second 32 bytes the second 128 columns.
unsigned two_bits(const std::byte* codes, std::int64_t k) {
  return byte_at(codes, k / 128 * 32 + k % 32) >> (k % 128 / 32 * 2) & 3U;
}

SourceRows as_it_is(WeightType type) {
  const std::int64_t block_cols = kernels::weight_block_cols(type);
  return {type, block_cols, kernels::source_row_bytes(type, block_cols), nullptr};
}

}  // namespace

Result<SourceRows> source_rows(const files::TensorView& tensor) {
  switch (tensor.type) {
    case TensorType::kF32:
      return as_it_is(WeightType::kF32);
    case TensorType::kF16:
      return as_it_is(WeightType::kF16);
    case TensorType::kBf16:
      return as_it_is(WeightType::kBf16);
    case TensorType::kQ4_0:
      return as_it_is(WeightType::kQ4_0);
    case TensorType::kQ4_1:
      return as_it_is(WeightType::kQ4_1);
    case TensorType::kQ5_0:
      return as_it_is(WeightType::kQ5_0);
    case TensorType::kQ5_1:
      return as_it_is(WeightType::kQ5_1);
    case TensorType::kQ8_0:
      return as_it_is(WeightType::kQ8_0);
    case TensorType::kQ2K:
      return SourceRows{WeightType::kF32, kSuperBlock, kQ2KBytes, q2k_as_f32};
    case TensorType::kQ3K:
      return SourceRows{WeightType::kQ6K, kSuperBlock, kQ3KBytes, q3k_as_q6k};
    case TensorType::kQ4K:
      return as_it_is(WeightType::kQ4K);
    case TensorType::kQ5K:
      return as_it_is(WeightType::kQ5K);
    case TensorType::kQ6K:
      return as_it_is(WeightType::kQ6K);
    case TensorType::kOther:
      break;
  }
  return Error{ErrorCode::kUnsupported,
               "tensor " + tensor.name + " has type " + tensor.type_name +
                   ", which munia does not compute; it takes F32, F16, BF16, Q4_0, Q4_1, Q5_0, "
                   "Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K and Q6_K"};
}

std::vector<float> widen_floats(WeightType type, const std::byte* values, std::int64_t n) {
  AlignedBuffer panel(kernels::packed_panel_bytes(type, n));
  std::array<const std::byte*, kPanelRows> rows{};
  rows[0] = values;
  kernels::pack_panel(type, rows.data(), n, panel.data());
  const kernels::PackedMatrix matrix{type, 1, n, panel.data(), panel.size_bytes()};
  std::vector<float> out(static_cast<std::size_t>(n));
  kernels::select_kernels("scalar")->unpack_row(matrix, 0, out.data());
  return out;
}

// From {32 bytes: the third bits, bit k/32 of byte k%32; 64 code bytes; 12 bytes: sixteen 6-bit
// scales, four low bits in nibbles and then the high pairs; f16 d}: d * (sc - 32) * (q - 4).
// To {128 bytes of low nibbles; 64 of high bit pairs; 16 int8 scales; f16 d}: d * sc * (q - 32),
// see kernels/pack.cpp. Source of both: ggml's block_q3_K and block_q6_K.
void q3k_as_q6k(const std::byte* row, std::int64_t n_cols, std::byte* out) {
  for (std::int64_t begin = 0; begin < n_cols; begin += kSuperBlock) {
    const std::byte* const codes = row + 32;
    const std::byte* const scales = row + 96;
    std::array<unsigned char, kQ6KBytes> block{};
    for (std::int64_t k = 0; k < kSuperBlock; ++k) {
      const unsigned third = byte_at(row, k % 32) >> (k / 32) & 1U;
      const unsigned q = (two_bits(codes, k) | third << 2) + 28;  // q - 4 = (q + 28) - 32
      const std::int64_t in_half = k % 128;
      unsigned char& low = block[static_cast<std::size_t>(k / 128 * 64 + in_half % 64)];
      low = static_cast<unsigned char>(low | (q & 15U) << (in_half < 64 ? 0 : 4));
      unsigned char& high = block[static_cast<std::size_t>(128 + k / 128 * 32 + in_half % 32)];
      high = static_cast<unsigned char>(high | (q >> 4) << (in_half / 32 * 2));
    }
    for (std::int64_t g = 0; g < 16; ++g) {
      const unsigned low = byte_at(scales, g % 8) >> (g < 8 ? 0 : 4) & 15U;
      const unsigned high = byte_at(scales, 8 + g % 4) >> (g / 4 * 2) & 3U;
      block[static_cast<std::size_t>(192 + g)] =
          static_cast<unsigned char>((low | high << 4) - 32U);
    }
    std::memcpy(out, block.data(), 208);
    std::memcpy(out + 208, row + 108, 2);
    row += kQ3KBytes;
    out += kQ6KBytes;
  }
}

// {16 bytes: scale in the low nibble, minimum in the high one; 64 code bytes; f16 d, dmin}.
// Source: ggml's block_q2_K. d * sc * q has at most 17 bits, so only the subtraction rounds.
void q2k_as_f32(const std::byte* row, std::int64_t n_cols, std::byte* out) {
  const std::int64_t n_blocks = n_cols / kSuperBlock;
  std::vector<std::byte> halves(static_cast<std::size_t>(n_blocks) * 4);
  for (std::int64_t b = 0; b < n_blocks; ++b) {
    std::memcpy(halves.data() + b * 4, row + static_cast<std::size_t>(b) * kQ2KBytes + 80, 4);
  }
  const std::vector<float> d = widen_floats(WeightType::kF16, halves.data(), 2 * n_blocks);
  for (std::int64_t b = 0; b < n_blocks; ++b, row += kQ2KBytes) {
    for (std::int64_t k = 0; k < kSuperBlock; ++k, out += sizeof(float)) {
      const unsigned pair = byte_at(row, k / 16);
      const float scale = d[static_cast<std::size_t>(2 * b)] * static_cast<float>(pair & 15U);
      const float least = d[static_cast<std::size_t>(2 * b + 1)] * static_cast<float>(pair >> 4);
      const float value = scale * static_cast<float>(two_bits(row + 16, k)) - least;
      std::memcpy(out, &value, sizeof value);
    }
  }
}

}  // namespace munia::model
