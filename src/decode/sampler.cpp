// Sampling in double arithmetic over float logits. All three filters keep a prefix of the tokens in
// falling order, but no row is ever sorted: top_k and min_p need only a threshold, and top_p only
// the order within the bucket of weights where its threshold lies.
#include "decode/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <limits>

#include "decode/portable_exp.h"

namespace munia::decode {
namespace {

constexpr float kMaxTemperature = 100;
constexpr float kMaxRepetitionPenalty = 100;
constexpr float kMaxBias = 100;
constexpr std::size_t kMaxHeap = 1024;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

Error out_of_range(const char* name, float value, const char* range) {
  char number[32];
  std::snprintf(number, sizeof number, "%g", static_cast<double>(value));
  return Error{ErrorCode::kInvalidArgument,
               std::string(name) + " is " + number + "; it must be " + range};
}

// Lowest id of the largest logit; 0 when there is none above -inf. NaN compares false, so is
// passed.
std::int32_t argmax(std::span<const float> logits) {
  float best = kMinusInfinity;
  std::size_t best_id = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > best) {
      best = logits[i];
      best_id = i;
    }
  }
  return static_cast<std::int32_t>(best_id);
}

// Falling weights from 1 down to 2^-64, by exponent and the three highest bits behind it. Lesser
// ones go to the last bucket, which top_p never keeps: 2^31 of them hold less than 10^-9 of the
// weight, and the largest float below 1 leaves 6 * 10^-8 out.
constexpr std::size_t kBuckets = 512;

std::size_t bucket_of(double weight) {
  constexpr std::uint64_t kOfOne = std::uint64_t{1023} << 3;
  return std::min<std::size_t>(kOfOne - (std::bit_cast<std::uint64_t>(weight) >> 49), kBuckets);
}

}  // namespace

Status validate(const SamplingParams& params) {
  // Written so that NaN fails.
  const auto within = [](float value, float low, float high) {
    return value >= low && value <= high;
  };
  if (!within(params.temperature, 0, kMaxTemperature)) {
    return out_of_range("temperature", params.temperature, "from 0 (greedy) to 100");
  }
  if (params.top_k < 0) {
    return Error{ErrorCode::kInvalidArgument, "top_k is " + std::to_string(params.top_k) +
                                                  "; it must be 0 (off) or a positive number"};
  }
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    return out_of_range("top_p", params.top_p, "above 0 and at most 1 (off)");
  }
  if (!(params.min_p >= 0 && params.min_p < 1)) {
    return out_of_range("min_p", params.min_p, "from 0 (off) to below 1");
  }
  if (!(params.repetition_penalty > 0 && params.repetition_penalty <= kMaxRepetitionPenalty)) {
    return out_of_range("repetition_penalty", params.repetition_penalty,
                        "above 0 and at most 100 (1 is off)");
  }
  if (!within(params.presence_penalty, -2, 2)) {
    return out_of_range("presence_penalty", params.presence_penalty, "from -2 to 2 (0 is off)");
  }
  if (!within(params.frequency_penalty, -2, 2)) {
    return out_of_range("frequency_penalty", params.frequency_penalty, "from -2 to 2 (0 is off)");
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0) {
      return Error{ErrorCode::kInvalidArgument,
                   "logit_bias names the token " + std::to_string(id) + "; token ids begin at 0"};
    }
    if (!within(bias, -kMaxBias, kMaxBias)) {
      return out_of_range(("logit_bias of token " + std::to_string(id)).c_str(), bias,
                          "from -100 to 100");
    }
  }
  return {};
}

Status validate(const SamplingParams& params, std::int64_t vocab_size) {
  MUNIA_RETURN_IF_ERROR(validate(params));
  for (const auto& [id, bias] : params.logit_bias) {
    if (id >= vocab_size) {
      return Error{ErrorCode::kInvalidArgument, "logit_bias names the token " + std::to_string(id) +
                                                    "; this model's ids end at " +
                                                    std::to_string(vocab_size - 1)};
    }
  }
  return {};
}

void exclude(std::span<const std::int32_t> ids, std::span<float> logits) {
  for (const std::int32_t id : ids) {
    if (id >= 0 && static_cast<std::size_t>(id) < logits.size()) {
      logits[static_cast<std::size_t>(id)] = kMinusInfinity;
    }
  }
}

