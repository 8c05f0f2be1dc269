// matmul of every rung against the reference as bytes, over all weight types and odd sizes; the
// reference against float64; and the promise that a row's result does not depend on its company.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/packed_format.h"
#include "kernels/rungs.h"
#include "kernels/test_data.h"

namespace munia::kernels {
namespace {

PackedWeights random_matrix(WeightType type, std::int64_t n_rows, std::int64_t n_cols) {
  const std::vector<std::byte> rows = random_rows(type, n_rows, n_cols, 11);
  return pack_rows(type, rows.data(), n_rows, n_cols);
}

std::vector<const Kernels*> vector_rungs() {
  std::vector<const Kernels*> list = rungs();
  list.erase(list.begin());
  for (const char* name : {"avx512-without-vnni", "amx-emulated"}) {
    if (const Kernels* kernels = select_kernels(name)) list.push_back(kernels);
  }
  return list;
}

class MatmulOfType : public testing::TestWithParam<WeightType> {};

TEST_P(MatmulOfType, EveryRungGivesTheBytesOfTheReference) {
  const WeightType type = GetParam();
  const std::vector<std::int64_t> some_tokens = {1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 20, 63};
  for (const std::int64_t n_cols : {1, 31, 32, 256, 257, 288, 896, 2816}) {
    if (n_cols % weight_block_cols(type) != 0) continue;
    for (const std::int64_t n_rows : {1, 2, 15, 16, 17, 33, 112}) {
      const bool small = n_rows * n_cols < 6000;
      const PackedWeights w = random_matrix(type, n_rows, n_cols);
      const std::vector<float> x = random_floats(63 * n_cols, 12);
      const std::vector<float> bias = random_floats(n_rows, 13);
      for (const std::int64_t n_tokens : some_tokens) {
        if (!small && n_tokens > 8 && n_tokens != 13 && n_rows != 33) continue;
        const std::vector<float> want =
            multiply(kScalarKernels, w.matrix, x.data(), n_tokens, bias.data());
        for (const Kernels* kernels : vector_rungs()) {
          if (&byte_reference(*kernels, type) != &kScalarKernels) continue;  // amx_test.cpp
          ASSERT_EQ(
              first_difference(multiply(*kernels, w.matrix, x.data(), n_tokens, bias.data()), want),
              -1)
              << kernels->name << " " << weight_type_name(type) << " outputs " << n_rows
              << " tokens " << n_tokens << " k " << n_cols;
        }
      }
    }
  }
}

TEST_P(MatmulOfType, ManyRowsAreTheSameBytesAsOneByOne) {
  const WeightType type = GetParam();
  const std::int64_t n_tokens = 530;  // more than one chunk of rows
  const std::int64_t n_rows = 40;
  const std::int64_t n_cols = 512;
  const PackedWeights w = random_matrix(type, n_rows, n_cols);
  const std::vector<float> x = random_floats(n_tokens * n_cols, 14);
  for (const Kernels* kernels : rungs()) {
    const std::vector<float> batch = multiply(*kernels, w.matrix, x.data(), n_tokens);
    for (std::int64_t t = 0; t < n_tokens; t += 7) {
      const std::vector<float> alone = multiply(*kernels, w.matrix, x.data() + t * n_cols, 1);
      const std::vector<float> row(batch.begin() + t * n_rows, batch.begin() + (t + 1) * n_rows);
      ASSERT_EQ(first_difference(alone, row), -1) << kernels->name << " token " << t;
    }
  }
}

class AccurateMatmulOfType : public MatmulOfType {};

TEST_P(AccurateMatmulOfType, ReferenceIsWithinItsRoundingErrorOfFloat64) {
  const WeightType type = GetParam();
  const std::int64_t n_cols = 2816;
  const PackedWeights w = random_matrix(type, 16, n_cols);
  const std::vector<float> x = random_floats(3 * n_cols, 15);
  const std::vector<float> y = multiply(kScalarKernels, w.matrix, x.data(), 3);
  for (int t = 0; t < 3; ++t) {
    for (int n = 0; n < 16; ++n) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t k = 0; k < n_cols; ++k) {
        const double product =
            static_cast<double>(x[static_cast<std::size_t>(t * n_cols + k)]) *
            static_cast<double>(packed_weight(type, w.matrix.data, n_cols, n, k));
        sum += product;
        magnitude += std::abs(product);
      }
      // A term is rounded at most kChainLength times in its chain and once per later chain.
      const double bound =
          static_cast<double>(kChainLength + n_cols / kChainLength) * 0x1p-24 * magnitude;
      EXPECT_NEAR(static_cast<double>(y[static_cast<std::size_t>(t * 16 + n)]), sum, bound);
    }
  }
}

