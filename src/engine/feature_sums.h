// Gathers Features while a prompt is computed in pieces. Private to the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/job.h"

namespace munia::engine {

class FeatureSums {
 public:
  explicit FeatureSums(Features wanted)
      : wanted_(std::move(wanted)), last_(wanted_.layers.size()), sums_(wanted_.layers.size()) {}

  const Features& wanted() const { return wanted_; }

  // `hidden` [n_tokens, hidden_dim] of layers[tap], from the prompt's token `first` on.
  void add(std::size_t tap, std::int64_t first, std::int64_t n_tokens,
           std::span<const float> hidden) {
    const std::size_t dim = hidden.size() / static_cast<std::size_t>(n_tokens);
    std::vector<double>& sums = sums_[tap];
    sums.resize(dim);
    for (std::int64_t t = 0; t < n_tokens; ++t) {
      const std::span<const float> row = hidden.subspan(static_cast<std::size_t>(t) * dim, dim);
      if (t + 1 == n_tokens) last_[tap].assign(row.begin(), row.end());
      if (first + t < wanted_.mean_begin || first + t >= wanted_.mean_end) continue;
      for (std::size_t d = 0; d < dim; ++d) sums[d] += static_cast<double>(row[d]);
    }
  }

  // [layers, 2 (last token, mean), hidden_dim]
  std::vector<float> take() const {
    const auto n_mean = static_cast<double>(wanted_.mean_end - wanted_.mean_begin);
    std::vector<float> features;
    for (std::size_t tap = 0; tap < last_.size(); ++tap) {
      features.insert(features.end(), last_[tap].begin(), last_[tap].end());
      for (const double sum : sums_[tap]) features.push_back(static_cast<float>(sum / n_mean));
    }
    return features;
  }

 private:
  Features wanted_;
  std::vector<std::vector<float>> last_;   // [layers][hidden_dim]
  std::vector<std::vector<double>> sums_;  // [layers][hidden_dim]
};

}  // namespace munia::engine
