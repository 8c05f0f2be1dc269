// The two-step argmax against the full pass on heads made to mislead it, on every rung; and that
// the logits of some ids are the bytes of the full pass.
#include "model/head.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>

namespace munia::model {
namespace {

using kernels::Kernels;
using kernels::kPanelRows;
using kernels::PackedMatrix;
using kernels::WeightType;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kVocab = 3000;
constexpr std::int64_t kHidden = 224;

std::vector<const Kernels*> rungs() {
  const kernels::KernelList list = kernels::available_kernels();
  return {list.rungs, list.rungs + list.n_rungs};
}

std::vector<float> random_floats(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = normal(random);
  return values;
}

// As decode::Sampler has it: the lowest id of the largest logit, 0 when there is none.
std::int64_t argmax(std::span<const float> logits) {
  float best = -kInfinity;
  std::size_t best_id = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > best) {
      best = logits[i];
      best_id = i;
    }
  }
  return static_cast<std::int64_t>(best_id);
}

// A head with all that is needed to run it.
class TestHead {
 public:
  /// `type`: F32 or INT8, whose source rows are float32.
  TestHead(const std::vector<float>& weights, const Kernels& kernels,
           WeightType type = WeightType::kF32)
      : kernels_(kernels), scratch_(kernels, kVocab, kHidden, 2, kernels::kScreenMaxRows) {
    matrix_.type = type;
    matrix_.n_rows = kVocab;
    matrix_.n_cols = kHidden;
    matrix_.panel_bytes = kernels::packed_panel_bytes(type, kHidden);
    memory_ = AlignedBuffer(matrix_.size_bytes());
    matrix_.data = memory_.data();
    for (std::int64_t p = 0; p < matrix_.n_panels(); ++p) {
      const std::byte* rows[kPanelRows] = {};
      for (std::int64_t i = 0; i < kPanelRows && p * kPanelRows + i < kVocab; ++i) {
        rows[i] = reinterpret_cast<const std::byte*>(
            &weights[static_cast<std::size_t>((p * kPanelRows + i) * kHidden)]);
      }
      kernels::pack_panel(type, rows, kHidden,
                          memory_.data() + static_cast<std::size_t>(p) * matrix_.panel_bytes);
    }
    screen_ = make_head_screen(matrix_, HeadMode::kScreened, kernels, pool_);
  }

  Head head() { return Head(matrix_, screen_, kernels_, pool_, scratch_); }
  const HeadCounts& counts() const { return scratch_.counts; }

  // The argmax of x after `change`: by the whole head, and in two steps. Every logit that is not
  // -inf must have the same bytes.
  void expect_same_argmax(const std::vector<float>& x, const MonotoneChange& change,
                          const std::string& what) {
    const auto n_rows = static_cast<std::int64_t>(x.size()) / kHidden;
    std::vector<float> full(static_cast<std::size_t>(n_rows * kVocab));
    std::vector<float> screened(full.size(), 12345.0F);
    head().all(x.data(), n_rows, full.data());
    std::vector<LogitRow> rows(static_cast<std::size_t>(n_rows), LogitRow(0));
    std::vector<const LogitRow*> pointers;
    for (LogitRow& row : rows) {
      row.want = LogitRow::Want::kLargest;
      row.change = change;
      pointers.push_back(&row);
    }
    head().largest(x.data(), pointers, screened.data());
    for (std::int64_t t = 0; t < n_rows; ++t) {
      const std::span whole(full.data() + t * kVocab, static_cast<std::size_t>(kVocab));
      const std::span some(screened.data() + t * kVocab, static_cast<std::size_t>(kVocab));
      for (std::size_t i = 0; i < whole.size(); ++i) {
        if (some[i] == -kInfinity) continue;
        ASSERT_EQ(std::memcmp(&whole[i], &some[i], sizeof(float)), 0) << what << ", id " << i;
      }
      if (change.apply != nullptr) {
        change.apply(change.context, whole);
        change.apply(change.context, some);
      }
      ASSERT_EQ(argmax(whole), argmax(some)) << what << ", row " << t << ", " << kernels_.name;
    }
  }

 private:
  const Kernels& kernels_;
  ThreadPool pool_{{.n_threads = 2, .cpus = {}, .spin_us = 20}};
  PackedMatrix matrix_;
  AlignedBuffer memory_;
  HeadScreen screen_;
  HeadScratch scratch_;
};

