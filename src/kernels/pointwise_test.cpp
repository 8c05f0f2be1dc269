// exp, norm, rotation, and activation: the vector rungs against the reference as bytes,
// the reference against float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/rungs.h"
#include "kernels/scalar_math.h"
#include "kernels/test_data.h"

namespace munia::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::size_t index_of(std::int64_t i) { return static_cast<std::size_t>(i); }

TEST(Exp, IsWithinOneAndAHalfUlpEverywhere) {
  double worst = 0;
  const auto check = [&](float x) {
    const double want = std::exp(static_cast<double>(x));
    const auto got = static_cast<double>(exp_f32(x));
    if (want > static_cast<double>(std::numeric_limits<float>::max())) {
      ASSERT_GE(got, 0x1.fffffep127) << x;
      return;
    }
    const int exponent = std::max(std::ilogb(want), -126);
    const double ulps = std::abs(got - want) / std::ldexp(1.0, exponent - 23);
    worst = std::max(worst, ulps);
    ASSERT_LE(ulps, 1.5) << x;
  };
  // Every 331st float from 2^-40 to 104, both signs.
  for (std::uint32_t bits = 0x2B800000U; bits < 0x42D00000U; bits += 331) {
    check(-std::bit_cast<float>(bits));
    check(std::bit_cast<float>(bits));
  }
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST(Exp, EndsAreExact) {
  EXPECT_EQ(exp_f32(0.0F), 1.0F);
  EXPECT_EQ(exp_f32(-0.0F), 1.0F);
  EXPECT_EQ(exp_f32(-104.0F), 0.0F);
  EXPECT_EQ(exp_f32(-1e30F), 0.0F);
  EXPECT_EQ(exp_f32(-kInf), 0.0F);
  EXPECT_FALSE(std::signbit(exp_f32(-kInf)));
  EXPECT_GT(exp_f32(-103.0F), 0.0F);
  EXPECT_EQ(exp_f32(88.8F), kInf);
  EXPECT_EQ(exp_f32(1e30F), kInf);
  EXPECT_EQ(exp_f32(kInf), kInf);
  EXPECT_LT(exp_f32(88.7F), kInf);
  EXPECT_TRUE(std::isnan(exp_f32(kNan)));
}

TEST(SiluMul, EveryRungGivesTheBytesOfTheReference) {
  std::vector<float> gate;
  for (std::uint32_t bits = 0; bits < 0x43000000U; bits += 50021) {
    gate.push_back(std::bit_cast<float>(bits));
    gate.push_back(-gate.back());
  }
  gate.insert(gate.end(), {1e30F, -1e30F, kInf, 0.0F, -0.0F, 104.0F, -89.0F, 88.5F, -87.5F});
  const auto n_all = static_cast<std::int64_t>(gate.size());
  const std::vector<float> up = random_floats(n_all, 21);
  for (const std::int64_t n :
       {std::int64_t{1}, std::int64_t{15}, std::int64_t{16}, std::int64_t{33}, n_all}) {
    std::vector<float> want(index_of(n));
    kScalarKernels.silu_mul(gate.data(), up.data(), n, want.data());
    for (const Kernels* kernels : rungs()) {
      std::vector<float> in_place(gate.begin(), gate.begin() + n);
      kernels->silu_mul(in_place.data(), up.data(), n, in_place.data());
      const std::int64_t at = first_difference(in_place, want);
      ASSERT_EQ(at, -1) << kernels->name << " gate " << gate[index_of(at)];
    }
  }
  for (std::size_t i = 0; i < gate.size(); ++i) {
    float got = 0;
    kScalarKernels.silu_mul(&gate[i], &up[i], 1, &got);
    const auto g = static_cast<double>(gate[i]);
    const double want = g / (1 + std::exp(-g)) * static_cast<double>(up[i]);
    // Below -88.7 the formula's exp is infinite and the result 0, as it is in float32 everywhere.
    if (std::abs(want) < 1e-36 || std::isinf(want)) continue;
    ASSERT_NEAR(static_cast<double>(got), want, std::abs(want) * 5 * 0x1p-24) << g;
  }
  for (const Kernels* kernels : rungs()) {
    float got = 0;
    kernels->silu_mul(&kNan, up.data(), 1, &got);
    EXPECT_TRUE(std::isnan(got)) << kernels->name;
  }
}

TEST(RmsNorm, EveryRungGivesTheBytesOfTheReference) {
  for (const std::int64_t dim : {1, 7, 16, 17, 64, 130, 896, 1024}) {
    const std::int64_t n_rows = 3;
    const std::vector<float> x = random_floats(n_rows * dim, 22);
    const std::vector<float> weight = random_floats(dim, 23);
    std::vector<float> want(x.size());
    kScalarKernels.rms_norm(x.data(), weight.data(), 1e-6F, n_rows, dim, want.data());
    for (const Kernels* kernels : rungs()) {
      std::vector<float> got(x.size());
      kernels->rms_norm(x.data(), weight.data(), 1e-6F, n_rows, dim, got.data());
      ASSERT_EQ(first_difference(got, want), -1) << kernels->name << " dim " << dim;
      kernels->rms_norm(x.data() + dim, weight.data(), 1e-6F, 1, dim, got.data());
      ASSERT_EQ(std::memcmp(got.data(), want.data() + dim, index_of(dim) * 4), 0)
          << kernels->name << ": a row alone differs from the row in company";
    }
    for (std::int64_t t = 0; t < n_rows; ++t) {
      double mean = 0;
      for (std::int64_t i = 0; i < dim; ++i) {
        const auto v = static_cast<double>(x[index_of(t * dim + i)]);
        mean += v * v / static_cast<double>(dim);
      }
      for (std::int64_t i = 0; i < dim; ++i) {
        const double exact = static_cast<double>(weight[index_of(i)]) *
                             static_cast<double>(x[index_of(t * dim + i)]) / std::sqrt(mean + 1e-6);
        // The mean errs by at most dim/16 + 8 roundings (all terms positive), its root by half.
        const double roundings = static_cast<double>(dim) / 32 + 9;
        ASSERT_NEAR(static_cast<double>(want[index_of(t * dim + i)]), exact,
                    std::abs(exact) * roundings * 0x1p-24);
      }
    }
  }
}

TEST(Rope, EveryRungGivesTheBytesOfTheReference) {
  for (const std::int64_t head_dim : {2, 16, 48, 64, 128}) {
    const std::int64_t n_heads = 3;
    const std::vector<float> x = random_floats(n_heads * head_dim, 24);
    std::vector<float> cos_sin(index_of(head_dim));
    for (std::int64_t i = 0; i < head_dim / 2; ++i) {
      cos_sin[index_of(i)] = std::cos(static_cast<float>(i) * 0.7F);
      cos_sin[index_of(head_dim / 2 + i)] = std::sin(static_cast<float>(i) * 0.7F);
    }
    std::vector<float> want = x;
    kScalarKernels.rope(want.data(), n_heads, head_dim, cos_sin.data());
    for (const Kernels* kernels : rungs()) {
      std::vector<float> got = x;
      kernels->rope(got.data(), n_heads, head_dim, cos_sin.data());
      ASSERT_EQ(first_difference(got, want), -1) << kernels->name << " head_dim " << head_dim;
    }
    for (std::int64_t i = 0; i < head_dim / 2; ++i) {  // a rotation keeps each pair's length
      const auto at = [&](const std::vector<float>& v, std::int64_t j) {
        return static_cast<double>(v[index_of(head_dim + j)]);
      };
      ASSERT_NEAR(std::hypot(at(want, i), at(want, i + head_dim / 2)),
                  std::hypot(at(x, i), at(x, i + head_dim / 2)), 1e-5);
    }
  }
}

}  // namespace
}  // namespace munia::kernels
