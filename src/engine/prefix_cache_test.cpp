// The prefix cache by itself: pages filled with numbers that tell which tokens they stand for, no
// model.
#include "engine/prefix_cache.h"

#include <gtest/gtest.h>

#include <numeric>

namespace munia::engine {
namespace {

using kernels::kPageTokens;
using model::KvCache;

constexpr model::KvLayout kLayout{.n_layers = 1, .n_kv_heads = 1, .head_dim = 16};
constexpr std::size_t kPage = 2 * 32 * 16 * sizeof(float);

Tokens sequence(std::int32_t first, std::size_t n) {
  Tokens tokens(n);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class PrefixCacheTest : public testing::Test {
 protected:
  void set_up(std::size_t pool_pages, std::size_t budget_pages) {
    pool_ = std::make_shared<model::KvPool>(kLayout, pool_pages * kPage);
    cache_ = std::make_unique<PrefixCache>(kLayout, budget_pages * kPage);
    pool_->set_reclaim([this] { return cache_->drop_one(); });
  }

  // Stands for a forward pass over the tokens that `kv` lacks: each leaves itself in its slot.
  static void compute(const Tokens& tokens, KvCache& kv) {
    const auto n_new = static_cast<std::int64_t>(tokens.size()) - kv.n_tokens();
    ASSERT_TRUE(kv.reserve(n_new));
    for (std::int64_t pos = kv.n_tokens(); pos < kv.n_tokens() + n_new; ++pos) {
      *kv.slot(0, 0, pos).k = static_cast<float>(tokens[static_cast<std::size_t>(pos)]);
    }
    kv.advance(n_new);
  }
  static void expect_holds(const KvCache& kv, const Tokens& tokens) {
    ASSERT_LE(kv.n_tokens(), static_cast<std::int64_t>(tokens.size()));
    for (std::int64_t pos = 0; pos < kv.n_tokens(); ++pos) {
      ASSERT_EQ(*kv.slot(0, 0, pos).k, static_cast<float>(tokens[static_cast<std::size_t>(pos)]));
    }
  }
  KvCache new_kv() const { return KvCache(pool_); }

  // A job: takes, computes the rest, keeps, ends. Returns how much it took.
  std::int64_t job(const Tokens& tokens, bool all = true) {
    KvCache kv(pool_);
    const std::int64_t n_taken = cache_->take(TokenSpan(tokens).first(tokens.size() - 1), kv);
    EXPECT_EQ(kv.n_tokens(), n_taken);
    expect_holds(kv, tokens);
    compute(tokens, kv);
    expect_holds(kv, tokens);
    cache_->keep(tokens, kv, all);
    kv.truncate(0);
    cache_->trim();
    return n_taken;
  }
  std::int64_t found(const Tokens& tokens) {
    KvCache kv(pool_);
    const std::int64_t n = cache_->take(tokens, kv);
    expect_holds(kv, tokens);
    return n;
  }

  std::shared_ptr<model::KvPool> pool_;
  std::unique_ptr<PrefixCache> cache_;
};

TEST_F(PrefixCacheTest, EveryCommonTokenCounts) {
  set_up(20, 20);
  const Tokens a = sequence(0, 100);
  EXPECT_EQ(job(a), 0);
  EXPECT_EQ(job(a), 99);                                           // one is always computed
  EXPECT_EQ(job(joined(a, sequence(500, 50))), 100);               // goes on behind it
  EXPECT_EQ(job(joined(sequence(0, 70), sequence(900, 10))), 70);  // leaves inside a page
  EXPECT_EQ(job(joined(sequence(0, 64), sequence(900, 10))), 64);  // and at its end
  EXPECT_EQ(job(joined(sequence(0, 3), sequence(900, 40))), 3);    // and in the first page
  EXPECT_EQ(job(sequence(1, 60)), 0);                              // same tokens elsewhere
  EXPECT_EQ(found(joined(sequence(0, 70), sequence(900, 10))), 80);
  EXPECT_EQ(found(joined(a, sequence(500, 50))), 150);
}

TEST_F(PrefixCacheTest, WholePagesAreSharedAndPartsCopied) {
  set_up(20, 20);
  const Tokens tokens = sequence(0, 100);
  job(tokens);
  EXPECT_EQ(pool_->used_bytes(), 4 * kPage);
  EXPECT_EQ(cache_->held_bytes(), 4 * kPage);
  KvCache kv = new_kv();
  EXPECT_EQ(cache_->take(tokens, kv), 100);
  EXPECT_EQ(pool_->used_bytes(), 5 * kPage);
  // Going on in the copied page leaves the kept one alone.
  const Tokens longer = joined(tokens, sequence(700, 20));
  compute(longer, kv);
  EXPECT_EQ(found(joined(tokens, sequence(800, 5))), 100);
}

TEST_F(PrefixCacheTest, AGrowingSequenceIsFoundAtEveryLength) {
  set_up(20, 20);
  const Tokens tokens = sequence(0, 75);
  KvCache kv = new_kv();
  for (std::size_t n = 1; n <= tokens.size(); ++n) {
    compute(Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n)), kv);
    cache_->keep(tokens, kv, true);
    EXPECT_EQ(found(tokens), static_cast<std::int64_t>(n));
  }
  EXPECT_EQ(cache_->held_bytes(), 3 * kPage);  // a page that fills up is one entry
  EXPECT_EQ(pool_->used_bytes(), 3 * kPage);
}

TEST_F(PrefixCacheTest, ASequenceInTheMiddleOfAPageTakesWhatIsKnownByNow) {
  set_up(20, 20);
  const Tokens tokens = sequence(0, 100);
  KvCache kv = new_kv();
  compute(sequence(0, 40), kv);
  EXPECT_EQ(cache_->take(tokens, kv), 0);
  job(sequence(0, 90));
  EXPECT_EQ(cache_->take(tokens, kv), 50);
  EXPECT_EQ(kv.n_tokens(), 90);
  expect_holds(kv, tokens);
  EXPECT_EQ(cache_->take(sequence(0, 60), kv), 0);  // never backwards
  EXPECT_EQ(kv.n_tokens(), 90);
}

TEST_F(PrefixCacheTest, LeastRecentlyUsedPagesLeaveFirst) {
  set_up(40, 6);
  job(sequence(1000, 64));
  job(sequence(2000, 64));
  job(sequence(3000, 64));
  EXPECT_EQ(cache_->held_bytes(), 6 * kPage);
  EXPECT_EQ(found(sequence(1000, 64)), 64);  // used again: 2000 is the oldest now
  job(sequence(4000, 32));                   // its last page leaves before its first
  EXPECT_EQ(cache_->held_bytes(), 6 * kPage);
  job(sequence(5000, 32));
  EXPECT_EQ(found(sequence(2000, 64)), 0);
  job(sequence(6000, 32));
  EXPECT_EQ(found(sequence(3000, 64)), 32);
  EXPECT_EQ(found(sequence(1000, 64)), 64);
  EXPECT_EQ(cache_->held_bytes(), 6 * kPage);
  EXPECT_EQ(pool_->used_bytes(), 6 * kPage);
}

TEST_F(PrefixCacheTest, TheEndOfALongConversationLeavesBeforeItsBeginning) {
  set_up(40, 4);
  job(sequence(0, 200));
  EXPECT_EQ(cache_->held_bytes(), 4 * kPage);
  EXPECT_EQ(found(sequence(0, 200)), 128);
}

TEST_F(PrefixCacheTest, UsedPagesStayAndAreBeyondTheBudget) {
  set_up(40, 2);
  const Tokens tokens = sequence(0, 96);
  KvCache running = new_kv();
  compute(tokens, running);
  cache_->keep(tokens, running, true);
  job(sequence(1000, 64));
  job(sequence(2000, 64));
  EXPECT_EQ(found(tokens), 96);
  EXPECT_EQ(found(sequence(2000, 64)), 64);
  EXPECT_EQ(found(sequence(1000, 64)), 0);
  running.truncate(0);
  cache_->trim();
  EXPECT_EQ(cache_->held_bytes(), 2 * kPage);
  EXPECT_EQ(pool_->used_bytes(), 2 * kPage);
}

TEST_F(PrefixCacheTest, ARunningSequenceGetsTheMemoryBack) {
  set_up(6, 6);
  const auto pinned = std::make_shared<const Tokens>(sequence(9000, 40));
  cache_->pin(pinned);
  job(sequence(9000, 41), false);
  job(sequence(1000, 64));
  job(sequence(2000, 64));
  EXPECT_EQ(pool_->used_bytes(), 6 * kPage);
  KvCache kv = new_kv();
  ASSERT_TRUE(kv.reserve(96));
  EXPECT_EQ(found(sequence(1000, 64)), 0);
  ASSERT_TRUE(kv.reserve(128));
  EXPECT_EQ(cache_->pinned_bytes(), 2 * kPage);  // pinned pages are the last to go
  ASSERT_TRUE(kv.reserve(192));
  EXPECT_EQ(cache_->held_bytes(), 0U);
  EXPECT_EQ(cache_->pinned_bytes(), 0U);
  EXPECT_FALSE(kv.reserve(193));
  EXPECT_EQ(pool_->used_bytes(), 6 * kPage);
  kv.truncate(0);
  job(sequence(9000, 41), false);  // and come back with the next job
  EXPECT_EQ(cache_->pinned_bytes(), 2 * kPage);
}

TEST_F(PrefixCacheTest, AnIdlePageAboveAUsedOneIsGivenBackToo) {
  set_up(4, 4);
  const Tokens tokens = sequence(0, 64);
  KvCache a = new_kv();
  KvCache b = new_kv();
  compute(sequence(0, 32), a);
  compute(tokens, b);  // both computed the first page
  cache_->keep(tokens, a, true);
  cache_->keep(tokens, b, true);
  a.truncate(0);
  EXPECT_EQ(pool_->used_bytes(), 3 * kPage);
  KvCache kv = new_kv();
  EXPECT_TRUE(kv.reserve(64));
  expect_holds(b, tokens);
}

TEST_F(PrefixCacheTest, PinnedTokensSurviveABusyCache) {
  set_up(40, 4);
  auto pinned = std::make_shared<const Tokens>(sequence(0, 45));
  cache_->pin(pinned);
  const auto text = [](std::int32_t i) { return joined(sequence(0, 45), sequence(100 * i, 30)); };
  EXPECT_EQ(job(text(1), false), 0);
  for (std::int32_t i = 2; i < 20; ++i) {
    EXPECT_EQ(job(text(i), false), 45);
    EXPECT_EQ(cache_->held_bytes(), 2 * kPage);  // texts themselves were not asked to be kept
  }
  for (std::int32_t i = 20; i < 40; ++i) job(sequence(1000 * i, 90));
  EXPECT_EQ(cache_->held_bytes(), 4 * kPage);
  EXPECT_EQ(cache_->pinned_bytes(), 2 * kPage);
  EXPECT_EQ(found(text(50)), 45);
  pinned.reset();
  for (std::int32_t i = 40; i < 42; ++i) job(sequence(1000 * i, 90));
  EXPECT_EQ(cache_->pinned_bytes(), 0U);
  EXPECT_EQ(found(text(50)), 0);
}

TEST_F(PrefixCacheTest, PinsTakeHalfOfTheBudgetAtMost) {
  set_up(40, 6);
  std::vector<PinnedPrefix> pins;
  for (std::int32_t i = 0; i < 4; ++i) {
    pins.push_back(std::make_shared<const Tokens>(sequence(1000 * i, 64)));
    cache_->pin(pins.back());
    job(sequence(1000 * i, 70));
  }
  EXPECT_EQ(cache_->pinned_bytes(), 2 * kPage);  // a third page would be half of the second prefix
  EXPECT_LE(cache_->held_bytes(), 6 * kPage);
  EXPECT_EQ(found(sequence(0, 64)), 64);
}

TEST_F(PrefixCacheTest, APinnedPageMayFillUpAndBeSharedByPins) {
  set_up(40, 8);
  auto shorter = std::make_shared<const Tokens>(sequence(0, 40));
  const auto longer = std::make_shared<const Tokens>(sequence(0, 50));
  cache_->pin(shorter);
  cache_->pin(longer);
  job(sequence(0, 45));  // holds the shorter one only
  EXPECT_EQ(cache_->pinned_bytes(), 2 * kPage);
  job(sequence(0, 90));
  EXPECT_EQ(cache_->pinned_bytes(), 2 * kPage);
  shorter.reset();
  for (std::int32_t i = 1; i < 20; ++i) job(sequence(1000 * i, 90));
  EXPECT_EQ(cache_->pinned_bytes(), 2 * kPage);
  EXPECT_GE(found(sequence(0, 90)), 50);
}

TEST_F(PrefixCacheTest, WithoutABudgetItIsOff) {
  set_up(10, 0);
  EXPECT_FALSE(cache_->enabled());
  const PinnedPrefix pinned = std::make_shared<const Tokens>(sequence(0, 64));
  cache_->pin(pinned);
  job(sequence(0, 64));
  EXPECT_EQ(job(sequence(0, 64)), 0);
  EXPECT_EQ(cache_->held_bytes(), 0U);
  EXPECT_EQ(pool_->used_bytes(), 0U);
}

// Random jobs over a small alphabet, so that prefixes meet in all ways, in little memory: what is
// taken is always right, and the numbers add up.
TEST_F(PrefixCacheTest, RandomJobsAlwaysTakeWhatTheyWouldCompute) {
  set_up(24, 10);
  std::uint32_t seed = 1;
  const auto random = [&seed](std::uint32_t n) {
    seed = seed * 1664525U + 1013904223U;
    return (seed >> 8) % n;
  };
  std::vector<PinnedPrefix> pins(3);
  std::int64_t n_taken = 0;
  std::vector<std::pair<Tokens, KvCache>> running;
  for (int i = 0; i < 4000; ++i) {
    Tokens tokens;
    while (tokens.size() < 1 + random(130)) {
      const auto block = static_cast<std::int32_t>(100 * random(3));
      tokens = joined(std::move(tokens), sequence(block, 1 + random(40)));
    }
    tokens.resize(std::min<std::size_t>(tokens.size(), 160));
    if (i % 50 == 0) {
      pins[random(3)] = std::make_shared<const Tokens>(
          tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(tokens.size() / 2));
    }
    if (i % 50 == 0) {
      for (const PinnedPrefix& pin : pins) {
        if (pin != nullptr && pin.use_count() == 1) cache_->pin(pin);
      }
    }
    KvCache kv = new_kv();
    n_taken += cache_->take(TokenSpan(tokens).first(tokens.size() - 1), kv);
    expect_holds(kv, tokens);
    compute(tokens, kv);
    if (testing::Test::HasFatalFailure()) return;
    cache_->keep(tokens, kv, random(4) != 0);
    running.emplace_back(std::move(tokens), std::move(kv));
    if (running.size() > random(3)) {
      expect_holds(running.front().second, running.front().first);
      running.erase(running.begin());
      cache_->trim();
    }
    ASSERT_LE(pool_->used_bytes(), pool_->max_bytes());
    ASSERT_LE(cache_->pinned_bytes(), 5 * kPage);
  }
  EXPECT_GT(n_taken, 50000);
  running.clear();
  cache_->trim();
  EXPECT_LE(cache_->held_bytes(), 10 * kPage);
  EXPECT_EQ(pool_->used_bytes(), cache_->held_bytes());
}

}  // namespace
}  // namespace munia::engine
