// Packed weights against the values that the reference decoder gives for the same blocks, the size
// of the packed form, and padding.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

#include "base/sha256.h"
#include "kernels/packed_format.h"
#include "kernels/rungs.h"
#include "kernels/test_data.h"

namespace munia::kernels {
namespace {

WeightType type_of_gguf_id(std::uint32_t id) {
  switch (id) {
    case 2:
      return WeightType::kQ4_0;
    case 3:
      return WeightType::kQ4_1;
    case 6:
      return WeightType::kQ5_0;
    case 7:
      return WeightType::kQ5_1;
    case 8:
      return WeightType::kQ8_0;
    case 12:
      return WeightType::kQ4K;
    case 13:
      return WeightType::kQ5K;
    case 14:
      return WeightType::kQ6K;
    default:
      return WeightType::kF32;
  }
}

TEST(Pack, QuantizedTypesDecodeAsTheReferenceDoes) {
  std::ifstream file(MUNIA_SOURCE_DIR "/tests/goldens/kernels/dequantize.bin", std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)),
                                std::istreambuf_iterator<char>());
  ASSERT_FALSE(bytes.empty());
  const auto* p = reinterpret_cast<const std::byte*>(bytes.data());
  const std::byte* end = p + bytes.size();
  int n_types = 0;
  while (p < end) {
    const WeightType type = type_of_gguf_id(load_as<std::uint32_t>(p));
    const std::int64_t n_rows = load_as<std::uint32_t>(p + 4);
    const std::int64_t n_cols = load_as<std::uint32_t>(p + 8);
    const std::size_t row_bytes = source_row_bytes(type, n_cols);
    ASSERT_EQ(row_bytes * static_cast<std::size_t>(n_rows), load_as<std::uint32_t>(p + 12));
    const std::byte* rows = p + 16;
    const std::byte* values = rows + static_cast<std::size_t>(n_rows) * row_bytes;
    const PackedWeights packed = pack_rows(type, rows, n_rows, n_cols);
    for (const Kernels* kernels : rungs()) {
      for (std::int64_t n = 0; n < n_rows; ++n) {
        std::vector<float> row(static_cast<std::size_t>(n_cols));
        kernels->unpack_row(packed.matrix, n, row.data());
        for (std::int64_t k = 0; k < n_cols; ++k) {
          ASSERT_EQ(row[static_cast<std::size_t>(k)], load_as<float>(values + (n * n_cols + k) * 4))
              << weight_type_name(type) << " " << kernels->name << " row " << n << " k " << k;
        }
      }
    }
    p = values + n_rows * n_cols * 4;
    ++n_types;
  }
  EXPECT_EQ(n_types, 8);
}

TEST(Pack, FloatTypesKeepEveryValue) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    const int exponent = (bits >> 10) & 31;
    const int mantissa = bits & 0x3FF;
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), mantissa != 0);
      EXPECT_EQ(std::isinf(value), mantissa == 0);
    } else {
      const double magnitude =
          exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
      EXPECT_EQ(static_cast<double>(value), (bits & 0x8000) != 0 ? -magnitude : magnitude);
    }
    EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0);
  }
  for (const WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBf16}) {
    for (const std::int64_t n_cols : {1, 2, 31, 257}) {
      const std::int64_t n_rows = 17;
      const std::vector<std::byte> source = random_rows(type, n_rows, n_cols, 5);
      const PackedWeights packed = pack_rows(type, source.data(), n_rows, n_cols);
      const std::size_t size = type == WeightType::kF32 ? 4 : 2;
      for (const Kernels* kernels : rungs()) {
        std::vector<float> row(static_cast<std::size_t>(n_cols));
        for (std::int64_t n = 0; n < n_rows; ++n) {
          kernels->unpack_row(packed.matrix, n, row.data());
          for (std::int64_t k = 0; k < n_cols; ++k) {
            const std::byte* p = source.data() + static_cast<std::size_t>(n * n_cols + k) * size;
            const float want = type == WeightType::kF32 ? load_as<float>(p)
                               : type == WeightType::kF16
                                   ? half_to_float(load_as<std::uint16_t>(p))
                                   : bf16_to_float(load_as<std::uint16_t>(p));
            ASSERT_EQ(row[static_cast<std::size_t>(k)], want) << kernels->name;
          }
        }
      }
    }
  }
}

