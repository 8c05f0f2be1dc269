// The AMX rung on emulated tiles and on the tile instructions, which are trapped and done in memory
// where the CPU has none (amx_trap.h): the tile product against plain loops, the split into three
// BF16 terms, matmul against a plain reference of its order as bytes, its error against float64,
// and rows that do not depend on their company.
#include "kernels/amx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>

#include "kernels/amx_trap.h"
#include "kernels/packed_format.h"
#include "kernels/scalar_math.h"
#include "kernels/test_data.h"

#if MUNIA_KERNELS_X86

namespace munia::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A float of random sign and mantissa and an exponent of [low, low + n), as stored (127 is 1).
float random_float(std::mt19937& random, unsigned low, unsigned n) {
  const auto bits = static_cast<std::uint32_t>(random());
  const auto exponent = low + static_cast<std::uint32_t>(random()) % n;
  return std::bit_cast<float>((bits & 0x807FFFFFU) | exponent << 23);
}

float flush(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x; }
float flushing_fma(float a, float b, float c) {
  return flush(std::fma(flush(a), flush(b), flush(c)));
}
float flushing_add(float a, float b) { return flush(flush(a) + flush(b)); }

/// One output of TDPBF16PS over n <= 32 products, in plain loops.
float plain_tile_product(float c, const float* a, const float* b, std::int64_t n) {
  float sums[2] = {};
  for (std::int64_t k = 0; k < n; ++k) sums[k % 2] = flushing_fma(a[k], b[k], sums[k % 2]);
  return flushing_add(c, flushing_add(sums[0], sums[1]));
}

float round_to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7FFFU + ((bits >> 16) & 1U)) & 0xFFFF0000U);
}

/// hi, mid, lo of x; hi and mid are cut off in place of rounded where rounding would overflow.
std::array<float, 3> plain_split(float x) {
  if (std::isinf(x) || std::isnan(x)) return {x, 0, 0};
  const auto cut = [](float value) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xFFFF0000U);
  };
  const bool overflows = std::isinf(round_to_bf16(x));
  const float hi = overflows ? cut(x) : round_to_bf16(x);
  const float mid = overflows ? cut(x - hi) : round_to_bf16(x - hi);
  return {hi, mid, round_to_bf16(x - hi - mid)};
}

/// One output for BF16 weights in the order of amx_matmul.inc. terms: [hi, mid, lo][k].
float plain_bf16(const PackedMatrix& w, const std::byte* panel, int lane,
                 const std::array<std::vector<float>, 3>& terms) {
  float sums[3] = {};
  for (std::int64_t k = 0; k < w.n_cols; k += 32) {
    const std::int64_t n = std::min<std::int64_t>(32, w.n_cols - k);
    float weights[32];
    for (std::int64_t i = 0; i < n; ++i) {
      weights[i] = packed_weight(w.type, panel, w.n_cols, lane, k + i);
    }
    for (std::size_t term = 0; term < 3; ++term) {
      sums[term] = plain_tile_product(sums[term], terms[term].data() + k, weights, n);
    }
  }
  return sums[0] + sums[1] + sums[2];
}

/// One output for quantized weights in the order of amx_codes.inc.
float plain_codes(const PackedMatrix& w, const std::byte* panel, int lane,
                  const std::array<std::vector<float>, 3>& terms, const float* x) {
  const PackedFormat format = packed_format(w.type);
  const auto middle = static_cast<float>(1 << (format.code_bits + format.plane_bits - 1));
  const float center = format.has_min ? middle : static_cast<float>(format.offset);
  float total = 0;
  float part = 0;
  for (std::int64_t k = 0; k < w.n_cols; k += format.group) {
    if (k % (4 * format.group) == 0) {
      total += part;
      part = 0;
    }
    float codes[32];
    PackedParts parts = {};
    for (std::int64_t i = 0; i < format.group; ++i) {
      parts = packed_parts(w.type, panel, w.n_cols, lane, k + i);
      codes[i] = parts.q - center;
    }
    float c = 0;
    for (const std::size_t term : {2U, 1U, 0U}) {
      c = plain_tile_product(c, terms[term].data() + k, codes, format.group);
    }
    part = std::fma(parts.scale, c, part);
    if (!format.has_min) continue;
    float lanes[16];
    for (std::int64_t i = 0; i < 16; ++i) lanes[i] = x[k + i] + x[k + 16 + i];
    part = std::fma(std::fma(parts.scale, center, parts.addend), sum_lanes(lanes), part);
  }
  return total + part;
}

