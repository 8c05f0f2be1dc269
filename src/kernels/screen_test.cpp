// Screening: the bounds hold what matmul gives, on every rung, for heads of every kind; and all
// rungs give the bytes of the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "kernels/rungs.h"
#include "kernels/test_data.h"

namespace munia::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Screened {
  ExactBuffer buffer{0};
  ScreenMatrix matrix;
};

Screened screen_copy(const Kernels& kernels, const PackedMatrix& w) {
  Screened copy;
  copy.matrix = {w.n_rows, w.n_cols, nullptr, screen_panel_bytes(w.n_cols)};
  copy.buffer =
      ExactBuffer(copy.matrix.panel_bytes * static_cast<std::size_t>(copy.matrix.n_panels()));
  copy.matrix.data = copy.buffer.data();
  for (std::int64_t p = 0; p < copy.matrix.n_panels(); ++p) {
    kernels.screen_pack(w, p,
                        copy.buffer.data() + static_cast<std::size_t>(p) * copy.matrix.panel_bytes);
  }
  return copy;
}

struct Bounds {
  std::vector<float> lower, upper;
};

/// Empty when x cannot be screened.
Bounds bounds_of(const Kernels& kernels, const ScreenMatrix& w, const float* x,
                 std::int64_t n_rows) {
  const auto columns = static_cast<std::size_t>(w.n_cols);
  std::vector<std::int16_t> codes(static_cast<std::size_t>(n_rows * screen_padded_cols(w.n_cols)));
  std::vector<ScreenGroup> groups(static_cast<std::size_t>(n_rows * screen_groups(w.n_cols)));
  for (std::int64_t t = 0; t < n_rows; ++t) {
    if (!prepare_screen_row({x + t * w.n_cols, columns}, kernels.matmul_error(w.n_cols),
                            codes.data() + t * screen_padded_cols(w.n_cols),
                            groups.data() + t * screen_groups(w.n_cols))) {
      return {};
    }
  }
  Bounds bounds;
  bounds.lower.resize(static_cast<std::size_t>(n_rows * w.n_rows));
  bounds.upper = bounds.lower;
  kernels.screen(w, {codes.data(), groups.data(), n_rows},
                 {bounds.lower.data(), bounds.upper.data(), w.n_rows}, 0, w.n_panels());
  return bounds;
}

PackedWeights pack_floats(const std::vector<float>& weights, std::int64_t n_cols) {
  return pack_rows(WeightType::kF32, reinterpret_cast<const std::byte*>(weights.data()),
                   static_cast<std::int64_t>(weights.size()) / n_cols, n_cols);
}

TEST(Screen, EveryRungGivesTheBytesOfTheReference) {
  for (const WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBf16}) {
    for (const std::int64_t n_cols : {1, 3, 32, 100, 128, 129, 256, 288, 896, 1024}) {
      if (n_cols % weight_block_cols(type) != 0) continue;
      const std::int64_t n_outputs = 37;
      const std::vector<std::byte> rows = random_rows(type, n_outputs, n_cols, 31);
      const PackedWeights w = pack_rows(type, rows.data(), n_outputs, n_cols);
      const std::vector<float> x = random_floats(kScreenMaxRows * n_cols, 32);
      const Screened want = screen_copy(kScalarKernels, w.matrix);
      for (const Kernels* kernels : rungs()) {
        const Screened got = screen_copy(*kernels, w.matrix);
        ASSERT_EQ(
            std::memcmp(want.matrix.data, got.matrix.data,
                        want.matrix.panel_bytes * static_cast<std::size_t>(want.matrix.n_panels())),
            0)
            << kernels->name << " " << weight_type_name(type) << " k " << n_cols;
        for (std::int64_t n_rows = 1; n_rows <= kScreenMaxRows; ++n_rows) {
          const Bounds a = bounds_of(kScalarKernels, want.matrix, x.data(), n_rows);
          const Bounds b = bounds_of(*kernels, want.matrix, x.data(), n_rows);
          ASSERT_EQ(first_difference(a.lower, b.lower), -1) << kernels->name << " k " << n_cols;
          ASSERT_EQ(first_difference(a.upper, b.upper), -1) << kernels->name << " k " << n_cols;
        }
      }
    }
  }
}

struct Kind {
  const char* name;
  std::function<float(std::int64_t n, std::int64_t k, float random)> weight;
  std::function<float(std::int64_t k, float random)> input;
};