TEST(Pack, StaysWithinFourPercentOfTheFile) {
  for (const WeightType type : all_types()) {
    if (is_narrow_type(type)) continue;  // of no file: narrow_test.cpp
    const std::int64_t n_cols = 1024;
    const auto file_bytes = static_cast<double>(16 * source_row_bytes(type, n_cols));
    const auto packed_bytes = static_cast<double>(packed_panel_bytes(type, n_cols));
    EXPECT_GE(packed_bytes, file_bytes) << weight_type_name(type);
    EXPECT_LE(packed_bytes, 1.04 * file_bytes) << weight_type_name(type);
  }
  EXPECT_EQ(packed_panel_bytes(WeightType::kQ4K, 256), 2368U);
}

TEST(Pack, MissingRowsAreZeroWeights) {
  for (const WeightType type : all_types()) {
    const std::int64_t n_cols = is_float_type(type) ? 33 : 256;
    std::vector<std::byte> source = random_rows(type, 3, n_cols, 6);
    const PackedWeights packed = pack_rows(type, source.data(), 3, n_cols);
    for (std::int64_t k = 0; k < n_cols; ++k) {
      for (int lane = 3; lane < 16; ++lane) {
        ASSERT_EQ(packed_weight(type, packed.matrix.data, n_cols, lane, k), 0.0F)
            << weight_type_name(type);
      }
    }
  }
}

TEST(Select, ScalarIsAlwaysThereAndNamesAreExact) {
  const KernelList list = available_kernels();
  ASSERT_GE(list.n_rungs, 1);
  EXPECT_STREQ(list.rungs[0]->name, "scalar");
  EXPECT_EQ(select_kernels(""), list.rungs[list.n_rungs - 1]);
  for (int i = 0; i < list.n_rungs; ++i) {
    EXPECT_EQ(select_kernels(list.rungs[i]->name), list.rungs[i]);
  }
  EXPECT_EQ(select_kernels("avx"), nullptr);
  EXPECT_EQ(select_kernels("AVX2"), nullptr);
}

// Packed files hold panels of this very form under the name kPackedLayout. Where a sum here
// changes, that name must change with it, or old files would be read as something else.
TEST(Pack, TheLayoutOfPackedFilesIsWhatItsNameSays) {
  EXPECT_EQ(kPackedLayout, "panels16-blocks256-v1");
  constexpr std::int64_t kCols = 544;  // two blocks and a short one
  const std::vector<std::string> sums = {"1d3b9165e2b0e188", "4c2185d7d46e5210", "fabdbccfbdb47789",
                                         "856367b531cd5afd", "0c36c0a62d44f013", "1a671e56161e9e60",
                                         "3d7a8f5b0247228d", "0ee5d2acfeaf9253", "ef7bf56ca3434c1d",
                                         "112f9163760becb6", "943c7d991333fd4e", "0ab9e65d08876c9a",
                                         "c73682dda18c38fb"};
  std::uint32_t state = 1;
  std::size_t i = 0;
  for (const WeightType type : all_types()) {
    const std::int64_t cols = weight_block_cols(type) == 256 ? 512 : kCols;
    std::vector<std::byte> rows(source_row_bytes(type, cols) * 13);
    for (std::byte& byte : rows) {
      state = state * 1664525U + 1013904223U;
      byte = static_cast<std::byte>(state >> 24);
    }
    if (is_narrow_type(type)) {  // rows of floats: within +-1, with 11 bits
      for (std::size_t at = 0; at < rows.size(); at += sizeof(float)) {
        const auto low = std::to_integer<int>(rows[at]);
        const auto value = static_cast<float>(low + 256 * std::to_integer<int>(rows[at + 1] >> 5));
        const float weight = value / 1024 - 1;
        std::memcpy(rows.data() + at, &weight, sizeof(weight));
      }
    }
    const std::byte* pointers[kPanelRows] = {};
    for (std::size_t row = 0; row < 13; ++row) {
      pointers[row] = rows.data() + row * source_row_bytes(type, cols);
    }
    std::vector<std::byte> panel(packed_panel_bytes(type, cols));
    pack_panel(type, pointers, cols, panel.data());
    EXPECT_EQ(sha256_hex(panel).substr(0, 16), sums[i++]) << weight_type_name(type);
  }
}

}  // namespace
}  // namespace munia::kernels