/// y [n_tokens, n_rows] in the orders that the AMX rung has of its own.
std::vector<float> plain_matmul(const PackedMatrix& w, const std::vector<float>& x,
                                std::int64_t n_tokens) {
  std::vector<float> y;
  const std::vector<float> row(static_cast<std::size_t>(w.n_cols));
  std::array<std::vector<float>, 3> terms = {row, row, row};
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const float* x_row = x.data() + t * w.n_cols;
    for (std::size_t k = 0; k < row.size(); ++k) {
      const auto split = plain_split(x_row[k]);
      for (std::size_t i = 0; i < 3; ++i) terms[i][k] = split[i];
    }
    for (std::int64_t n = 0; n < w.n_rows; ++n) {
      const std::byte* panel = w.data + static_cast<std::size_t>(n / 16) * w.panel_bytes;
      const int lane = static_cast<int>(n % 16);
      y.push_back(w.type == WeightType::kBf16 ? plain_bf16(w, panel, lane, terms)
                                              : plain_codes(w, panel, lane, terms, x_row));
    }
  }
  return y;
}

std::vector<WeightType> own_types() {
  std::vector<WeightType> types = all_types();
  std::erase_if(types, [](WeightType type) { return !amx_has_own_order(type); });
  return types;
}

class Amx : public testing::Test {
 protected:
  void SetUp() override {
    if (select_kernels("amx-emulated") == nullptr) GTEST_SKIP() << "needs AVX-512";
    rungs_.push_back(&amx_emulated_kernels());
    if (amx_problem().empty()) {
      rungs_.push_back(&amx_kernels());
      return;
    }
#if defined(__linux__)
    trap_ = std::make_unique<TrappedTiles>();
    rungs_.push_back(&amx_kernels());
#endif
  }
  const std::vector<const Kernels*>& amx_rungs() const { return rungs_; }
  bool has_instructions() const { return rungs_.size() == 2; }

#if defined(__linux__)
  std::unique_ptr<TrappedTiles> trap_;
#else
  static constexpr std::nullptr_t trap_ = nullptr;
#endif

 private:
  std::vector<const Kernels*> rungs_;
};

PackedWeights random_matrix(WeightType type, std::int64_t n_rows, std::int64_t n_cols) {
  const std::vector<std::byte> rows = random_rows(type, n_rows, n_cols, 21);
  return pack_rows(type, rows.data(), n_rows, n_cols);
}

/// A BF16 matrix of given values.
PackedWeights matrix_of(const std::vector<float>& values, std::int64_t n_rows,
                        std::int64_t n_cols) {
  std::vector<std::uint16_t> halves;
  for (const float value : values) {
    halves.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  }
  return pack_rows(WeightType::kBf16, reinterpret_cast<const std::byte*>(halves.data()), n_rows,
                   n_cols);
}

