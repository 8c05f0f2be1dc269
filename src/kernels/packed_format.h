// The packed form of quantized weights, shared by packing, the reference and the vector rungs.
// A panel holds kPanelRows = 16 outputs ("lanes"). It is a run of blocks of up to 256 k
// (kBlockCols), each padded to 64 bytes, so a panel is read front to back as one stream:
//   for each 32 k: code words, then plane words;   after them all: the block's scales.
// A word is 32 bits of one lane, 16 lanes side by side (64 bytes). 4-bit codes: nibble j of word i
// is k = 4j + i (i < 4), so one mask serves four consecutive k and no shift is needed: the masked
// code is q * 16^j, and its power of two moves into the scale, exactly. 8-bit codes: byte j of
// word i is k = 8j + i (i < 8). The higher bits of 5- and 6-bit codes lie in planes so that, after
// a rotation by a constant, they stand just above nibble j (plane_shift below).
// Every quantized weight is w = fma(s, q, a) with s = d*sc, a = -(offset*s), +m or -(dmin*m).
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/kernels.h"

namespace munia::kernels {

static_assert(std::endian::native == std::endian::little, "packed weights are little-endian");

struct PackedFormat {
  int code_bits = 0;       // 4 or 8 bits in the code words
  int plane_bits = 0;      // further bits in the planes: 0, 1 or 2
  int group = 32;          // k that share a scale
  bool two_level = false;  // f16 d (and dmin) per 256 k, 8-bit sc (and m) per group
  bool has_min = false;    // has m (one level: f16, added) or dmin*m (two levels: subtracted)
  bool signed_scale = false;
  int offset = 0;  // what is taken from a code

  /// Groups of n_block_cols k; the last one may be shorter.
  constexpr std::int64_t groups(std::int64_t n_block_cols) const {
    return (n_block_cols + group - 1) / group;
  }
  constexpr std::size_t codes32_bytes() const {  // 32 k of 16 lanes
    return static_cast<std::size_t>(code_bits + plane_bits) * 64;
  }
  constexpr std::size_t scales_offset(std::int64_t n_block_cols) const {
    return codes32_bytes() * static_cast<std::size_t>(n_block_cols / 32);
  }
  /// Bytes of a block of n_block_cols k (a multiple of 32, at most kBlockCols).
  constexpr std::size_t block_bytes(std::int64_t n_block_cols) const {
    const auto n_groups = static_cast<std::size_t>(groups(n_block_cols));
    const std::size_t parts = has_min ? 2 : 1;
    const std::size_t scales = two_level ? (32 + 16 * n_groups) * parts : 32 * n_groups * parts;
    return (scales_offset(n_block_cols) + scales + 63) / 64 * 64;
  }
};

constexpr bool is_float_type(WeightType type) {
  return type == WeightType::kF32 || type == WeightType::kF16 || type == WeightType::kBf16;
}

constexpr bool is_narrow_type(WeightType type) {
  return type == WeightType::kInt8 || type == WeightType::kInt4;
}

inline constexpr WeightTypes kFloatTypes =
    only(WeightType::kF32) | only(WeightType::kF16) | only(WeightType::kBf16);
inline constexpr WeightTypes kNarrowTypes = only(WeightType::kInt8) | only(WeightType::kInt4);
/// The others: quantized, with activations in digits.
inline constexpr WeightTypes kDigitTypes = ~(kFloatTypes | kNarrowTypes);

constexpr PackedFormat packed_format(WeightType type) {
  switch (type) {
    case WeightType::kQ4_0:
      return {.code_bits = 4, .offset = 8};
    case WeightType::kQ4_1:
      return {.code_bits = 4, .has_min = true};
    case WeightType::kQ5_0:
      return {.code_bits = 4, .plane_bits = 1, .offset = 16};
    case WeightType::kQ5_1:
      return {.code_bits = 4, .plane_bits = 1, .has_min = true};
    case WeightType::kQ8_0:
      return {.code_bits = 8, .offset = 128};
    case WeightType::kQ4K:
      return {.code_bits = 4, .two_level = true, .has_min = true};
    case WeightType::kQ5K:
      return {.code_bits = 4, .plane_bits = 1, .two_level = true, .has_min = true};
    case WeightType::kQ6K:
      return {.code_bits = 4,
              .plane_bits = 2,
              .group = 16,
              .two_level = true,
              .signed_scale = true,
              .offset = 32};
    case WeightType::kInt8:
      return {.code_bits = 8, .group = 64, .offset = 128};
    case WeightType::kInt4:
      return {.code_bits = 4, .two_level = true, .has_min = true};
    default:
      return {};
  }
}

/// log2 of what the kernels take from a code.
constexpr int center_bits(WeightType type) {
  const PackedFormat format = packed_format(type);
  if (format.has_min) return format.code_bits + format.plane_bits - 1;
  return std::bit_width(static_cast<unsigned>(format.offset)) - 1;
}

/// Where the plane bits of k (0..31 in its 32) stand: the word, and the shift of their lowest bit.
constexpr int plane_word(int plane_bits, int k32) { return plane_bits == 2 ? k32 % 4 / 2 : 0; }
constexpr int plane_shift(int plane_bits, int k32) {
  const int i = plane_bits == 2 ? k32 % 2 * 2 : k32 % 4;
  return (k32 / 4 * 4 + 4 + i) % 32;
}

template <class T>
T load_as(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

/// A half as float32, exactly (NaN made quiet, as the vector instructions do).
inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 31U;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  if (exponent == 31) {
    const std::uint32_t quiet = mantissa != 0 ? 0x400000U : 0U;
    return std::bit_cast<float>(sign | 0x7F800000U | quiet | (mantissa << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline constexpr std::uint16_t kHalfNan = 0x7E00;

/// A float that is not NaN as the nearest half (ties to even), at most the largest finite one.
inline std::uint16_t float_to_half(float value) {
  constexpr float kLargest = 65504.0F;
  constexpr float kSmallestNormal = 0x1p-14F;
  const std::uint32_t sign = (std::bit_cast<std::uint32_t>(value) >> 16) & 0x8000U;
  const float magnitude = std::abs(value) < kLargest ? std::abs(value) : kLargest;
  if (magnitude < kSmallestNormal) {  // a multiple of 2^-24
    return static_cast<std::uint16_t>(
        sign | static_cast<std::uint32_t>(std::nearbyint(magnitude * 0x1p24F)));
  }
  std::uint32_t bits = std::bit_cast<std::uint32_t>(magnitude);
  bits += 0xFFFU + ((bits >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((bits >> 13) - (112U << 10)));
}

inline float bf16_to_float(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

}  // namespace munia::kernels
