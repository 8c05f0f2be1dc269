// Log-probabilities of tokens from one row of logits: the log-softmax in double, and the most
// likely tokens beside the one that was taken. Knows only numbers, no text.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace munia::decode {

/// The log-softmax of one row. Keeps only its normalizer; the row is read by the caller again.
class LogSoftmax {
 public:
  /// `logits` [vocab_size]. A NaN logit counts as -inf; a row without any logit above -inf gives
  /// -inf everywhere.
  explicit LogSoftmax(std::span<const float> logits);
  /// log p of a token whose logit is `logit`.
  double of(float logit) const;
  /// Every logit of a row becomes its log p, rounded to float.
  void apply(std::span<float> logits) const;

 private:
  double shifted(float logit) const;  // logit - largest
  float largest_;
  double log_sum_;
};

/// A token of a sequence and what the model gave it.
struct TokenLogprob {
  std::int32_t id = 0;
  double logprob = 0;  // natural log; -inf where the model excludes it
  std::vector<std::pair<std::int32_t, double>> top;  // the likeliest, falling; equal ones by id
};

/// The n largest values of a row and their ids, falling; equal ones by id. NaN is left out.
std::vector<std::pair<float, std::int32_t>> largest(std::span<const float> row, std::int64_t n);

/// `id`'s log-probability in `logits` [vocab_size] and the `n_top` likeliest tokens' (none for 0).
/// An id outside the row has -inf.
TokenLogprob token_logprob(std::span<const float> logits, std::int32_t id, std::int64_t n_top);

}  // namespace munia::decode