TEST_F(Amx, TileProductIsThePlainLoop) {
  std::mt19937 random(31);
  for (const int rows : {1, 2, 7, 16}) {
    for (const unsigned exponents : {3U, 30U, 150U, 254U}) {
      TileProduct product;
      product.rows = rows;
      const auto value = [&] {  // exponents down to 0: subnormal BF16 too
        const float x = random_float(random, 127 - exponents / 2, exponents);
        return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
      };
      for (auto& row : product.a) std::generate(std::begin(row), std::end(row), value);
      for (auto& row : product.b) std::generate(std::begin(row), std::end(row), value);
      for (auto& row : product.c) {
        for (float& c : row) c = bf16_to_float(value());
      }
      TileProduct got = product;
      multiply_emulated_tiles(got);
      for (std::size_t m = 0; m < 16; ++m) {
        for (std::size_t n = 0; n < 16; ++n) {
          float a[32];
          float b[32];
          for (std::size_t k = 0; k < 32; ++k) {
            a[k] = bf16_to_float(product.a[m][k]);
            b[k] = bf16_to_float(product.b[k / 2][2 * n + k % 2]);
          }
          const float plain = plain_tile_product(product.c[m][n], a, b, 32);
          const float want = m < static_cast<std::size_t>(rows) ? plain : product.c[m][n];
          if (std::isnan(want)) {
            ASSERT_TRUE(std::isnan(got.c[m][n]));
          } else {
            ASSERT_EQ(std::bit_cast<std::uint32_t>(got.c[m][n]), std::bit_cast<std::uint32_t>(want))
                << "row " << m << " lane " << n << " exponents " << exponents;
          }
        }
      }
    }
  }
}

TEST_F(Amx, TileInstructionsGiveTheBytesOfTheEmulation) {
  if (!has_instructions()) GTEST_SKIP() << amx_problem();
  std::printf("tiles: %s\n", amx_problem().empty() ? "of the CPU" : "trapped instructions");
  EXPECT_TRUE(amx_self_test());
#if defined(__linux__)
  if (trap_ != nullptr) {
    EXPECT_EQ(trap_->n_instructions(), 16 * 7);
  }
#endif
}

TEST_F(Amx, MatmulGivesTheBytesOfThePlainReference) {
  for (const WeightType type : own_types()) {
    for (const std::int64_t n_cols : {1, 2, 31, 32, 33, 64, 95, 160, 256, 288, 768}) {
      if (n_cols % weight_block_cols(type) != 0) continue;
      for (const std::int64_t n_rows : {1, 15, 17, 33, 80}) {
        if (n_rows * n_cols > 10000) continue;
        const PackedWeights w = random_matrix(type, n_rows, n_cols);
        const std::vector<float> x = random_floats(37 * n_cols, 22);
        const std::vector<float> want = plain_matmul(w.matrix, x, 37);
        for (const std::int64_t n_tokens : {1, 3, 5, 6, 16, 17, 22, 37}) {
          const std::vector<float> part(want.begin(), want.begin() + n_tokens * n_rows);
          for (const Kernels* kernels : amx_rungs()) {
            if (kernels == &amx_kernels() && (n_rows == 1 || n_tokens == 3)) continue;  // time
            ASSERT_EQ(first_difference(multiply(*kernels, w.matrix, x.data(), n_tokens), part), -1)
                << kernels->name << " " << weight_type_name(type) << " outputs " << n_rows
                << " tokens " << n_tokens << " k " << n_cols;
          }
        }
      }
    }
  }
}

// The spike of this rung, kept: 3 * M rows of terms at M = 1 and M = 512 give the same bytes.
TEST_F(Amx, OneRowIsTheSameBytesAsThatRowOf512) {
  const std::int64_t n_rows = 40;
  const std::int64_t n_tokens = 512;
  for (const WeightType type : own_types()) {
    const std::int64_t n_cols = type == WeightType::kBf16 ? 2816 : 512;
    const PackedWeights w = random_matrix(type, n_rows, n_cols);
    const std::vector<float> x = random_floats(n_tokens * n_cols, 23);
    for (const Kernels* kernels : amx_rungs()) {
      if (kernels == &amx_kernels() && trap_ != nullptr && type != WeightType::kBf16) continue;
      const std::vector<float> batch = multiply(*kernels, w.matrix, x.data(), n_tokens);
      for (std::int64_t t = 0; t < n_tokens; t += 37) {
        const std::vector<float> alone = multiply(*kernels, w.matrix, x.data() + t * n_cols, 1);
        const std::vector<float> row(batch.begin() + t * n_rows, batch.begin() + (t + 1) * n_rows);
        ASSERT_EQ(first_difference(alone, row), -1)
            << kernels->name << " " << weight_type_name(type) << " token " << t;
      }
    }
  }
}

