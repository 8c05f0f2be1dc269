// Attention: every rung against the reference as bytes, the reference against float64, chunks
// against all at once, and pages whose unwritten positions hold NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "kernels/rungs.h"
#include "kernels/test_data.h"

namespace munia::kernels {
namespace {

struct Shape {
  std::int64_t n_tokens, pos_begin, n_rep, head_dim;
};

/// Pages for n_keys positions; a position that was not written is NaN, as is the page's head.
class Cache {
 public:
  Cache(std::int64_t n_keys, std::int64_t head_dim, unsigned seed) : dim_(head_dim) {
    const std::int64_t n_pages = (n_keys + kPageTokens - 1) / kPageTokens;
    const std::vector<float> values = random_floats(2 * n_keys * head_dim, seed);
    for (std::int64_t p = 0; p < n_pages; ++p) {
      const auto bytes = static_cast<std::size_t>(kOffset + 2 * kPageTokens * head_dim) * 4;
      buffers_.emplace_back(bytes);  // all NaN
      pages_.push_back(buffers_.back().floats());
    }
    for (std::int64_t key = 0; key < n_keys; ++key) {
      for (std::int64_t d = 0; d < head_dim; ++d) {
        k_at(key, d) = values[static_cast<std::size_t>(2 * key * head_dim + d)];
        v_at(key, d) = values[static_cast<std::size_t>((2 * key + 1) * head_dim + d)];
      }
    }
  }
  float& k_at(std::int64_t key, std::int64_t d) const {
    const std::int64_t slot = key % kPageTokens;
    return part(key)[(slot / 16 * dim_ + d) * 16 + slot % 16];
  }
  float& v_at(std::int64_t key, std::int64_t d) const {
    return part(key)[(kPageTokens + key % kPageTokens) * dim_ + d];
  }
  const float* const* pages() const { return pages_.data(); }

  static constexpr std::int64_t kOffset = 48;

 private:
  float* part(std::int64_t key) const {
    return pages_[static_cast<std::size_t>(key / kPageTokens)] + kOffset;
  }
  std::int64_t dim_;
  std::vector<ExactBuffer> buffers_;
  std::vector<float*> pages_;
};

/// Runs tokens [begin, end) of the shape in one call.
void attend(const Kernels& kernels, const Shape& shape, const Cache& cache,
            const std::vector<float>& q, std::int64_t begin, std::int64_t end,
            std::vector<float>& out) {
  const std::int64_t stride = shape.n_rep * shape.head_dim + 16;
  AttentionArgs args;
  args.q = q.data() + begin * stride;
  args.q_token_stride = stride;
  args.n_tokens = end - begin;
  args.n_rep = shape.n_rep;
  args.head_dim = shape.head_dim;
  args.pos_begin = shape.pos_begin + begin;
  args.pages = cache.pages();
  args.page_offset = Cache::kOffset;
  args.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  args.out = out.data() + begin * stride;
  args.out_token_stride = stride;
  ExactBuffer scratch(kernels.attention_scratch_bytes(args.n_tokens, args.n_rep, args.head_dim,
                                                      args.pos_begin + args.n_tokens));
  kernels.attention(args, scratch.data());
}

std::vector<float> filled(const Shape& shape) {
  return std::vector<float>(
      static_cast<std::size_t>(shape.n_tokens * (shape.n_rep * shape.head_dim + 16)), 77.0F);
}

std::vector<float> queries(const Shape& shape) {
  return random_floats(shape.n_tokens * (shape.n_rep * shape.head_dim + 16), 31);
}

const Shape kShapes[] = {
    {1, 0, 1, 64},   {1, 15, 1, 64},  {1, 16, 7, 64},   {1, 300, 7, 64},   {2, 255, 7, 64},
    {5, 0, 1, 16},   {17, 3, 1, 16},  {9, 250, 2, 128}, {40, 0, 7, 64},    {33, 31, 1, 128},
    {3, 511, 3, 80}, {64, 70, 1, 64}, {19, 500, 4, 64}, {1, 700, 16, 128}, {1, 700, 1, 64},
    {1, 511, 1, 64}, {1, 800, 2, 64}, {2, 380, 1, 80},
};

TEST(Attention, EveryRungGivesTheBytesOfTheReferenceWhateverTheChunks) {
  for (const Shape& shape : kShapes) {
    const Cache cache(shape.pos_begin + shape.n_tokens, shape.head_dim, 32);
    const std::vector<float> q = queries(shape);
    std::vector<float> want = filled(shape);
    attend(kScalarKernels, shape, cache, q, 0, shape.n_tokens, want);
    for (const float value : want) ASSERT_FALSE(std::isnan(value));
    for (const Kernels* kernels : rungs()) {
      for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{3}, shape.n_tokens}) {
        std::vector<float> got = filled(shape);
        for (std::int64_t begin = 0; begin < shape.n_tokens; begin += chunk) {
          attend(*kernels, shape, cache, q, begin, std::min(begin + chunk, shape.n_tokens), got);
        }
        ASSERT_EQ(first_difference(got, want), -1)
            << kernels->name << " tokens " << shape.n_tokens << " from " << shape.pos_begin
            << " n_rep " << shape.n_rep << " head_dim " << shape.head_dim << " chunk " << chunk;
      }
    }
  }
}