std::vector<Kind> kinds() {
  const auto plain = [](std::int64_t, float r) { return r; };
  return {
      {"normal", [](auto, auto, float r) { return r; }, plain},
      {"outlier columns", [](auto, auto k, float r) { return k % 97 == 5 ? 60 * r : r; },
       [](auto k, float r) { return k % 89 == 3 ? 80 * r : r; }},
      {"all positive", [](auto, auto, float r) { return std::fabs(r); },
       [](auto, float r) { return std::fabs(r); }},
      {"one weight", [](auto n, auto k, float r) { return k == n % 7 ? r : 0.0F; }, plain},
      {"zeros", [](auto, auto, float) { return 0.0F; }, plain},
      {"zero input", [](auto, auto, float r) { return r; }, [](auto, float) { return 0.0F; }},
      {"huge", [](auto, auto, float r) { return r * 0x1p+45F; },
       [](auto, float r) { return r * 0x1p+45F; }},
      {"tiny", [](auto, auto, float r) { return r * 0x1p-80F; },
       [](auto, float r) { return r * 0x1p-60F; }},
      {"subnormal", [](auto, auto, float r) { return r * 0x1p-140F; },
       [](auto, float r) { return r * 0x1p-140F; }},
      {"huge by subnormal", [](auto, auto, float r) { return r * 0x1p+44F; },
       [](auto, float r) { return r * 0x1p-145F; }},
      {"rows of all sizes",
       [](auto n, auto, float r) { return std::ldexp(r, static_cast<int>(n % 90) - 45); },
       [](auto k, float r) { return std::ldexp(r, static_cast<int>(k % 60) - 30); }},
      {"rows that are not finite",
       [](auto n, auto k, float r) {
         if (n == 3 && k == 2) return kInfinity;
         if (n == 20 && k == 0) return std::numeric_limits<float>::quiet_NaN();
         return n == 21 && k == 1 ? 0x1p+51F : r;
       },
       plain},
  };
}

TEST(Screen, TheBoundsHoldWhatMatmulGives) {
  const std::int64_t n_outputs = 200;
  for (const std::int64_t n_cols : {5, 128, 576, 1024}) {
    for (const Kind& kind : kinds()) {
      std::vector<float> weights = random_floats(n_outputs * n_cols, 33);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        weights[i] = kind.weight(at / n_cols, at % n_cols, weights[i]);
      }
      const PackedWeights w = pack_floats(weights, n_cols);
      std::vector<float> x = random_floats(kScreenMaxRows * n_cols, 34);
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = kind.input(static_cast<std::int64_t>(i) % n_cols, x[i]);
      }
      for (const Kernels* kernels : rungs()) {
        const std::vector<float> y = multiply(*kernels, w.matrix, x.data(), kScreenMaxRows);
        const Screened copy = screen_copy(*kernels, w.matrix);
        const Bounds bounds = bounds_of(*kernels, copy.matrix, x.data(), kScreenMaxRows);
        ASSERT_EQ(bounds.lower.size(), y.size()) << kind.name;
        for (std::size_t i = 0; i < y.size(); ++i) {
          // Written so that a NaN output passes with bounds of infinity only.
          const bool inside = bounds.lower[i] <= y[i] && y[i] <= bounds.upper[i];
          const bool unbounded = bounds.lower[i] == -kInfinity && bounds.upper[i] == kInfinity;
          ASSERT_TRUE(inside || unbounded)
              << kernels->name << ", " << kind.name << ", k " << n_cols << ", output "
              << i % n_outputs << ": " << bounds.lower[i] << " <= " << y[i]
              << " <= " << bounds.upper[i];
        }
      }
    }
  }
}

// Inputs made to err as far as they can: every activation stands where its weight's residual is of
// its own sign. The bound must hold, and this shows that it is not idle.
TEST(Screen, TheBoundIsReachedByInputsAlongTheResiduals) {
  const std::int64_t n_cols = 512;
  const std::vector<float> weights = random_floats(16 * n_cols, 35);
  const PackedWeights w = pack_floats(weights, n_cols);
  for (const Kernels* kernels : rungs()) {
    const Screened copy = screen_copy(*kernels, w.matrix);
    for (std::int64_t n = 0; n < 16; ++n) {
      std::vector<float> x(static_cast<std::size_t>(n_cols));
      for (std::int64_t k = 0; k < n_cols; ++k) {
        const std::byte* group = copy.matrix.data + k / kScreenGroup * (kScreenGroup * 16 + 128);
        const std::int64_t i = k % kScreenGroup;
        const auto code = static_cast<float>(
            reinterpret_cast<const std::int8_t*>(group)[(i / 2 * 16 + n) * 2 + i % 2]);
        const float s = reinterpret_cast<const float*>(group + kScreenGroup * 16)[n];
        x[static_cast<std::size_t>(k)] =
            std::fma(-code, s, weights[static_cast<std::size_t>(n * n_cols + k)]);
      }
      const float y = multiply(*kernels, w.matrix, x.data(), 1)[static_cast<std::size_t>(n)];
      const Bounds bounds = bounds_of(*kernels, copy.matrix, x.data(), 1);
      const float lower = bounds.lower[static_cast<std::size_t>(n)];
      const float upper = bounds.upper[static_cast<std::size_t>(n)];
      EXPECT_LE(y, upper) << kernels->name;
      EXPECT_GT(y - lower, 0.98F * (upper - lower)) << kernels->name;
    }
  }
}

TEST(Screen, InputsThatAreNotFiniteOrTooLargeAreRefused) {
  std::vector<std::int16_t> codes(200);
  std::vector<ScreenGroup> groups(2);
  std::vector<float> x(200, 1.0F);
  EXPECT_TRUE(prepare_screen_row(x, 1e-6, codes.data(), groups.data()));
  for (const float bad :
       {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 0x1p+51F}) {
    x[150] = bad;
    EXPECT_FALSE(prepare_screen_row(x, 1e-6, codes.data(), groups.data())) << bad;
  }
}

}  // namespace
}  // namespace munia::kernels
