// GGUF types without a packed form of their own against the values of the reference decoder
// (tools/make_dequantize_goldens.py), by way of packing and every rung's unpacking.
#include "model/source_rows.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "base/aligned_buffer.h"
#include "base/mapped_file.h"

namespace munia::model {
namespace {

using kernels::kPanelRows;

template <class T>
T load_as(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

TEST(SourceRows, ConvertedTypesDecodeAsTheReferenceDoes) {
  const std::string path = MUNIA_SOURCE_DIR "/tests/goldens/kernels/dequantize_small_k.bin";
  const MappedFile file = MappedFile::open(path).value_or_throw();
  const std::byte* p = file.bytes().data();
  const std::byte* const end = p + file.bytes().size();
  int n_types = 0;
  for (; p < end; ++n_types) {
    files::TensorView tensor;
    const auto id = load_as<std::uint32_t>(p);
    ASSERT_TRUE(id == 10 || id == 11);
    tensor.type = id == 10 ? files::TensorType::kQ2K : files::TensorType::kQ3K;
    const SourceRows source = source_rows(tensor).value_or_throw();
    const std::int64_t n_rows = load_as<std::uint32_t>(p + 4);
    const std::int64_t n_cols = load_as<std::uint32_t>(p + 8);
    const std::size_t row_bytes = source.row_bytes(n_cols);
    ASSERT_EQ(row_bytes * static_cast<std::size_t>(n_rows), load_as<std::uint32_t>(p + 12));
    ASSERT_LE(n_rows, kPanelRows);
    const std::byte* const rows = p + 16;
    const std::byte* const values = rows + static_cast<std::size_t>(n_rows) * row_bytes;
    const std::size_t bytes = kernels::source_row_bytes(source.type, n_cols);
    std::vector<std::byte> converted(bytes * static_cast<std::size_t>(n_rows));
    std::array<const std::byte*, kPanelRows> pointers{};
    for (std::int64_t n = 0; n < n_rows; ++n) {
      std::byte* const out = converted.data() + static_cast<std::size_t>(n) * bytes;
      source.convert(rows + static_cast<std::size_t>(n) * row_bytes, n_cols, out);
      pointers[static_cast<std::size_t>(n)] = out;
    }
    AlignedBuffer panel(kernels::packed_panel_bytes(source.type, n_cols));
    kernels::pack_panel(source.type, pointers.data(), n_cols, panel.data());
    const kernels::PackedMatrix matrix{source.type, n_rows, n_cols, panel.data(),
                                       panel.size_bytes()};
    const kernels::KernelList rungs = kernels::available_kernels();
    for (int i = 0; i < rungs.n_rungs; ++i) {
      std::vector<float> row(static_cast<std::size_t>(n_cols));
      for (std::int64_t n = 0; n < n_rows; ++n) {
        rungs.rungs[i]->unpack_row(matrix, n, row.data());
        for (std::int64_t k = 0; k < n_cols; ++k) {
          ASSERT_EQ(row[static_cast<std::size_t>(k)], load_as<float>(values + (n * n_cols + k) * 4))
              << "type " << id << " " << rungs.rungs[i]->name << " row " << n << " k " << k;
        }
      }
    }
    p = values + n_rows * n_cols * 4;
  }
  EXPECT_EQ(n_types, 2);
}

TEST(SourceRows, OtherTypesAreNamed) {
  files::TensorView tensor;
  tensor.name = "blk.0.attn_q.weight";
  tensor.type_name = "IQ2_XS";
  const Result<SourceRows> result = source_rows(tensor);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
  for (const char* word : {"blk.0.attn_q.weight", "IQ2_XS", "Q2_K", "Q6_K"}) {
    EXPECT_NE(result.error().message.find(word), std::string::npos) << word;
  }
}

}  // namespace
}  // namespace munia::model
