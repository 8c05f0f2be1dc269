#include "model/kv_cache.h"

#include <gtest/gtest.h>

namespace munia::model {
namespace {

constexpr KvLayout kLayout{.n_layers = 2, .n_kv_heads = 3, .head_dim = 16};

std::shared_ptr<KvPool> pool_of(std::size_t n_pages) {
  return std::make_shared<KvPool>(kLayout, n_pages * kLayout.page_bytes());
}

void write(KvCache& cache, std::int64_t n) {
  ASSERT_TRUE(cache.reserve(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t pos = cache.n_tokens() + i;
    for (std::int64_t l = 0; l < kLayout.n_layers; ++l) {
      for (std::int64_t h = 0; h < kLayout.n_kv_heads; ++h) {
        const KvCache::Slot slot = cache.slot(l, h, pos);
        for (std::int64_t d = 0; d < kLayout.head_dim; ++d) {
          slot.k[d * kernels::kPanelRows] = static_cast<float>(pos * 1000 + l * 100 + h * 20 + d);
          slot.v[d] = -slot.k[d * kernels::kPanelRows];
        }
      }
    }
  }
  cache.advance(n);
}

void expect_content(const KvCache& cache, std::int64_t n) {
  for (std::int64_t pos = 0; pos < n; ++pos) {
    for (std::int64_t l = 0; l < kLayout.n_layers; ++l) {
      for (std::int64_t h = 0; h < kLayout.n_kv_heads; ++h) {
        const KvCache::Slot slot = cache.slot(l, h, pos);
        for (std::int64_t d = 0; d < kLayout.head_dim; ++d) {
          const auto expected = static_cast<float>(pos * 1000 + l * 100 + h * 20 + d);
          ASSERT_EQ(slot.k[d * kernels::kPanelRows], expected);
          ASSERT_EQ(slot.v[d], -expected);
        }
      }
    }
  }
}

TEST(KvCache, NoTwoSlotsOverlap) {
  KvCache cache(pool_of(3));
  write(cache, 70);
  expect_content(cache, 70);
}

TEST(KvCache, ForkSharesFullPagesAndCopiesTheLast) {
  const auto pool = pool_of(8);
  KvCache cache(pool);
  write(cache, 40);  // a full page and a part
  Result<KvCache> fork = cache.fork();
  ASSERT_TRUE(fork);
  EXPECT_EQ(pool->used_bytes(), 3 * kLayout.page_bytes());
  EXPECT_EQ(fork->n_tokens(), 40);
  EXPECT_EQ(fork->pages()[0], cache.pages()[0]);
  EXPECT_NE(fork->pages()[1], cache.pages()[1]);
  expect_content(*fork, 40);
  fork->slot(0, 0, 39).v[0] = 7;
  expect_content(cache, 40);
}

TEST(KvCache, TheLimitIsAnErrorThatChangesNothing) {
  const auto pool = pool_of(2);
  KvCache cache(pool);
  write(cache, 40);
  const Status status = cache.reserve(100);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kLimit);
  EXPECT_EQ(pool->used_bytes(), 2 * kLayout.page_bytes());
  expect_content(cache, 40);
}

TEST(KvCache, TruncateGivesPagesBack) {
  const auto pool = pool_of(4);
  KvCache cache(pool);
  write(cache, 128);
  cache.truncate(32);
  EXPECT_EQ(pool->used_bytes(), kLayout.page_bytes());
  cache.truncate(0);
  EXPECT_EQ(pool->used_bytes(), 0U);
  write(cache, 128);
  expect_content(cache, 128);
}

}  // namespace
}  // namespace munia::model