std::string name_of(const testing::TestParamInfo<WeightType>& type) {
  return std::string(weight_type_name(type.param));
}
INSTANTIATE_TEST_SUITE_P(AllTypes, MatmulOfType, testing::ValuesIn(all_types()), name_of);

/// Those with float32 accuracy; for the others narrow_test.cpp has the bounds.
std::vector<WeightType> accurate_types() {
  std::vector<WeightType> types = all_types();
  std::erase_if(types, is_narrow_type);
  return types;
}
INSTANTIATE_TEST_SUITE_P(AllTypes, AccurateMatmulOfType, testing::ValuesIn(accurate_types()),
                         name_of);

TEST(Matmul, PanelsInPiecesUnitsInPiecesBiasAndResidual) {
  const std::int64_t n_rows = 100;
  const std::int64_t n_cols = 320;
  const PackedWeights w = random_matrix(WeightType::kQ5_0, n_rows, n_cols);
  const std::vector<float> bias = random_floats(n_rows, 16);
  for (const std::int64_t n_tokens : {1, 3, 9, 33}) {
    const std::vector<float> x = random_floats(n_tokens * n_cols, 17);
    const std::vector<float> residual = random_floats(n_tokens * n_rows, 18);
    const std::vector<float> plain = multiply(kScalarKernels, w.matrix, x.data(), n_tokens);
    for (const Kernels* kernels : rungs()) {
      const std::vector<float> whole =
          multiply(*kernels, w.matrix, x.data(), n_tokens, bias.data(), &residual);
      ExactBuffer prepared(kernels->prepared_bytes(n_tokens, n_cols));
      const std::int64_t n_units =
          (n_tokens + kernels->prepare_unit_rows - 1) / kernels->prepare_unit_rows;
      for (std::int64_t unit = n_units - 1; unit >= 0; --unit) {
        kernels->prepare_rows(x.data(), n_tokens, n_cols, only(w.matrix.type), unit, unit + 1,
                              prepared.data());
      }
      ExactBuffer scratch(kernels->matmul_scratch_bytes(n_tokens, n_cols));
      const std::int64_t stride = n_rows + 5;
      std::vector<float> y(static_cast<std::size_t>(n_tokens * stride), 77.0F);
      for (std::int64_t t = 0; t < n_tokens; ++t) {
        std::copy_n(residual.begin() + t * n_rows, n_rows, y.begin() + t * stride);
      }
      const MatmulOutput out = {y.data(), stride, bias.data(), true};
      for (const auto& [begin, end] : {std::pair{5, 7}, std::pair{0, 4}, std::pair{4, 5}}) {
        kernels->matmul(w.matrix, {prepared.data(), n_tokens, n_cols}, out, begin, end,
                        scratch.data());
      }
      for (std::int64_t t = 0; t < n_tokens; ++t) {
        for (std::int64_t n = 0; n < stride; ++n) {
          const float got = y[static_cast<std::size_t>(t * stride + n)];
          if (n >= n_rows) {
            ASSERT_EQ(got, 77.0F) << kernels->name << " wrote past the outputs";
            continue;
          }
          const auto i = static_cast<std::size_t>(t * n_rows + n);
          ASSERT_EQ(got, whole[i]) << kernels->name;
          ASSERT_EQ(got, residual[i] + (plain[i] + bias[static_cast<std::size_t>(n)]));
        }
      }
    }
  }
}

TEST(Matmul, NanAndInfinityStayInTheirRowAndArrive) {
  const std::int64_t n_cols = 300;
  const PackedWeights w = random_matrix(WeightType::kF32, 20, n_cols);
  std::vector<float> x = random_floats(9 * n_cols, 19);
  x[3 * 300 + 299] = std::numeric_limits<float>::quiet_NaN();
  x[6 * 300] = std::numeric_limits<float>::infinity();
  for (const Kernels* kernels : rungs()) {
    const std::vector<float> y = multiply(*kernels, w.matrix, x.data(), 9);
    for (int t = 0; t < 9; ++t) {
      for (int n = 0; n < 20; ++n) {
        const float value = y[static_cast<std::size_t>(t * 20 + n)];
        ASSERT_EQ(std::isnan(value), t == 3) << kernels->name;
        ASSERT_EQ(std::isinf(value), t == 6) << kernels->name;
      }
    }
  }
}

}  // namespace
}  // namespace munia::kernels
