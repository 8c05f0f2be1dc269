#include "cli/load_run.h"

#include <gtest/gtest.h>

#include <set>

namespace munia::cli {
namespace {

TEST(EventReader, JoinsWhateverTheCut) {
  const std::string stream = "data: {\"a\":1}\n\n: ping\n\ndata: 好\n\ndata: [DONE]\n\ndata: cut";
  const std::vector<std::string> expected = {"{\"a\":1}", "好", "[DONE]"};
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    EventReader reader;
    std::vector<std::string> events = reader.push(stream.substr(0, cut));
    for (std::string& event : reader.push(stream.substr(cut))) events.push_back(std::move(event));
    EXPECT_EQ(events, expected) << cut;
  }
}

TEST(Percentiles, AreValuesByTheNearestRank) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const Percentiles hundred = percentiles(values);
  EXPECT_EQ(hundred.p50, 50);
  EXPECT_EQ(hundred.p95, 95);
  EXPECT_EQ(hundred.p99, 99);
  EXPECT_EQ(percentiles({7}).p50, 7);
  EXPECT_EQ(percentiles({7}).p99, 7);
  EXPECT_EQ(percentiles({}).p95, 0);
}

TEST(LoadResult, CountsGoodAndBad) {
  LoadResult result;
  result.replies = {{200, "", "a", 5, 9, 3},
                    {429, "busy", "", -1, 1, 0},
                    {200, "", "b", -1, 7, 2},
                    {429, "busy", "", -1, 1, 9}};
  EXPECT_EQ(result.n_good(), 2);
  EXPECT_EQ(result.n_tokens(), 5);
  EXPECT_EQ(result.first_ms(), std::vector<double>{5});
  EXPECT_EQ(result.total_ms(), (std::vector<double>{9, 7}));
  EXPECT_EQ(result.errors().at("busy"), 2);
}

TEST(LoadTest, TextsDiffer) {
  const std::vector<std::string> texts = mixed_texts(50);
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), 50U);
}

TEST(LoadTest, ChecksTheAddress) {
  EXPECT_EQ(check_load_url("http://127.0.0.1:8080", true), "");
  EXPECT_EQ(check_load_url("http://example.com", false), "");
  EXPECT_NE(check_load_url("http://example.com", true), "");
  EXPECT_NE(check_load_url("https://127.0.0.1", false), "");
  EXPECT_NE(check_load_url("127.0.0.1:8080", false), "");
  EXPECT_NE(check_load_url("", false), "");
}

TEST(LoadTest, AnAddressThatNobodyServesIsAnError) {
  LoadPlan plan;
  plan.target.url = "http://127.0.0.1:9";
  plan.texts = mixed_texts(2);
  plan.n_requests = 3;
  plan.concurrency = 2;
  const LoadResult result = run_load_test(plan);
  EXPECT_EQ(result.n_good(), 0);
  ASSERT_EQ(result.errors().size(), 1U);
  EXPECT_EQ(result.errors().begin()->second, 3);
}

}  // namespace
}  // namespace munia::cli