Sampler::Sampler(SamplingParams params, std::span<const std::int32_t> prompt,
                 std::int64_t vocab_size)
    : params_(std::move(params)), vocab_size_(vocab_size), random_(params_.seed) {
  if (params_.repetition_penalty == 1) return;
  seen_ids_.assign(prompt.begin(), prompt.end());
  std::sort(seen_ids_.begin(), seen_ids_.end());
  seen_ids_.erase(std::unique(seen_ids_.begin(), seen_ids_.end()), seen_ids_.end());
  // Ids that the output layer does not have cannot be picked, so there is nothing to penalize.
  std::erase_if(seen_ids_, [vocab_size](std::int32_t id) { return id < 0 || id >= vocab_size; });
}

bool Sampler::is_plain_greedy() const {
  return params_.temperature == 0 && params_.repetition_penalty == 1 &&
         params_.presence_penalty == 0 && params_.frequency_penalty == 0 &&
         params_.logit_bias.empty();
}

void Sampler::penalize(std::span<float> logits) const {
  if (params_.repetition_penalty != 1) {
    for (const std::int32_t id : seen_ids_) {
      float& logit = logits[static_cast<std::size_t>(id)];
      logit = logit < 0 ? logit * params_.repetition_penalty : logit / params_.repetition_penalty;
    }
  }
  for (const auto& [id, times] : generated_counts_) {
    logits[static_cast<std::size_t>(id)] -=
        params_.presence_penalty + params_.frequency_penalty * static_cast<float>(times);
  }
  for (const auto& [id, bias] : params_.logit_bias) {
    if (id >= 0 && id < vocab_size_) logits[static_cast<std::size_t>(id)] += bias;
  }
}

// The k-th largest logit; everything from it up stays, ties included.
float Sampler::top_k_threshold(std::span<const float> logits) {
  if (params_.top_k == 0 || params_.top_k >= vocab_size_) return kMinusInfinity;
  const auto k = static_cast<std::size_t>(params_.top_k);
  largest_.clear();
  if (k > kMaxHeap) {
    for (const float logit : logits) {
      if (!std::isnan(logit)) largest_.push_back(logit);
    }
    if (largest_.size() < k) return kMinusInfinity;
    const auto place = largest_.begin() + static_cast<std::ptrdiff_t>(k) - 1;
    std::nth_element(largest_.begin(), place, largest_.end(), std::greater<>());
    return *place;
  }
  for (const float logit : logits) {  // a heap whose front is the smallest of the k
    if (largest_.size() < k) {
      if (std::isnan(logit)) continue;
      largest_.push_back(logit);
      std::push_heap(largest_.begin(), largest_.end(), std::greater<>());
    } else if (logit > largest_.front()) {
      std::pop_heap(largest_.begin(), largest_.end(), std::greater<>());
      largest_.back() = logit;
      std::push_heap(largest_.begin(), largest_.end(), std::greater<>());
    }
  }
  return largest_.size() < k ? kMinusInfinity : largest_.front();
}

// Keeps a token while those before it, in falling order, hold less than top_p of the weight: the
// token that crosses the threshold stays. Weights are first added up in buckets, eight to each
// power of two; only the bucket in which the threshold lies needs sorting.
void Sampler::keep_top_p() {
  std::array<double, kBuckets + 1> bucket_weight{};
  double total = 0;
  for (const Candidate& c : candidates_) {
    bucket_weight[bucket_of(c.weight)] += c.weight;
    total += c.weight;
  }
  const double wanted = static_cast<double>(params_.top_p) * total;
  double sum = 0;
  std::size_t edge = 0;
  while (edge < kBuckets && sum + bucket_weight[edge] < wanted) sum += bucket_weight[edge++];
  edge_candidates_.clear();
  for (const Candidate& c : candidates_) {
    if (bucket_of(c.weight) == edge) edge_candidates_.push_back(c);
  }
  std::erase_if(candidates_, [edge](const Candidate& c) { return bucket_of(c.weight) >= edge; });
  if (edge == kBuckets) return;

  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.weight > b.weight || (a.weight == b.weight && a.id < b.id);
  };
  auto sorted = edge_candidates_.begin();
  for (std::ptrdiff_t chunk = 64; sorted != edge_candidates_.end(); chunk *= 4) {
    const auto begin = sorted;
    sorted += std::min(chunk, edge_candidates_.end() - begin);
    if (sorted != edge_candidates_.end()) {
      std::nth_element(begin, sorted, edge_candidates_.end(), before);
    }
    std::sort(begin, sorted, before);
    for (auto c = begin; c != sorted; ++c) {
      if (sum >= wanted) return;
      candidates_.push_back(*c);
      sum += c->weight;
    }
  }
}

