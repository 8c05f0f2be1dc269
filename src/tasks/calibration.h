// What a task does with its labels' scores: softens or sharpens them, corrects them by what the
// model leans to anyway, and decides. Learned by munia fit, or written by hand in a task file.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace munia::tasks {

struct Calibration {
  double temperature = 1;  // > 0; scores are divided by it: above 1, less sure
  /// [n_labels] the share that the model gives each label without a reason; probabilities are
  /// divided by it, after the temperature (T. Zhao et al., "Calibrate Before Use", 2021). Empty:
  /// none.
  std::vector<double> prior;
  /// [n_labels] the label with the largest probability / threshold is chosen: of two labels, one is
  /// chosen when its probability reaches its threshold. Empty: the likeliest label.
  std::vector<double> threshold;

  bool is_plain() const { return prior.empty() && temperature == 1 && threshold.empty(); }
  /// Probabilities [n_labels] from log-probabilities, of which only the differences matter. The
  /// same bytes on every machine, and in every order of the labels. Scores that are all -inf count
  /// as equal ones.
  std::vector<double> probabilities(std::span<const double> label_logprobs) const;
  /// The label that is chosen; of equal ones the first.
  std::size_t choose(std::span<const double> probabilities) const;
};

}  // namespace munia::tasks
