// Packing: rows of GGUF blocks (the public ggml block layouts) become panels of 16 rows in the form
// that packed_format.h describes. Codes and scales are moved, never changed, so nothing is lost;
// only munia's own types are made here, from floats (quantize.cpp).
#include <array>

#include "kernels/packed_format.h"
#include "kernels/row_block.h"
#include "kernels/rungs.h"

namespace munia::kernels {
namespace {

struct TypeInfo {
  std::string_view name;
  std::int64_t block_cols;
  std::size_t block_bytes;  // in the file; of munia's own types: 32 floats
};

constexpr TypeInfo type_info(WeightType type) {
  switch (type) {
    case WeightType::kF32:
      return {"F32", 1, 4};
    case WeightType::kF16:
      return {"F16", 1, 2};
    case WeightType::kBf16:
      return {"BF16", 1, 2};
    case WeightType::kQ4_0:
      return {"Q4_0", 32, 18};
    case WeightType::kQ4_1:
      return {"Q4_1", 32, 20};
    case WeightType::kQ5_0:
      return {"Q5_0", 32, 22};
    case WeightType::kQ5_1:
      return {"Q5_1", 32, 24};
    case WeightType::kQ8_0:
      return {"Q8_0", 32, 34};
    case WeightType::kQ4K:
      return {"Q4_K", 256, 144};
    case WeightType::kQ5K:
      return {"Q5_K", 256, 176};
    case WeightType::kQ6K:
      return {"Q6_K", 256, 210};
    case WeightType::kInt8:
      return {"INT8", 32, 128};
    case WeightType::kInt4:
      return {"INT4", 32, 128};
  }
  return {"?", 1, 1};
}

std::uint8_t byte_at(const std::byte* p, std::int64_t i) {
  return std::to_integer<std::uint8_t>(p[i]);
}

/// Groups of 32: {f16 d; [f16 m;] [u32 high bits;] 16 bytes of nibbles: 0..15 low, 16..31 high}, or
/// for Q8_0 {f16 d; 32 int8}.
template <WeightType kType>
void read_groups(const std::byte* source, std::int64_t n_groups, RowBlock& block) {
  constexpr PackedFormat format = packed_format(kType);
  for (std::int64_t g = 0; g < n_groups; ++g) {
    const std::byte* p = source + static_cast<std::size_t>(g) * type_info(kType).block_bytes;
    std::uint8_t* q = block.q.data() + g * 32;
    block.d[static_cast<std::size_t>(g)] = load_as<std::uint16_t>(p);
    p += 2;
    if (format.has_min) {
      block.min[static_cast<std::size_t>(g)] = load_as<std::uint16_t>(p);
      p += 2;
    }
    if (format.code_bits == 8) {
      for (int k = 0; k < 32; ++k) q[k] = static_cast<std::uint8_t>(byte_at(p, k) ^ 0x80U);
      continue;
    }
    std::uint32_t high = 0;
    if (format.plane_bits == 1) {
      high = load_as<std::uint32_t>(p);
      p += 4;
    }
    for (int k = 0; k < 16; ++k) {
      q[k] = static_cast<std::uint8_t>((byte_at(p, k) & 15U) | ((high >> k) & 1U) << 4);
      q[k + 16] = static_cast<std::uint8_t>((byte_at(p, k) >> 4) | ((high >> (k + 16)) & 1U) << 4);
    }
  }
}

/// Q4_K and Q5_K: {f16 d, dmin; 12 bytes: eight 6-bit scales and minima; [32 bytes of fifth bits;]
/// 128 bytes: per 64 k 32 bytes, low nibbles the first 32 k, high nibbles the next}.
template <bool kHasPlane>
void read_q45k(const std::byte* p, RowBlock& block) {
  block.d[0] = load_as<std::uint16_t>(p);
  block.min[0] = load_as<std::uint16_t>(p + 2);
  const std::byte* packed = p + 4;
  for (std::size_t g = 0; g < 4; ++g) {
    const unsigned a = byte_at(packed, static_cast<std::int64_t>(g));
    const unsigned b = byte_at(packed, static_cast<std::int64_t>(g + 4));
    const unsigned c = byte_at(packed, static_cast<std::int64_t>(g + 8));
    block.sc[g] = static_cast<std::uint8_t>(a & 63U);
    block.m[g] = static_cast<std::uint8_t>(b & 63U);
    block.sc[g + 4] = static_cast<std::uint8_t>((c & 15U) | (a >> 6) << 4);
    block.m[g + 4] = static_cast<std::uint8_t>((c >> 4) | (b >> 6) << 4);
  }
  const std::byte* high = p + 16;
  const std::byte* low = kHasPlane ? p + 48 : p + 16;
  for (int g = 0; g < 8; ++g) {
    for (int k = 0; k < 32; ++k) {
      const unsigned pair = byte_at(low, g / 2 * 32 + k);
      unsigned q = g % 2 == 0 ? pair & 15U : pair >> 4;
      if (kHasPlane) q |= ((static_cast<unsigned>(byte_at(high, k)) >> g) & 1U) << 4;
      block.q[static_cast<std::size_t>(g * 32 + k)] = static_cast<std::uint8_t>(q);
    }
  }
}

/// Q6_K: {128 bytes of low nibbles; 64 of high bit pairs; 16 int8 scales; f16 d}. Per 128 k the
/// 64 low bytes hold k 0..63 in low nibbles and 64..127 in high ones, the 32 high bytes hold the
/// pairs of k, k+32, k+64, k+96 from bit 0 up.
void read_q6k(const std::byte* p, RowBlock& block) {
  std::uint8_t* q = block.q.data();
  for (int half = 0; half < 2; ++half, q += 128) {
    const std::byte* low = p + half * 64;
    const std::byte* high = p + 128 + half * 32;
    for (int k = 0; k < 32; ++k) {
      const unsigned highs = byte_at(high, k);
      const unsigned even = byte_at(low, k);
      const unsigned odd = byte_at(low, k + 32);
      q[k] = static_cast<std::uint8_t>((even & 15U) | (highs & 3U) << 4);
      q[k + 32] = static_cast<std::uint8_t>((odd & 15U) | ((highs >> 2) & 3U) << 4);
      q[k + 64] = static_cast<std::uint8_t>(even >> 4 | ((highs >> 4) & 3U) << 4);
      q[k + 96] = static_cast<std::uint8_t>(odd >> 4 | (highs >> 6) << 4);
    }
  }
  for (std::size_t g = 0; g < 16; ++g) block.sc[g] = byte_at(p + 192, static_cast<std::int64_t>(g));
  block.d[0] = load_as<std::uint16_t>(p + 208);
}

/// Puts one lane's block into the packed block (zeroed before the first lane).
template <WeightType kType>
void place_lane(const RowBlock& block, std::int64_t n_block_cols, std::int64_t lane,
                std::byte* packed) {
  constexpr PackedFormat format = packed_format(kType);
  for (std::int64_t g = 0; g < n_block_cols / 32; ++g) {
    std::byte* codes = packed + static_cast<std::size_t>(g) * format.codes32_bytes() + lane * 4;
    const std::uint8_t* q = block.q.data() + g * 32;
    const int words = format.code_bits;          // 4 words of nibbles or 8 of bytes
    const int per_word = 32 / format.code_bits;  // k in a word
    std::uint32_t planes[2] = {};
    for (int i = 0; i < words; ++i) {
      std::uint32_t word = 0;
      std::uint32_t high = 0;  // the bits above each nibble, at the nibble's place
      for (int j = 0; j < per_word; ++j) {
        const std::uint32_t code = q[j * words + i];
        word |= (format.code_bits == 8 ? code : code & 15U) << (j * format.code_bits);
        if constexpr (format.plane_bits > 0) high |= (code >> 4) << (j * 4);
      }
      std::memcpy(codes + i * 64, &word, sizeof(word));
      if constexpr (format.plane_bits > 0) {
        planes[plane_word(format.plane_bits, i)] |=
            std::rotl(high, plane_shift(format.plane_bits, i));
      }
    }
    for (int i = 0; i < format.plane_bits; ++i) std::memcpy(codes + 256 + i * 64, &planes[i], 4);
  }
  std::byte* scales = packed + format.scales_offset(n_block_cols);
  const auto put_halves = [&](const std::array<std::uint16_t, 8>& halves, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i, scales += 32) {
      std::memcpy(scales + lane * 2, &halves[static_cast<std::size_t>(i)], 2);
    }
  };
  const std::int64_t n_groups = format.groups(n_block_cols);
  put_halves(block.d, format.two_level ? 1 : n_groups);
  if (format.has_min) put_halves(block.min, format.two_level ? 1 : n_groups);
  if (!format.two_level) return;
  for (std::int64_t i = 0; i < n_groups; ++i, scales += 16) {
    scales[lane] = std::byte{block.sc[static_cast<std::size_t>(i)]};
  }
  for (std::int64_t i = 0; format.has_min && i < n_groups; ++i, scales += 16) {
    scales[lane] = std::byte{block.m[static_cast<std::size_t>(i)]};
  }
}

/// `spread`: of quantize_block.
template <WeightType kType>
void pack_quantized(const std::byte* const rows[kPanelRows], std::int64_t n_cols, std::byte* panel,
                    const float* spread = nullptr) {
  constexpr PackedFormat kFormat = packed_format(kType);
  for (std::int64_t k = 0; k < n_cols; k += kBlockCols) {
    const std::int64_t n_block_cols = n_cols - k < kBlockCols ? n_cols - k : kBlockCols;
    for (std::int64_t lane = 0; lane < kPanelRows; ++lane) {
      if (rows[lane] == nullptr) continue;  // zero scales make zero weights
      const std::byte* source = rows[lane] + source_row_bytes(kType, k);
      RowBlock block;
      if constexpr (is_narrow_type(kType)) {
        std::array<float, kBlockCols> w;
        std::memcpy(w.data(), source, static_cast<std::size_t>(n_block_cols) * sizeof(float));
        quantize_block(kType, w.data(), n_block_cols,
                       spread != nullptr ? spread + k * kBlockCols : nullptr, block);
      } else if constexpr (!kFormat.two_level) {
        read_groups<kType>(source, n_block_cols / 32, block);
      } else if constexpr (kType == WeightType::kQ6K) {
        read_q6k(source, block);
      } else {
        read_q45k<kFormat.plane_bits == 1>(source, block);
      }
      place_lane<kType>(block, n_block_cols, lane, panel);
    }
    panel += kFormat.block_bytes(n_block_cols);
  }
}

/// Floats as bits of type T: [n_cols][16], or with kTogether = 2 pairs of k, [n_cols/2][16][2].
template <class T, int kTogether>
void pack_floats(const std::byte* const rows[kPanelRows], std::int64_t n_cols, std::byte* panel) {
  constexpr std::int64_t kSize = sizeof(T);
  for (std::int64_t k = 0; k < n_cols; k += kTogether) {
    const std::int64_t n = n_cols - k < kTogether ? n_cols - k : kTogether;
    for (std::int64_t lane = 0; lane < kPanelRows; ++lane) {
      if (rows[lane] == nullptr) continue;
      std::byte* place = panel + (k * kPanelRows + lane * kTogether) * kSize;
      if (n == kTogether) {
        std::memcpy(place, rows[lane] + k * kSize, kTogether * kSize);
      } else {
        std::memcpy(place, rows[lane] + k * kSize, kSize);
      }
    }
  }
}

}  // namespace