TEST_F(Amx, EmulatedAndHardwareRungsAgreeForEveryType) {
  if (!has_instructions()) GTEST_SKIP() << amx_problem();
  const Kernels& emulated = amx_emulated_kernels();
  const Kernels& hardware = amx_kernels();
  for (const WeightType type : all_types()) {
    const PackedWeights w = random_matrix(type, 40, 512);
    const std::vector<float> x = random_floats(35 * 512, 24);
    for (const std::int64_t n_tokens : {1, 5, 6, 16, 35}) {
      ASSERT_EQ(first_difference(multiply(hardware, w.matrix, x.data(), n_tokens),
                                 multiply(emulated, w.matrix, x.data(), n_tokens)),
                -1)
          << weight_type_name(type) << " tokens " << n_tokens;
    }
  }
}

/// Root of the mean squared error against float64 over that of the results.
double relative_error(const std::vector<float>& y, const PackedMatrix& w,
                      const std::vector<float>& x, std::int64_t n_tokens) {
  double error = 0;
  double size = 0;
  std::vector<float> weights(static_cast<std::size_t>(w.n_cols));
  for (std::int64_t n = 0; n < w.n_rows; ++n) {
    kScalarKernels.unpack_row(w, n, weights.data());
    for (std::int64_t t = 0; t < n_tokens; ++t) {
      double sum = 0;
      for (std::size_t k = 0; k < weights.size(); ++k) {
        sum += static_cast<double>(x[static_cast<std::size_t>(t) * weights.size() + k]) *
               static_cast<double>(weights[k]);
      }
      const double got = static_cast<double>(y[static_cast<std::size_t>(t * w.n_rows + n)]);
      error += (got - sum) * (got - sum);
      size += sum * sum;
    }
  }
  return std::sqrt(error / size);
}

TEST_F(Amx, ThreeTermsAreMoreAccurateThanFloat32Fma) {
  const std::int64_t n_cols = 2816;
  const std::int64_t n_tokens = 24;
  const std::vector<float> x = random_floats(n_tokens * n_cols, 25);
  for (const WeightType type : own_types()) {
    const PackedWeights w = random_matrix(type, 64, n_cols);
    std::vector<float> chain;  // one float32 FMA chain over all k
    std::vector<float> weights(static_cast<std::size_t>(n_cols));
    for (std::int64_t t = 0; t < n_tokens; ++t) {
      for (std::int64_t n = 0; n < 64; ++n) {
        kScalarKernels.unpack_row(w.matrix, n, weights.data());
        float sum = 0;
        for (std::size_t k = 0; k < weights.size(); ++k) {
          sum = std::fma(x[static_cast<std::size_t>(t * n_cols) + k], weights[k], sum);
        }
        chain.push_back(sum);
      }
    }
    const double plain = relative_error(chain, w.matrix, x, n_tokens);
    const std::vector<float> y = multiply(amx_emulated_kernels(), w.matrix, x.data(), n_tokens);
    const double error = relative_error(y, w.matrix, x, n_tokens);
    std::printf("%s: relative error %.2e, one chain of float32 FMA %.2e\n",
                std::string(weight_type_name(type)).c_str(), error, plain);
    EXPECT_LT(error, 2.2e-7);
    EXPECT_LT(error, plain / 4);
  }
}

// With a weight of one the result is x again, as exactly as the terms hold it.
TEST_F(Amx, TermsHoldEveryFloatExactlyFrom2ToTheMinus103) {
  std::mt19937 random(32);
  std::vector<float> x;
  for (int i = 0; i < 4000; ++i) {  // every sign, exponents from 2^-103 to the largest, mantissas
    x.push_back(random_float(random, 24, 231));
  }
  for (const std::uint32_t bits :
       {0x0C000000U, 0x0C000001U, 0x0C7FFFFFU, 0x3F800000U, 0x3F808000U, 0x3F818000U, 0x3F80FFFFU,
        0x7F7F7FFFU, 0x7F7F8000U, 0x7F7F8001U, 0x7F7FFFFFU, 0xFF7F8000U, 0xFF7FFFFFU, 0U}) {
    x.push_back(std::bit_cast<float>(bits));
  }
  const PackedWeights one = matrix_of({1.0F}, 1, 1);
  for (const Kernels* kernels : amx_rungs()) {
    const std::vector<float> y =
        multiply(*kernels, one.matrix, x.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(y[i], x[i]) << kernels->name << std::hexfloat << " " << x[i];
    }
  }
}

