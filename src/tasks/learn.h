// What can be learned from labelled rows once the model has seen them: a calibration of the labels'
// scores, or a linear head on hidden states; and how good it is on rows that it was not learned
// from. Figures only: knows no model and no text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "tasks/calibration.h"
#include "tasks/evaluation.h"
#include "tasks/linear_head.h"

namespace munia::tasks {

/// What one pass of the model over labelled texts gave.
struct LearningRows {
  std::size_t n_labels = 0;
  std::vector<std::size_t> labels;            // [n_rows] that people gave
  std::vector<std::vector<double>> logprobs;  // [n_rows][n_labels] Classifier::label_scores
  std::vector<std::int64_t> layers;           // ascending
  std::int64_t hidden_dim = 0;
  std::vector<float> states;  // [n_rows, layers, 2, hidden_dim] (engine::Features); may be empty

  std::size_t n_rows() const { return labels.size(); }
};

enum class Recipe {
  kZeroShot,   // nothing
  kPrior,      // temperature and prior
  kThreshold,  // thresholds; of two labels only
  kHead,       // a linear head, and its temperature
};
std::string_view recipe_name(Recipe recipe);

/// What a recipe puts into a task.
struct Learned {
  Calibration calibration;
  std::shared_ptr<const LinearHead> head;  // with kHead
  double penalty = 0;                      // that the head was learned with
};

/// The fewest rows of each label that a recipe is learned from.
std::size_t least_rows(Recipe recipe);

/// Learns from `picked` rows. kInvalidArgument when a label has too few of them, or the recipe does
/// not apply.
///   kPrior: the temperature and the prior with the largest likelihood (J. Platt, 1999).
///   kThreshold: the threshold with the most rows right; of equal ones the nearest to one half.
///   kHead: by four-fold cross-validation over the layers of `rows`, one or all of them, and over
///   penalties; then from all rows.
Result<Learned> learn(Recipe recipe, const LearningRows& rows, std::span<const std::size_t> picked,
                      ThreadPool& pool);

/// kPrior from all rows, however few.
Calibration learn_prior(const LearningRows& rows);

/// What the learned task says of a row.
JudgedRow judge(const Learned& learned, const LearningRows& rows, std::size_t row);

/// What munia fit shuffles by: the same rows give the same task.
inline constexpr std::uint32_t kShuffleSeed = 20240204;
/// Rows in a random order of which every beginning has the labels in about the same shares as all.
std::vector<std::size_t> shuffled_evenly(std::span<const std::size_t> labels, std::size_t n_labels,
                                         std::uint32_t seed);

/// Every row of `picked` judged by what was learned from the other folds; in the order of `picked`.
Result<std::vector<JudgedRow>> cross_validate(Recipe recipe, const LearningRows& rows,
                                              std::span<const std::size_t> picked,
                                              std::size_t n_folds, ThreadPool& pool);

}  // namespace munia::tasks