float* row_of(std::vector<float>& weights, std::int64_t n) { return weights.data() + n * kHidden; }

// Makes row n the largest for x by far, scaled by `size`.
void point_at(std::vector<float>& weights, const std::vector<float>& x, std::int64_t n,
              float size) {
  for (std::int64_t k = 0; k < kHidden; ++k) {
    row_of(weights, n)[k] = size * x[static_cast<std::size_t>(k)];
  }
}

TEST(Head, TheTwoStepArgmaxIsThatOfTheWholeHead) {
  const std::vector<float> random_row = random_floats(kHidden, 41);
  const std::vector<float> random_head = random_floats(kVocab * kHidden, 42);
  struct Case {
    const char* name;
    std::function<void(std::vector<float>& weights, std::vector<float>& x)> change;
    bool screens = true;
  };
  const std::vector<Case> cases = {
      {"random", [](auto&, auto&) {}},
      {"ties: equal rows",
       [](auto& w, auto& x) {
         for (const std::int64_t n : {2999, 1700, 31, 1705}) point_at(w, x, n, 2);
       }},
      {"near ties inside the bound, the later the larger by one bit",
       [](auto& w, auto& x) {
         for (std::int64_t i = 0; i < 20; ++i) {
           point_at(w, x, 140 * i, 2);
           float& one = row_of(w, 140 * i)[i];
           for (std::int64_t step = 0; step < i; ++step) {
             one = std::nextafter(one, x[static_cast<std::size_t>(i)] > 0 ? 100.0F : -100.0F);
           }
         }
       }},
      {"all rows equal",
       [](auto& w, auto&) {
         for (std::int64_t n = 1; n < kVocab; ++n) {
           std::copy_n(w.data(), kHidden, row_of(w, n));
         }
       },
       false},
      {"zero head", [](auto& w, auto&) { std::fill(w.begin(), w.end(), 0.0F); }, false},
      {"zero input", [](auto&, auto& x) { std::fill(x.begin(), x.end(), 0.0F); }, false},
      {"huge",
       [](auto& w, auto& x) {
         for (float& v : w) v *= 0x1p+46F;
         for (float& v : x) v *= 0x1p+46F;
       }},
      {"small",
       [](auto& w, auto& x) {
         for (float& v : w) v *= 0x1p-30F;
         for (float& v : x) v *= 0x1p-30F;
       }},
      {"subnormal activations",
       [](auto&, auto& x) {
         for (float& v : x) v *= 0x1p-140F;
       },
       false},
      {"subnormal weights",
       [](auto& w, auto&) {
         for (float& v : w) v *= 0x1p-140F;
       },
       false},
      {"a few rows of other sizes",
       [](auto& w, auto&) {
         for (std::int64_t n = 0; n < 200; ++n) {
           for (std::int64_t k = 0; k < kHidden; ++k) {
             row_of(w, n)[k] = std::ldexp(row_of(w, n)[k], -static_cast<int>(n % 60));
           }
         }
       }},
      {"all logits negative",
       [](auto& w, auto& x) {
         for (std::int64_t n = 0; n < kVocab; ++n) {
           for (std::int64_t k = 0; k < kHidden; ++k) {
             float& v = row_of(w, n)[k];
             v = x[static_cast<std::size_t>(k)] > 0 ? -std::fabs(v) : std::fabs(v);
           }
         }
       }},
      {"NaN activation", [](auto&, auto& x) { x[7] = std::numeric_limits<float>::quiet_NaN(); },
       false},
      {"infinite activation", [](auto&, auto& x) { x[199] = -kInfinity; }, false},
      {"NaN and infinite weights",
       [](auto& w, auto&) {
         row_of(w, 5)[3] = std::numeric_limits<float>::quiet_NaN();
         row_of(w, 900)[3] = kInfinity;
         row_of(w, 2900)[150] = -kInfinity;
       }},
      {"weights beyond the limit", [](auto& w, auto&) { row_of(w, 77)[3] = 0x1p+90F; }},
  };
  for (const Case& c : cases) {
    std::vector<float> weights = random_head;
    std::vector<float> input = random_row;
    c.change(weights, input);
    for (const Kernels* kernels : rungs()) {
      TestHead head(weights, *kernels);
      head.expect_same_argmax(input, {}, c.name);
      EXPECT_EQ(head.counts().rows_screened, c.screens ? 1 : 0) << c.name << ", " << kernels->name;
    }
  }
}