TEST_F(Amx, SmallerFloatsAreWrongByLessThan2ToTheMinus126) {
  std::mt19937 random(33);
  std::vector<float> x = {0x1p-126F, 0x1p-149F, -0x1p-149F, 0x1.FFFFFEp-104F};
  for (int i = 0; i < 2000; ++i) {
    x.push_back(random_float(random, 0, 24));
  }
  const PackedWeights one = matrix_of({1.0F}, 1, 1);
  for (const Kernels* kernels : amx_rungs()) {
    const std::vector<float> y =
        multiply(*kernels, one.matrix, x.data(), static_cast<std::int64_t>(x.size()));
    bool any_lost = false;
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_LE(std::fabs(static_cast<double>(y[i]) - static_cast<double>(x[i])), 0x1p-126)
          << kernels->name << std::hexfloat << " " << x[i];
      any_lost = any_lost || y[i] != x[i];
    }
    EXPECT_TRUE(any_lost) << kernels->name << ": tiles take subnormal terms as zero";
  }
}

TEST_F(Amx, InfinityAndNanStayInTheirRowAndArrive) {
  const std::int64_t n_cols = 77;
  const PackedWeights w = random_matrix(WeightType::kBf16, 20, n_cols);
  const float signalling_nan = std::bit_cast<float>(0x7F800001U);  // cut in half it is infinity
  for (const std::int64_t n_tokens : {1, 5, 9, 40}) {
    for (const float special :
         {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), signalling_nan}) {
      std::vector<float> x = random_floats(n_tokens * n_cols, 26);
      const std::int64_t row = n_tokens / 2;
      x[static_cast<std::size_t>(row * n_cols + 70)] = special;
      for (const Kernels* kernels : amx_rungs()) {
        const std::vector<float> y = multiply(*kernels, w.matrix, x.data(), n_tokens);
        for (std::int64_t t = 0; t < n_tokens; ++t) {
          for (std::int64_t n = 0; n < 20; ++n) {
            const float value = y[static_cast<std::size_t>(t * 20 + n)];
            const float weight = packed_weight(
                WeightType::kBf16,
                w.matrix.data + static_cast<std::size_t>(n / 16) * w.matrix.panel_bytes, n_cols,
                static_cast<int>(n % 16), 70);
            if (t != row) {
              ASSERT_TRUE(std::isfinite(value)) << kernels->name;
            } else if (std::isnan(special)) {
              ASSERT_TRUE(std::isnan(value)) << kernels->name;
            } else {
              ASSERT_EQ(value, special * weight) << kernels->name;
            }
          }
        }
      }
    }
  }
}

TEST_F(Amx, LargestFloatsMultiplyWithoutOverflow) {
  const std::int64_t n_cols = 40;
  const std::vector<float> values(static_cast<std::size_t>(n_cols), 0x1p-6F);
  const PackedWeights w = matrix_of(values, 1, n_cols);
  const std::vector<float> x(static_cast<std::size_t>(n_cols), std::numeric_limits<float>::max());
  for (const Kernels* kernels : amx_rungs()) {
    const float y = multiply(*kernels, w.matrix, x.data(), 1)[0];
    EXPECT_NEAR(y / std::numeric_limits<float>::max(), 0.625, 1e-6) << kernels->name;
  }
}

TEST_F(Amx, IsOfferedOnlyWhereItWorks) {
  const bool offered = select_kernels("amx") != nullptr;
  EXPECT_EQ(offered, amx_problem().empty()) << amx_problem();
  for (const Kernels* kernels : rungs()) EXPECT_STRNE(kernels->name, "amx-emulated");
  if (offered) {
    EXPECT_EQ(select_kernels(""), select_kernels("amx"));
  }
}

}  // namespace
}  // namespace munia::kernels

#endif  // MUNIA_KERNELS_X86
