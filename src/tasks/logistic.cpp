#include "tasks/logistic.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tasks/lbfgs.h"

namespace munia::tasks {
namespace {

constexpr double kGradient = 1e-4;  // done when no entry of the gradient is larger
constexpr std::size_t kLanes = 8;

/// Partial sums that the compiler can keep in vector registers, added in a fixed order.
float dot(const float* a, const float* b, std::size_t n) {
  float sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  float sum = 0;
  for (; i < n; ++i) sum += a[i] * b[i];
  for (const float part : sums) sum += part;
  return sum;
}

/// The picked rows, standardized, and what they are standardized by.
struct Standardized {
  std::vector<float> x;       // [n, n_features]
  std::vector<double> mean;   // [n_features]
  std::vector<double> scale;  // [n_features] 1 / standard deviation; 0 for a constant
  std::vector<std::size_t> labels;
};

Standardized standardize(const TrainingSet& set, std::span<const std::size_t> rows) {
  const std::size_t n = rows.size();
  Standardized out;
  out.mean.assign(set.n_features, 0);
  out.scale.assign(set.n_features, 0);
  for (const std::size_t row : rows) {
    out.labels.push_back(set.labels[row]);
    const std::span<const float> x = set.row(row);
    for (std::size_t d = 0; d < x.size(); ++d) out.mean[d] += static_cast<double>(x[d]);
  }
  for (double& mean : out.mean) mean /= static_cast<double>(n);
  for (const std::size_t row : rows) {
    const std::span<const float> x = set.row(row);
    for (std::size_t d = 0; d < x.size(); ++d) {
      const double distance = static_cast<double>(x[d]) - out.mean[d];
      out.scale[d] += distance * distance;
    }
  }
  for (double& scale : out.scale) {
    const double deviation = std::sqrt(scale / static_cast<double>(n));
    scale = deviation > 1e-12 ? 1 / deviation : 0;
  }
  out.x.reserve(n * set.n_features);
  for (const std::size_t row : rows) {
    const std::span<const float> x = set.row(row);
    for (std::size_t d = 0; d < x.size(); ++d) {
      out.x.push_back(static_cast<float>((static_cast<double>(x[d]) - out.mean[d]) * out.scale[d]));
    }
  }
  return out;
}

/// The function to minimize. A point is [n_labels, n_features] weights, then [n_labels] biases.
class Loss {
 public:
  Loss(const Standardized& data, std::size_t n_features, std::size_t n_labels, double penalty)
      : data_(data), n_features_(n_features), n_labels_(n_labels), penalty_(penalty) {}

  double at(const std::vector<double>& point, std::vector<double>& gradient) {
    const std::size_t n_weights = n_labels_ * n_features_;
    const std::size_t n_rows = data_.labels.size();
    weights_.assign(point.begin(), point.begin() + static_cast<std::ptrdiff_t>(n_weights));
    sums_.assign(n_weights, 0);
    gradient.assign(point.size(), 0);
    std::vector<double> scores(n_labels_);
    double loss = 0;
    for (std::size_t i = 0; i < n_rows; ++i) {
      const float* const x = data_.x.data() + i * n_features_;
      for (std::size_t k = 0; k < n_labels_; ++k) {
        scores[k] = static_cast<double>(dot(weights_.data() + k * n_features_, x, n_features_)) +
                    point[n_weights + k];
      }
      const std::vector<double> logs = log_softmax(scores);
      loss -= logs[data_.labels[i]];
      for (std::size_t k = 0; k < n_labels_; ++k) {
        const double error = std::exp(logs[k]) - (data_.labels[i] == k ? 1 : 0);
        gradient[n_weights + k] += error;
        float* const sum = sums_.data() + k * n_features_;
        const auto factor = static_cast<float>(error);
        for (std::size_t d = 0; d < n_features_; ++d) sum[d] += factor * x[d];
      }
    }
    const double share = 1 / static_cast<double>(n_rows);
    loss *= share;
    for (std::size_t i = 0; i < n_weights; ++i) {
      gradient[i] = static_cast<double>(sums_[i]) * share + penalty_ * point[i];
      loss += penalty_ / 2 * point[i] * point[i];
    }
    for (std::size_t k = 0; k < n_labels_; ++k) gradient[n_weights + k] *= share;
    return loss;
  }

 private:
  const Standardized& data_;
  std::size_t n_features_;
  std::size_t n_labels_;
  double penalty_;
  std::vector<float> weights_;
  std::vector<float> sums_;
};

}  // namespace

std::vector<double> log_softmax(std::span<const double> scores) {
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - top);
  std::vector<double> logs;
  for (const double score : scores) logs.push_back(score - top - std::log(sum));
  return logs;
}

std::vector<double> LogisticModel::scores(std::span<const float> x) const {
  MUNIA_CHECK(x.size() == n_features);
  std::vector<double> out;
  for (std::size_t k = 0; k < n_labels(); ++k) {
    double sum = static_cast<double>(bias[k]);
    for (std::size_t d = 0; d < n_features; ++d) {
      sum += static_cast<double>(weights[k * n_features + d]) * static_cast<double>(x[d]);
    }
    out.push_back(sum);
  }
  return out;
}

LogisticModel train_logistic(const TrainingSet& set, std::span<const std::size_t> rows,
                             double penalty, const LogisticModel* start) {
  MUNIA_CHECK(!rows.empty());
  const Standardized data = standardize(set, rows);
  const std::size_t n_weights = set.n_labels * set.n_features;
  std::vector<double> point(n_weights + set.n_labels, 0);
  if (start != nullptr) {
    for (std::size_t i = 0; i < n_weights; ++i) {
      const std::size_t d = i % set.n_features;
      const double weight = static_cast<double>(start->weights[i]);
      if (data.scale[d] > 0) point[i] = weight / data.scale[d];
      point[n_weights + i / set.n_features] += weight * data.mean[d];
    }
    for (std::size_t k = 0; k < set.n_labels; ++k) {
      point[n_weights + k] += static_cast<double>(start->bias[k]);
    }
  }
  Loss loss(data, set.n_features, set.n_labels, penalty);
  minimize([&](const auto& at, auto& gradient) { return loss.at(at, gradient); }, point, kGradient);
  // Back to features as they come.
  LogisticModel model;
  model.n_features = set.n_features;
  for (std::size_t k = 0; k < set.n_labels; ++k) {
    double bias = point[n_weights + k];
    for (std::size_t d = 0; d < set.n_features; ++d) {
      const double weight = point[k * set.n_features + d] * data.scale[d];
      model.weights.push_back(static_cast<float>(weight));
      bias -= static_cast<double>(model.weights.back()) * data.mean[d];
    }
    model.bias.push_back(static_cast<float>(bias));
  }
  return model;
}

}  // namespace munia::tasks