bool can_screen(WeightType type) { return is_float_type(type); }

std::string_view weight_type_name(WeightType type) { return type_info(type).name; }

std::int64_t weight_block_cols(WeightType type) { return type_info(type).block_cols; }

std::size_t source_row_bytes(WeightType type, std::int64_t n_cols) {
  const TypeInfo info = type_info(type);
  return static_cast<std::size_t>(n_cols / info.block_cols) * info.block_bytes;
}

std::size_t packed_panel_bytes(WeightType type, std::int64_t n_cols) {
  if (is_float_type(type)) {
    const std::int64_t even_cols = type == WeightType::kBf16 ? (n_cols + 1) / 2 * 2 : n_cols;
    const std::size_t bytes =
        static_cast<std::size_t>(even_cols * kPanelRows) * type_info(type).block_bytes;
    return (bytes + 63) / 64 * 64;
  }
  const PackedFormat format = packed_format(type);
  const std::int64_t rest = n_cols % kBlockCols;
  return static_cast<std::size_t>(n_cols / kBlockCols) * format.block_bytes(kBlockCols) +
         (rest > 0 ? format.block_bytes(rest) : 0);
}

void pack_panel(WeightType type, const std::byte* const rows[kPanelRows], std::int64_t n_cols,
                std::byte* panel) {
  std::memset(panel, 0, packed_panel_bytes(type, n_cols));
  switch (type) {
    case WeightType::kF32:
      return pack_floats<std::uint32_t, 1>(rows, n_cols, panel);
    case WeightType::kF16:
      return pack_floats<std::uint16_t, 1>(rows, n_cols, panel);
    case WeightType::kBf16:
      return pack_floats<std::uint16_t, 2>(rows, n_cols, panel);
    case WeightType::kQ4_0:
      return pack_quantized<WeightType::kQ4_0>(rows, n_cols, panel);
    case WeightType::kQ4_1:
      return pack_quantized<WeightType::kQ4_1>(rows, n_cols, panel);
    case WeightType::kQ5_0:
      return pack_quantized<WeightType::kQ5_0>(rows, n_cols, panel);
    case WeightType::kQ5_1:
      return pack_quantized<WeightType::kQ5_1>(rows, n_cols, panel);
    case WeightType::kQ8_0:
      return pack_quantized<WeightType::kQ8_0>(rows, n_cols, panel);
    case WeightType::kQ4K:
      return pack_quantized<WeightType::kQ4K>(rows, n_cols, panel);
    case WeightType::kQ5K:
      return pack_quantized<WeightType::kQ5K>(rows, n_cols, panel);
    case WeightType::kQ6K:
      return pack_quantized<WeightType::kQ6K>(rows, n_cols, panel);
    case WeightType::kInt8:
      return pack_quantized<WeightType::kInt8>(rows, n_cols, panel);
    case WeightType::kInt4:
      return pack_quantized<WeightType::kInt4>(rows, n_cols, panel);
  }
}

