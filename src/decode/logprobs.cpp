#include "decode/logprobs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "decode/portable_exp.h"

namespace munia::decode {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

}  // namespace

LogSoftmax::LogSoftmax(std::span<const float> logits)
    : largest_(-std::numeric_limits<float>::infinity()) {
  for (const float logit : logits) {
    if (logit > largest_) largest_ = logit;
  }
  double sum = 0;
  constexpr std::size_t kBlock = 256;  // side by side, so that the compiler can vectorize
  std::array<double, kBlock> block{};
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const std::size_t n = std::min(kBlock, logits.size() - begin);
    // Beside the largest term, 1, nothing is left of exp(-700).
    for (std::size_t i = 0; i < n; ++i) {
      block[i] = std::max(shifted(logits[begin + i]), kLeastExponent);
    }
    for (double& x : block) x = portable_exp_in_range(x);
    for (std::size_t i = 0; i < n; ++i) sum += block[i];
  }
  log_sum_ = std::log(sum);
}

// Equal first: inf - inf would be NaN. A NaN logit is not above -inf.
double LogSoftmax::shifted(float logit) const {
  if (logit == largest_) return 0;
  return logit < largest_ ? static_cast<double>(logit) - static_cast<double>(largest_)
                          : kMinusInfinity;
}

double LogSoftmax::of(float logit) const {
  const bool usable = largest_ > -std::numeric_limits<float>::infinity();
  return usable ? shifted(logit) - log_sum_ : kMinusInfinity;
}

void LogSoftmax::apply(std::span<float> logits) const {
  for (float& logit : logits) logit = static_cast<float>(of(logit));
}

std::vector<std::pair<float, std::int32_t>> largest(std::span<const float> row, std::int64_t n) {
  // A heap whose front is the weakest of the best so far.
  using Entry = std::pair<float, std::int32_t>;
  const auto better = [](const Entry& a, const Entry& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  };
  std::vector<Entry> best;
  if (n <= 0) return best;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Entry entry{row[i], static_cast<std::int32_t>(i)};
    if (std::isnan(entry.first)) continue;
    if (static_cast<std::int64_t>(best.size()) < n) {
      best.push_back(entry);
      std::push_heap(best.begin(), best.end(), better);
    } else if (better(entry, best.front())) {
      std::pop_heap(best.begin(), best.end(), better);
      best.back() = entry;
      std::push_heap(best.begin(), best.end(), better);
    }
  }
  std::sort_heap(best.begin(), best.end(), better);
  return best;
}

TokenLogprob token_logprob(std::span<const float> logits, std::int32_t id, std::int64_t n_top) {
  const LogSoftmax softmax(logits);
  TokenLogprob token;
  token.id = id;
  const bool inside = id >= 0 && static_cast<std::size_t>(id) < logits.size();
  token.logprob = inside ? softmax.of(logits[static_cast<std::size_t>(id)]) : kMinusInfinity;
  for (const auto& [logit, top_id] : largest(logits, n_top)) {
    token.top.emplace_back(top_id, softmax.of(logit));
  }
  return token;
}

}  // namespace munia::decode
