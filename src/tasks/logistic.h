// Logistic regression over several classes: trained on few rows of many features, so always with a
// penalty on the weights. Numbers in, numbers out; the same input gives the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace munia::tasks {

/// Rows to learn from. `rows` picks some of them, by number.
struct TrainingSet {
  std::span<const float> features;      // [n, n_features] row-major
  std::span<const std::size_t> labels;  // [n] below n_labels
  std::size_t n_features = 0;
  std::size_t n_labels = 0;

  std::span<const float> row(std::size_t i) const {
    return features.subspan(i * n_features, n_features);
  }
};

/// log p(label) = weights * x + bias, up to a term that all labels share.
struct LogisticModel {
  std::size_t n_features = 0;
  std::vector<float> weights;  // [n_labels, n_features] row-major
  std::vector<float> bias;     // [n_labels]

  std::size_t n_labels() const { return bias.size(); }
  /// [n_labels]; of `x` [n_features]. Summed in float64.
  std::vector<double> scores(std::span<const float> x) const;
};

/// log of the softmax. By std::log and std::exp: learning need not give the same bytes on every
/// machine.
std::vector<double> log_softmax(std::span<const double> scores);

/// Minimizes the mean of -log p(label) over the rows plus `penalty` / 2 times the squared weights
/// of standardized features (each less its mean, over its standard deviation; the bias is free), by
/// L-BFGS (J. Nocedal, 1980). A feature that never changes gets no weight. `rows` is not empty.
/// `start`: a model to begin from, such as that of a larger penalty.
LogisticModel train_logistic(const TrainingSet& set, std::span<const std::size_t> rows,
                             double penalty, const LogisticModel* start = nullptr);

}  // namespace munia::tasks