// Estimates put these rows in another order than their logits: each of them wins in turn.
TEST(Head, UnlikeRowsWhoseLogitsAreNearlyEqual) {
  const std::vector<float> x = random_floats(kHidden, 48);
  const std::vector<float> random_head = random_floats(kVocab * kHidden, 49);
  double squares = 0;
  for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  for (std::int64_t shift = 0; shift < 20; ++shift) {
    std::vector<float> weights = random_head;
    for (std::int64_t i = 0; i < 20; ++i) {
      float* const row = row_of(weights, 140 * i + 3);
      double dot = 0;
      for (std::size_t k = 0; k < x.size(); ++k) {
        dot += static_cast<double>(row[k]) * static_cast<double>(x[k]);
      }
      const double wanted = 100 + 1e-3 * static_cast<double>((i + shift) % 20);
      for (std::size_t k = 0; k < x.size(); ++k) {
        row[k] += static_cast<float>((wanted - dot) / squares) * x[k];
      }
    }
    for (const Kernels* kernels : rungs()) {
      TestHead head(weights, *kernels);
      head.expect_same_argmax(x, {}, "nearly equal");
      EXPECT_EQ(head.counts().rows_screened, 1);
    }
  }
}

class HeadOfType : public testing::TestWithParam<WeightType> {};
INSTANTIATE_TEST_SUITE_P(Types, HeadOfType, testing::Values(WeightType::kF32, WeightType::kInt8),
                         [](const auto& type) {
                           return std::string(kernels::weight_type_name(type.param));
                         });

TEST_P(HeadOfType, ManyRandomRowsUpToTheMostThatAreScreened) {
  const std::vector<float> weights = random_floats(kVocab * kHidden, 43);
  for (const Kernels* kernels : rungs()) {
    TestHead head(weights, *kernels, GetParam());
    const std::int64_t most = kernels->screen_rows;
    ASSERT_TRUE(head.head().can_screen(most));
    ASSERT_FALSE(head.head().can_screen(most + 1));
    const std::int64_t n_rounds = std::string(kernels->name) == "scalar" ? 2 : 50;
    for (std::int64_t i = 0; i < n_rounds; ++i) {
      std::vector<float> x =
          random_floats((i % most + 1) * kHidden, 44U + static_cast<unsigned>(i));
      if (GetParam() == WeightType::kInt8 && i % 2 == 0) {
        // 4 bits cannot tell apart what 3,000 random rows make of random x; this one leans to one.
        const float* row = weights.data() + i * 50 * kHidden;
        for (std::size_t k = 0; k < x.size(); ++k) x[k] += 0.5F * row[k % kHidden];
      }
      head.expect_same_argmax(x, {}, "random");
    }
    const HeadCounts& counts = head.counts();
    EXPECT_GT(counts.rows_screened, 0);
    const double mean =
        static_cast<double>(counts.survivors) / static_cast<double>(counts.rows_screened);
    RecordProperty(std::string("survivors_") + kernels->name, std::to_string(mean));
    EXPECT_GE(mean, 1);
    EXPECT_LT(mean, GetParam() == WeightType::kF32 ? 20 : 200)
        << "of 3,000 outputs: the bounds are loose";
  }
}

// Penalties of any id, as the sampler has them.
struct Penalties {
  std::vector<std::int32_t> ids;
  float repetition;
  float presence;
};

TEST_P(HeadOfType, PenaltiesAreAppliedBeforeAnythingIsRuledOut) {
  const std::vector<float> weights = random_floats(kVocab * kHidden, 45);
  const MonotoneChange change = {[](const void* context, std::span<float> values) {
                                   const auto& penalties = *static_cast<const Penalties*>(context);
                                   for (const std::int32_t id : penalties.ids) {
                                     float& value = values[static_cast<std::size_t>(id)];
                                     value = value < 0 ? value * penalties.repetition
                                                       : value / penalties.repetition;
                                     value -= penalties.presence;
                                   }
                                 },
                                 nullptr};
  for (const Kernels* kernels : rungs()) {
    TestHead head(weights, *kernels, GetParam());
    for (unsigned seed = 0; seed < 12; ++seed) {
      const std::vector<float> x = random_floats(kHidden, 100 + seed);
      std::vector<float> logits(static_cast<std::size_t>(kVocab));
      head.head().all(x.data(), 1, logits.data());
      // The best ids are punished one after the other, so that others win.
      Penalties penalties{
          {}, 1.0F + 0.3F * static_cast<float>(seed % 4), 0.5F * static_cast<float>(seed % 3)};
      MonotoneChange with = change;
      with.context = &penalties;
      for (int i = 0; i < 6; ++i) {
        head.expect_same_argmax(x, with, "penalties");
        const auto best = static_cast<std::int32_t>(argmax(logits));
        logits[static_cast<std::size_t>(best)] = -kInfinity;
        penalties.ids.push_back(best);
      }
    }
  }
}

