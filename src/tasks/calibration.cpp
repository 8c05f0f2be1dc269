#include "tasks/calibration.h"

#include <algorithm>
#include <limits>

#include "decode/portable_exp.h"

namespace munia::tasks {

std::vector<double> Calibration::probabilities(std::span<const double> label_logprobs) const {
  constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
  const double largest = *std::max_element(label_logprobs.begin(), label_logprobs.end());
  std::vector<double> parts;
  for (std::size_t i = 0; i < label_logprobs.size(); ++i) {
    const double distance = (label_logprobs[i] - largest) / temperature;
    const double part = largest > kMinusInfinity ? decode::portable_exp(distance) : 1;
    parts.push_back(prior.empty() ? part : part / prior[i]);
  }
  std::vector<double> sorted = parts;
  std::sort(sorted.begin(), sorted.end());
  double sum = 0;
  for (const double part : sorted) sum += part;
  for (double& part : parts) part /= sum;
  return parts;
}

std::size_t Calibration::choose(std::span<const double> probabilities) const {
  std::size_t best = 0;
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    const double weight = threshold.empty() ? probabilities[i] : probabilities[i] / threshold[i];
    if (weight <= most) continue;
    best = i;
    most = weight;
  }
  return best;
}

}  // namespace munia::tasks