// Weights in place of their logarithms: blocks side by side, so that the compiler can vectorize.
void Sampler::exponentiate() {
  constexpr std::size_t kBlock = 256;
  std::array<double, kBlock> block{};
  for (std::size_t begin = 0; begin < candidates_.size(); begin += kBlock) {
    const std::size_t n = std::min(kBlock, candidates_.size() - begin);
    for (std::size_t i = 0; i < n; ++i) block[i] = candidates_[begin + i].weight;
    for (double& x : block) x = portable_exp_in_range(x);
    for (std::size_t i = 0; i < n; ++i) candidates_[begin + i].weight = block[i];
  }
}

void Sampler::select_candidates(std::span<const float> logits) {
  candidates_.clear();
  const float largest = logits[static_cast<std::size_t>(argmax(logits))];
  if (!(largest > kMinusInfinity)) {
    candidates_.push_back({1, 0});
    return;
  }
  const float threshold = top_k_threshold(logits);
  const double temperature = static_cast<double>(params_.temperature);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    if (!(logit >= threshold)) continue;  // NaN as well
    // Equal to the largest first: inf - inf would be NaN.
    const double below =
        logit == largest ? 0 : static_cast<double>(logit) - static_cast<double>(largest);
    const double exponent = below / temperature;
    if (exponent < kLeastExponent) continue;  // never drawn: 10^-304 of the largest
    candidates_.push_back({exponent, static_cast<std::int32_t>(i)});
  }
  exponentiate();
  if (params_.top_p < 1) keep_top_p();
  if (params_.min_p > 0) {
    const auto least = static_cast<double>(params_.min_p);  // of the largest weight, which is 1
    std::erase_if(candidates_, [least](const Candidate& c) { return c.weight < least; });
  }
}

void Sampler::accept(std::int32_t id) {
  if (id < 0 || id >= vocab_size_) return;  // not a token that could be picked again
  if (params_.repetition_penalty != 1) {
    const auto place = std::lower_bound(seen_ids_.begin(), seen_ids_.end(), id);
    if (place == seen_ids_.end() || *place != id) seen_ids_.insert(place, id);
  }
  if (params_.presence_penalty != 0 || params_.frequency_penalty != 0) {
    const auto place =
        std::lower_bound(generated_counts_.begin(), generated_counts_.end(), id,
                         [](const auto& entry, std::int32_t value) { return entry.first < value; });
    if (place != generated_counts_.end() && place->first == id) {
      ++place->second;
    } else {
      generated_counts_.insert(place, {id, 1});
    }
  }
}

std::int32_t Sampler::pick(std::span<float> logits) {
  MUNIA_CHECK(!logits.empty() && static_cast<std::int64_t>(logits.size()) == vocab_size_);
  penalize(logits);
  std::int32_t id = 0;
  if (params_.temperature == 0) {
    id = argmax(logits);
  } else {
    select_candidates(logits);
    double total = 0;
    for (const Candidate& c : candidates_) total += c.weight;
    // Every pick uses one number, so the n-th token of a seed does not depend on the filters.
    const double target = random_.next_double() * total;
    double sum = 0;
    for (const Candidate& c : candidates_) {
      id = c.id;  // the last one where rounding leaves the sum below the target
      sum += c.weight;
      if (sum > target) break;
    }
  }
  accept(id);
  return id;
}

std::vector<double> Sampler::distribution(std::span<float> logits) {
  MUNIA_CHECK(!logits.empty() && static_cast<std::int64_t>(logits.size()) == vocab_size_);
  penalize(logits);
  std::vector<double> probabilities(logits.size(), 0.0);
  if (params_.temperature == 0) {
    probabilities[static_cast<std::size_t>(argmax(logits))] = 1;
    return probabilities;
  }
  select_candidates(logits);
  double total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  for (const Candidate& c : candidates_) {
    probabilities[static_cast<std::size_t>(c.id)] = c.weight / total;
  }
  return probabilities;
}

}  // namespace munia::decode
