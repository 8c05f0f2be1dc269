#include "cli/load_run.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "base/clock.h"

namespace munia::cli {
namespace {

// Answers of one user who asks each text in turn.
std::vector<LoadReply> ask_alone(const LoadPlan& plan, LoadResult& result) {
  LoadClient client(plan.target);
  std::vector<LoadReply> alone;
  const Clock::time_point begin = Clock::now();
  std::int64_t n_tokens = 0;
  const std::size_t n = std::min(plan.texts.size(), static_cast<std::size_t>(plan.n_requests));
  for (std::size_t i = 0; i < n; ++i) {
    alone.push_back(client.ask(plan.texts[i]));
    n_tokens += alone.back().n_tokens;
  }
  result.alone_tokens_per_second = static_cast<double>(n_tokens) / seconds_since(begin);
  return alone;
}

}  // namespace

Percentiles percentiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const auto rank =
        static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::max<std::size_t>(rank, 1) - 1];
  };
  return {at(0.50), at(0.95), at(0.99)};
}

std::int64_t LoadResult::n_good() const {
  return std::count_if(replies.begin(), replies.end(),
                       [](const LoadReply& reply) { return reply.error.empty(); });
}

std::int64_t LoadResult::n_tokens() const {
  std::int64_t n = 0;
  for (const LoadReply& reply : replies) n += reply.error.empty() ? reply.n_tokens : 0;
  return n;
}

std::vector<double> LoadResult::first_ms() const {
  std::vector<double> values;
  for (const LoadReply& reply : replies) {
    if (reply.error.empty() && reply.first_ms >= 0) values.push_back(reply.first_ms);
  }
  return values;
}

std::vector<double> LoadResult::total_ms() const {
  std::vector<double> values;
  for (const LoadReply& reply : replies) {
    if (reply.error.empty()) values.push_back(reply.total_ms);
  }
  return values;
}

std::map<std::string, std::int64_t> LoadResult::errors() const {
  std::map<std::string, std::int64_t> counts;
  for (const LoadReply& reply : replies) {
    if (!reply.error.empty()) ++counts[reply.error];
  }
  return counts;
}

LoadResult run_load_test(const LoadPlan& plan) {
  LoadResult result;
  std::vector<LoadReply> alone;
  if (plan.check) alone = ask_alone(plan, result);
  const auto n = static_cast<std::size_t>(plan.n_requests);
  result.replies.resize(n);
  std::atomic<std::size_t> next{0};
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> users;
  for (std::int64_t i = 0; i < std::min(plan.concurrency, plan.n_requests); ++i) {
    users.emplace_back([&] {
      LoadClient client(plan.target);
      for (std::size_t request = next++; request < n; request = next++) {
        result.replies[request] = client.ask(plan.texts[request % plan.texts.size()]);
      }
    });
  }
  for (std::thread& user : users) user.join();
  result.seconds = seconds_since(begin);
  for (std::size_t i = 0; i < n && plan.check; ++i) {
    const LoadReply& by_itself = alone[i % plan.texts.size()];
    const LoadReply& reply = result.replies[i];
    if (reply.error.empty() && by_itself.error.empty() && reply.text != by_itself.text) {
      ++result.n_differ;
    }
  }
  return result;
}

std::vector<std::string> mixed_texts(std::int64_t n) {
  static constexpr const char* kTexts[] = {
      "今天的实验终于成功了，太棒了！",
      "排了两个小时的队，结果说卖完了，真让人失望。",
      "你好",
      "这家店的服务员态度很好，菜也上得快，就是停车不太方便，来之前最好先打电话问一下有没有车位。",
      "手机用了三天就黑屏，客服让我自己寄回去，来回运费还要我出，跟他们说了半天道理也没有用，最后还"
      "是"
      "在平台上投诉才给换了新的，整个过程花了差不多两个星期，以后不会再在这里买东西了。",
      "The room was clean and quiet, and breakfast was better than I expected.",
      "帮我写一句鼓励同事的话。",
      "周末带孩子去了科技馆，展品比我们小时候多多了，孩子玩得不肯走。中午在里面的餐厅吃饭，价格有点"
      "贵，"
      "味道一般。下午看了一场球幕电影，讲的是鸟类怎样迁徙，画面非常震撼，连我都看得入了神。总的来说"
      "是很"
      "值得的一天，下次想去看看新开的海洋馆，不知道那边人会不会更多。",
  };
  constexpr std::size_t kCount = sizeof(kTexts) / sizeof(kTexts[0]);
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    std::string text = kTexts[at % kCount];
    if (at >= kCount) text += "（" + std::to_string(at / kCount + 1) + "）";
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace munia::cli
