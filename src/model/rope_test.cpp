#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace munia::model {
namespace {

TEST(Rope, SineAndCosineAgreeWithTheCLibraryInLongDouble) {
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const double x = static_cast<double>(i) * 1.37 + 0.001 * static_cast<double>(i % 997);
    double sine = 0;
    double cosine = 0;
    sin_cos(x, sine, cosine);
    worst = std::max(worst,
                     std::fabs(sine - static_cast<double>(std::sin(static_cast<long double>(x)))));
    worst = std::max(
        worst, std::fabs(cosine - static_cast<double>(std::cos(static_cast<long double>(x)))));
  }
  EXPECT_LT(worst, 1e-15);
}

TEST(Rope, TableHoldsCosinesThenSinesOfFloat32Angles) {
  const std::int64_t head_dim = 64;
  const std::vector<float> table = make_rope_table(100, head_dim, 10000.0F);
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    EXPECT_EQ(table[static_cast<std::size_t>(i)], 1.0F);  // position 0
    EXPECT_EQ(table[static_cast<std::size_t>(32 + i)], 0.0F);
  }
  // Pair 0 turns by one radian per position: exponent 0, inverse frequency 1.
  EXPECT_FLOAT_EQ(table[static_cast<std::size_t>(99 * head_dim)], std::cos(99.0F));
  EXPECT_FLOAT_EQ(table[static_cast<std::size_t>(99 * head_dim + 32)], std::sin(99.0F));
  // Pair 16 of 32 has the frequency 10000^(-1/2).
  EXPECT_FLOAT_EQ(table[static_cast<std::size_t>(50 * head_dim + 16)], std::cos(50.0F * 0.01F));
}

}  // namespace
}  // namespace munia::model