void quantize_rows(WeightType type, const float* const rows[kPanelRows], std::int64_t n_cols,
                   const float* spread, std::byte* panel) {
  std::memset(panel, 0, packed_panel_bytes(type, n_cols));
  const std::byte* bytes[kPanelRows];
  for (int i = 0; i < kPanelRows; ++i) bytes[i] = reinterpret_cast<const std::byte*>(rows[i]);
  if (type == WeightType::kInt8) {
    pack_quantized<WeightType::kInt8>(bytes, n_cols, panel);
  } else {
    pack_quantized<WeightType::kInt4>(bytes, n_cols, panel, spread);
  }
}

PackedParts packed_parts(WeightType type, const std::byte* panel, std::int64_t n_cols, int lane,
                         std::int64_t k) {
  const PackedFormat format = packed_format(type);
  const std::int64_t block_begin = k / kBlockCols * kBlockCols;
  const std::int64_t rest = n_cols - block_begin;
  const std::int64_t n_block_cols = rest < kBlockCols ? rest : kBlockCols;
  const std::byte* block =
      panel + static_cast<std::size_t>(k / kBlockCols) * format.block_bytes(kBlockCols);
  const std::int64_t k_block = k - block_begin;
  const int k32 = static_cast<int>(k_block % 32);
  const std::byte* codes =
      block + static_cast<std::size_t>(k_block / 32) * format.codes32_bytes() + lane * 4;
  const int words = format.code_bits;
  const auto word = load_as<std::uint32_t>(codes + k32 % words * 64);
  std::uint32_t q = (word >> (k32 / words * format.code_bits)) & ((1U << format.code_bits) - 1U);
  if (format.plane_bits != 0) {
    const auto plane =
        load_as<std::uint32_t>(codes + 256 + plane_word(format.plane_bits, k32) * 64);
    q |= ((plane >> plane_shift(format.plane_bits, k32)) & ((1U << format.plane_bits) - 1U)) << 4;
  }

  const std::byte* scales = block + format.scales_offset(n_block_cols);
  const std::int64_t group = k_block / format.group;
  const std::int64_t n_groups = format.groups(n_block_cols);
  const auto half_at = [&](std::int64_t i) {
    return half_to_float(load_as<std::uint16_t>(scales + i * 32 + lane * 2));
  };
  float scale = 0;
  float addend = 0;
  if (format.two_level) {
    const std::byte* small = scales + (format.has_min ? 64 : 32) + lane;
    const auto sc = load_as<std::uint8_t>(small + group * 16);
    const int factor = format.signed_scale ? static_cast<std::int8_t>(sc) : sc;
    scale = half_at(0) * static_cast<float>(factor);
    if (format.has_min) {
      const auto m = load_as<std::uint8_t>(small + (n_groups + group) * 16);
      addend = -(half_at(1) * static_cast<float>(m));
    }
  } else {
    scale = half_at(group);
    if (format.has_min) addend = half_at(n_groups + group);
  }
  if (!format.has_min) addend = -(static_cast<float>(format.offset) * scale);
  return {scale, static_cast<float>(q), addend};
}

float packed_weight(WeightType type, const std::byte* panel, std::int64_t n_cols, int lane,
                    std::int64_t k) {
  if (type == WeightType::kF32) return load_as<float>(panel + (k * kPanelRows + lane) * 4);
  if (type == WeightType::kF16) {
    return half_to_float(load_as<std::uint16_t>(panel + (k * kPanelRows + lane) * 2));
  }
  if (type == WeightType::kBf16) {
    return bf16_to_float(
        load_as<std::uint16_t>(panel + (k / 2 * kPanelRows + lane) * 4 + k % 2 * 2));
  }
  const PackedParts parts = packed_parts(type, panel, n_cols, lane, k);
  return std::fma(parts.scale, parts.q, parts.addend);
}

}  // namespace munia::kernels
