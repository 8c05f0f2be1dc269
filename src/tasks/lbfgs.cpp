#include "tasks/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <utility>

namespace munia::tasks {
namespace {

constexpr int kMostSteps = 200;
constexpr std::size_t kMemory = 10;  // pairs that are remembered
constexpr double kDecrease = 1e-4;   // Armijo's share of the promised decrease
constexpr int kMostHalvings = 30;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Two loops over the remembered steps (Nocedal's recursion): -H * gradient.
class Memory {
 public:
  void add(std::vector<double> step, std::vector<double> change) {
    const double product = dot(step, change);
    if (product <= 1e-12) return;  // not convex here as far as rounding goes
    if (pairs_.size() == kMemory) pairs_.pop_front();
    pairs_.push_back({std::move(step), std::move(change), product});
  }
  std::vector<double> direction(const std::vector<double>& gradient) const {
    std::vector<double> q = gradient;
    std::vector<double> alphas(pairs_.size());
    for (std::size_t i = pairs_.size(); i-- > 0;) {
      alphas[i] = dot(pairs_[i].step, q) / pairs_[i].product;
      for (std::size_t d = 0; d < q.size(); ++d) q[d] -= alphas[i] * pairs_[i].change[d];
    }
    if (!pairs_.empty()) {
      const Pair& last = pairs_.back();
      const double scale = last.product / dot(last.change, last.change);
      for (double& value : q) value *= scale;
    }
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      const double beta = dot(pairs_[i].change, q) / pairs_[i].product;
      for (std::size_t d = 0; d < q.size(); ++d) q[d] += (alphas[i] - beta) * pairs_[i].step[d];
    }
    for (double& value : q) value = -value;
    return q;
  }
  void clear() { pairs_.clear(); }
  bool empty() const { return pairs_.empty(); }

 private:
  struct Pair {
    std::vector<double> step;
    std::vector<double> change;  // of the gradient
    double product;
  };
  std::deque<Pair> pairs_;
};

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::fabs(value));
  return most;
}

}  // namespace

void minimize(const Objective& objective, std::vector<double>& point, double tolerance) {
  std::vector<double> gradient;
  double value = objective(point, gradient);
  Memory memory;
  for (int step = 0; step < kMostSteps && largest(gradient) > tolerance; ++step) {
    std::vector<double> direction = memory.direction(gradient);
    double slope = dot(direction, gradient);
    if (slope >= 0) {  // by rounding: begin again with the steepest descent
      memory.clear();
      direction = memory.direction(gradient);
      slope = dot(direction, gradient);
    }
    double length = memory.empty() ? std::min(1.0, 1 / std::sqrt(-slope)) : 1;
    std::vector<double> next(point.size());
    std::vector<double> next_gradient;
    double next_value = 0;
    int halvings = 0;
    for (;; ++halvings, length /= 2) {
      if (halvings == kMostHalvings) return;  // float32 sums give no better
      for (std::size_t d = 0; d < point.size(); ++d) next[d] = point[d] + length * direction[d];
      next_value = objective(next, next_gradient);
      if (next_value <= value + kDecrease * length * slope) break;
    }
    std::vector<double> change(point.size());
    for (std::size_t d = 0; d < point.size(); ++d) {
      direction[d] *= length;
      change[d] = next_gradient[d] - gradient[d];
    }
    memory.add(std::move(direction), std::move(change));
    point = std::move(next);
    gradient = std::move(next_gradient);
    value = next_value;
  }
}

}  // namespace munia::tasks