TEST(Head, SomeIdsHaveTheBytesOfTheWholeHead) {
  const std::vector<float> weights = random_floats(kVocab * kHidden, 46);
  const std::vector<float> x = random_floats(8 * kHidden, 47);
  const std::vector<std::int32_t> ids[] = {{0, 2999, 17}, {16, 1500}, {2999}};
  for (const Kernels* kernels : rungs()) {
    TestHead head(weights, *kernels);
    std::vector<float> full(static_cast<std::size_t>(8 * kVocab));
    head.head().all(x.data(), 8, full.data());
    for (const std::int64_t n_rows : {1, 2, 8}) {
      std::vector<LogitRow> rows(static_cast<std::size_t>(n_rows), LogitRow(0));
      std::vector<const LogitRow*> pointers;
      for (std::size_t t = 0; t < rows.size(); ++t) {
        rows[t].want = LogitRow::Want::kIds;
        rows[t].ids = ids[t % 3];
        pointers.push_back(&rows[t]);
      }
      std::vector<float> some(static_cast<std::size_t>(n_rows * kVocab));
      head.head().some(x.data(), pointers, some.data());
      for (std::size_t t = 0; t < rows.size(); ++t) {
        for (const std::int32_t id : rows[t].ids) {
          const std::size_t at =
              t * static_cast<std::size_t>(kVocab) + static_cast<std::size_t>(id);
          EXPECT_EQ(std::memcmp(&full[at], &some[at], sizeof(float)), 0)
              << kernels->name << ", row " << t << ", id " << id;
        }
      }
    }
    EXPECT_EQ(head.counts().rows_by_ids, 11);
  }
}

TEST(Head, TheCopyIsMadeWhereItPays) {
  ThreadPool pool({.n_threads = 1, .cpus = {}, .spin_us = 20});
  const Kernels& kernels = *kernels::select_kernels("");
  const AlignedBuffer zeros(kernels::packed_panel_bytes(WeightType::kF32, 32) * 1024);
  const auto copy_bytes = [&](WeightType type, std::int64_t n_rows, HeadMode mode) {
    const PackedMatrix head{type, n_rows, 32, zeros.data(), kernels::packed_panel_bytes(type, 32)};
    return make_head_screen(head, mode, kernels, pool).size_bytes();
  };
  EXPECT_GT(copy_bytes(WeightType::kBf16, 16384, HeadMode::kAuto), 0U);
  EXPECT_EQ(copy_bytes(WeightType::kBf16, 16384, HeadMode::kFull), 0U);
  EXPECT_EQ(copy_bytes(WeightType::kBf16, 400, HeadMode::kAuto), 0U);
  EXPECT_GT(copy_bytes(WeightType::kBf16, 400, HeadMode::kScreened), 0U);
  EXPECT_EQ(copy_bytes(WeightType::kQ8_0, 16384, HeadMode::kAuto), 0U);
  EXPECT_EQ(copy_bytes(WeightType::kInt4, 16384, HeadMode::kScreened), 0U);
  const std::size_t nibbles = copy_bytes(WeightType::kInt8, 16384, HeadMode::kAuto);
  EXPECT_GT(nibbles, 0U);
  EXPECT_LT(nibbles, kernels::packed_panel_bytes(WeightType::kInt8, 32) * 1024 * 7 / 10);
  // 8 bits a weight, and two floats for 128 of them.
  EXPECT_LT(kernels::screen_panel_bytes(1024),
            kernels::packed_panel_bytes(WeightType::kBf16, 1024) * 54 / 100);
}

}  // namespace
}  // namespace munia::model
