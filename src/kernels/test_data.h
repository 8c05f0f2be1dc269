// Seeded test data for this room's tests and bench: random source rows of every weight type,
// packed matrices, and byte comparison.
#pragma once

#include <cstring>
#include <new>
#include <random>
#include <utility>
#include <vector>

#include "kernels/packed_format.h"

namespace munia::kernels {

inline std::vector<WeightType> all_types() {
  return {WeightType::kF32,  WeightType::kF16,  WeightType::kBf16, WeightType::kQ4_0,
          WeightType::kQ4_1, WeightType::kQ5_0, WeightType::kQ5_1, WeightType::kQ8_0,
          WeightType::kQ4K,  WeightType::kQ5K,  WeightType::kQ6K,  WeightType::kInt8,
          WeightType::kInt4};
}

inline std::vector<const Kernels*> rungs() {
  const KernelList list = available_kernels();
  return {list.rungs, list.rungs + list.n_rungs};
}

inline std::vector<float> random_floats(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = normal(random);
  return values;
}

/// A finite half of random sign and mantissa with an exponent around 2^-6.
inline std::uint16_t random_half(std::mt19937& random) {
  const auto bits = static_cast<unsigned>(random());
  return static_cast<std::uint16_t>((bits & 0x83FFU) | (7U + ((bits >> 16) & 3U)) << 10);
}

/// Source rows [n_rows] of `type`: random codes, finite scales of moderate size.
inline std::vector<std::byte> random_rows(WeightType type, std::int64_t n_rows, std::int64_t n_cols,
                                          unsigned seed) {
  std::mt19937 random(seed);
  const std::size_t row_bytes = source_row_bytes(type, n_cols);
  std::vector<std::byte> rows(static_cast<std::size_t>(n_rows) * row_bytes);
  const auto put_half = [&](std::size_t at) {
    const std::uint16_t half = random_half(random);
    std::memcpy(rows.data() + at, &half, 2);
  };
  if (type == WeightType::kF32 || type == WeightType::kBf16 || is_narrow_type(type)) {
    const std::size_t size = type == WeightType::kBf16 ? 2 : 4;
    const std::vector<float> values = random_floats(n_rows * n_cols, seed);
    for (std::size_t i = 0; i < values.size(); ++i) {  // BF16: the upper half of the float
      std::memcpy(rows.data() + i * size,
                  reinterpret_cast<const std::byte*>(&values[i]) + (4 - size), size);
    }
    return rows;
  }
  if (type == WeightType::kF16) {
    for (std::size_t i = 0; i < rows.size(); i += 2) put_half(i);
    return rows;
  }
  for (std::byte& byte : rows) byte = static_cast<std::byte>(random() & 255U);
  const std::size_t block_bytes = source_row_bytes(type, weight_block_cols(type));
  for (std::size_t block = 0; block < rows.size(); block += block_bytes) {
    const bool two_halves = type == WeightType::kQ4_1 || type == WeightType::kQ5_1 ||
                            type == WeightType::kQ4K || type == WeightType::kQ5K;
    const std::size_t first = block + (type == WeightType::kQ6K ? 208 : 0);
    put_half(first);
    if (two_halves) put_half(first + 2);
  }
  return rows;
}

/// 64-aligned floats of exactly the size asked for, so that a sanitizer sees a step past the end.
class ExactBuffer {
 public:
  explicit ExactBuffer(std::size_t size_bytes)
      : data_(static_cast<std::byte*>(::operator new (size_bytes, std::align_val_t{64}))) {
    std::memset(data_, 0xFF, size_bytes);  // NaN: whoever reads what nobody wrote shows it
  }
  ~ExactBuffer() { ::operator delete (data_, std::align_val_t{64}); }
  ExactBuffer(ExactBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  ExactBuffer& operator=(ExactBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ExactBuffer(const ExactBuffer&) = delete;
  ExactBuffer& operator=(const ExactBuffer&) = delete;
  std::byte* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }

 private:
  std::byte* data_;
};

struct PackedWeights {
  PackedMatrix matrix;
  ExactBuffer buffer{0};
};

inline PackedWeights pack_rows(WeightType type, const std::byte* rows, std::int64_t n_rows,
                               std::int64_t n_cols) {
  PackedWeights packed;
  packed.matrix = {.type = type,
                   .n_rows = n_rows,
                   .n_cols = n_cols,
                   .data = nullptr,
                   .panel_bytes = packed_panel_bytes(type, n_cols)};
  const std::int64_t n_panels = packed.matrix.n_panels();
  packed.buffer = ExactBuffer(static_cast<std::size_t>(n_panels) * packed.matrix.panel_bytes);
  packed.matrix.data = packed.buffer.data();
  for (std::int64_t p = 0; p < n_panels; ++p) {
    const std::byte* sources[kPanelRows] = {};
    for (std::int64_t lane = 0; lane < kPanelRows && p * kPanelRows + lane < n_rows; ++lane) {
      sources[lane] =
          rows + static_cast<std::size_t>(p * kPanelRows + lane) * source_row_bytes(type, n_cols);
    }
    pack_panel(type, sources, n_cols,
               packed.buffer.data() + static_cast<std::size_t>(p) * packed.matrix.panel_bytes);
  }
  return packed;
}

/// y [n_tokens, w.n_rows] = x w^T on one rung, panels in one call.
inline std::vector<float> multiply(const Kernels& kernels, const PackedMatrix& w, const float* x,
                                   std::int64_t n_tokens, const float* bias = nullptr,
                                   const std::vector<float>* residual = nullptr) {
  ExactBuffer prepared(kernels.prepared_bytes(n_tokens, w.n_cols));
  const std::int64_t n_units =
      (n_tokens + kernels.prepare_unit_rows - 1) / kernels.prepare_unit_rows;
  kernels.prepare_rows(x, n_tokens, w.n_cols, only(w.type), 0, n_units, prepared.data());
  ExactBuffer scratch(kernels.matmul_scratch_bytes(n_tokens, w.n_cols));
  std::vector<float> y(static_cast<std::size_t>(n_tokens * w.n_rows));
  if (residual != nullptr) y = *residual;
  const MatmulOutput out = {y.data(), w.n_rows, bias, residual != nullptr};
  kernels.matmul(w, {prepared.data(), n_tokens, w.n_cols}, out, 0, w.n_panels(), scratch.data());
  return y;
}

/// Index of the first float whose bytes differ, or -1.
inline std::int64_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) return static_cast<std::int64_t>(i);
  }
  return -1;
}

}  // namespace munia::kernels