TEST(Attention, ReferenceIsWithinItsRoundingErrorOfFloat64) {
  const Shape shape = {3, 400, 2, 64};
  const std::int64_t stride = shape.n_rep * shape.head_dim + 16;
  const Cache cache(shape.pos_begin + shape.n_tokens, shape.head_dim, 33);
  const std::vector<float> q = queries(shape);
  std::vector<float> got = filled(shape);
  attend(kScalarKernels, shape, cache, q, 0, shape.n_tokens, got);
  const double scale = static_cast<double>(1.0F / std::sqrt(static_cast<float>(shape.head_dim)));
  for (std::int64_t i = 0; i < shape.n_tokens; ++i) {
    for (std::int64_t r = 0; r < shape.n_rep; ++r) {
      const std::int64_t n_keys = shape.pos_begin + i + 1;
      const std::int64_t at = i * stride + r * shape.head_dim;
      std::vector<double> p;
      double sum = 0;
      double worst_dot = 0;  // sum of magnitudes: what a score's error is relative to
      for (std::int64_t key = 0; key < n_keys; ++key) {
        double dot = 0;
        double magnitude = 0;
        for (std::int64_t d = 0; d < shape.head_dim; ++d) {
          const double product = static_cast<double>(q[static_cast<std::size_t>(at + d)]) *
                                 static_cast<double>(cache.k_at(key, d));
          dot += product;
          magnitude += std::abs(product);
        }
        worst_dot = std::max(worst_dot, magnitude * scale);
        p.push_back(std::exp(dot * scale));
        sum += p.back();
      }
      for (std::int64_t d = 0; d < shape.head_dim; ++d) {
        double value = 0;
        double magnitude = 0;
        for (std::int64_t key = 0; key < n_keys; ++key) {
          const double term =
              p[static_cast<std::size_t>(key)] / sum * static_cast<double>(cache.v_at(key, d));
          value += term;
          magnitude += std::abs(term);
        }
        // Roundings: a score head_dim + 2 (absolute, so relative in p), exp 2, sums 256 + 32.
        const double relative =
            (2 * static_cast<double>(shape.head_dim + 2) * worst_dot + 300) * 0x1p-24;
        EXPECT_NEAR(static_cast<double>(got[static_cast<std::size_t>(at + d)]), value,
                    relative * magnitude);
      }
    }
  }
}

TEST(Attention, LargeScoresDoNotOverflowAndNanKeysReachOnlyTheirReaders) {
  const Shape shape = {12, 20, 2, 32};
  const Cache cache(shape.pos_begin + shape.n_tokens, shape.head_dim, 34);
  std::vector<float> q = queries(shape);
  for (float& value : q) value *= 1000.0F;
  std::vector<float> clean = filled(shape);
  attend(kScalarKernels, shape, cache, q, 0, shape.n_tokens, clean);
  for (const float value : clean) ASSERT_TRUE(std::isfinite(value));
  const std::int64_t spoilt = 25;  // the key of token 5
  cache.k_at(spoilt, 3) = std::numeric_limits<float>::quiet_NaN();
  cache.v_at(spoilt, 3) = std::numeric_limits<float>::infinity();
  const std::int64_t stride = shape.n_rep * shape.head_dim + 16;
  for (const Kernels* kernels : rungs()) {
    std::vector<float> got = filled(shape);
    attend(*kernels, shape, cache, q, 0, shape.n_tokens, got);
    for (std::int64_t i = 0; i < shape.n_tokens; ++i) {
      for (std::int64_t d = 0; d < shape.n_rep * shape.head_dim; ++d) {
        const auto at = static_cast<std::size_t>(i * stride + d);
        if (shape.pos_begin + i < spoilt) {
          ASSERT_EQ(got[at], clean[at]) << kernels->name << " token " << i;
        } else {
          ASSERT_TRUE(std::isnan(got[at])) << kernels->name << " token " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace munia::kernels
