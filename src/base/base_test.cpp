#include <gtest/gtest.h>

#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/error.h"

namespace munia {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Error{ErrorCode::kInvalidArgument, "odd"};
  return value / 2;
}

Result<int> quarter(int value) {
  MUNIA_ASSIGN_OR_RETURN(const int h, half(value));
  return half(h);
}

TEST(Result, PassesValuesAndErrors) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_THROW((void)half(1).value_or_throw(), LoadError);
}

TEST(AlignedBuffer, IsZeroedAlignedAndMoves) {
  for (std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{3} << 20}) {
    AlignedBuffer buffer(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0U);
    for (std::size_t i = 0; i < size; i += 997) ASSERT_EQ(buffer.data()[i], std::byte{0});
    const std::byte* data = buffer.data();
    AlignedBuffer moved = std::move(buffer);
    EXPECT_EQ(moved.data(), data);
    EXPECT_EQ(moved.size_bytes(), size);
  }
}

}  // namespace
}  // namespace munia
