#include "tasks/learn.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "tasks/lbfgs.h"

namespace munia::tasks {
namespace {

constexpr std::size_t kInnerFolds = 4;
// Strength of the penalty on a head's weights, as a share of features per row: from strong to weak,
// so that each model starts the next.
constexpr double kPenalties[] = {3, 1, 0.3, 0.1, 0.03};
// Keeps a temperature finite where the scores part the labels without a mistake.
constexpr double kCalibrationPenalty = 1e-3;
constexpr double kMostTemperature = 100;

std::vector<std::size_t> count_labels(const LearningRows& rows,
                                      std::span<const std::size_t> picked) {
  std::vector<std::size_t> counts(rows.n_labels, 0);
  for (const std::size_t row : picked) ++counts[rows.labels[row]];
  return counts;
}

/// Scores of labels, with the label that is right.
struct ScoredRow {
  std::vector<double> scores;
  std::size_t label = 0;
};

/// The temperature, and with `with_prior` the prior, under which the right labels are likeliest.
/// Point: log(1 / temperature), then a bias per label.
Calibration fit_calibration(const std::vector<ScoredRow>& rows, bool with_prior) {
  const std::size_t n_labels = rows.front().scores.size();
  const double share = 1 / static_cast<double>(rows.size());
  const auto objective = [&](const std::vector<double>& point, std::vector<double>& gradient) {
    const double sharpness = std::exp(point[0]);
    gradient.assign(point.size(), 0);
    double loss = 0;
    std::vector<double> scores(n_labels);
    for (const ScoredRow& row : rows) {
      for (std::size_t k = 0; k < n_labels; ++k) {
        scores[k] = sharpness * row.scores[k] + (with_prior ? point[1 + k] : 0);
      }
      const std::vector<double> logs = log_softmax(scores);
      loss -= logs[row.label] * share;
      for (std::size_t k = 0; k < n_labels; ++k) {
        const double error = (std::exp(logs[k]) - (row.label == k ? 1 : 0)) * share;
        gradient[0] += error * row.scores[k] * sharpness;
        if (with_prior) gradient[1 + k] += error;
      }
    }
    for (std::size_t i = 0; i < point.size(); ++i) {
      loss += kCalibrationPenalty / 2 * point[i] * point[i];
      gradient[i] += kCalibrationPenalty * point[i];
    }
    return loss;
  };
  std::vector<double> point(with_prior ? 1 + n_labels : 1, 0);
  minimize(objective, point, 1e-7);
  Calibration calibration;
  calibration.temperature = std::clamp(std::exp(-point[0]), 1 / kMostTemperature, kMostTemperature);
  if (!with_prior) return calibration;
  std::vector<double> biases;
  for (std::size_t k = 0; k < n_labels; ++k) biases.push_back(-point[1 + k]);
  for (const double log : log_softmax(biases)) calibration.prior.push_back(std::exp(log));
  return calibration;
}

std::vector<ScoredRow> scored_rows(const LearningRows& rows, std::span<const std::size_t> picked) {
  std::vector<ScoredRow> scored;
  for (const std::size_t row : picked) {
    // Differences only; the mean keeps the sharpness apart from what all labels share.
    std::vector<double> scores = rows.logprobs[row];
    double mean = 0;
    for (const double score : scores) mean += score / static_cast<double>(scores.size());
    for (double& score : scores) score -= mean;
    scored.push_back({std::move(scores), rows.labels[row]});
  }
  return scored;
}

/// Of two labels: the threshold of the first with the most rows right, in the middle between two
/// rows; of equal ones the one nearest to one half.
Calibration fit_threshold(const LearningRows& rows, std::span<const std::size_t> picked) {
  std::vector<std::pair<double, std::size_t>> sorted;  // probability of the first label, its label
  for (const std::size_t row : picked) {
    sorted.emplace_back(Calibration().probabilities(rows.logprobs[row])[0], rows.labels[row]);
  }
  std::sort(sorted.begin(), sorted.end());
  // Below the first row everything is the first label; each row that is passed becomes the second.
  auto n_right =
      std::count_if(sorted.begin(), sorted.end(), [](const auto& row) { return row.second == 0; });
  std::pair<std::ptrdiff_t, double> best{n_right, sorted.front().first / 2};
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    n_right += sorted[i].second == 0 ? -1 : 1;
    const double next = i + 1 < sorted.size() ? sorted[i + 1].first : 1;
    const double middle = (sorted[i].first + next) / 2;
    const bool nearer = std::fabs(middle - 0.5) < std::fabs(best.second - 0.5);
    if (n_right > best.first || (n_right == best.first && nearer)) best = {n_right, middle};
  }
  Calibration calibration;
  const double threshold = std::clamp(best.second, 1e-300, 1 - 1e-16);
  calibration.threshold = {threshold, std::max(1 - threshold, 1e-300)};
  return calibration;
}

// ---- Heads ----

/// Which of the layers a head reads; places in LearningRows::layers.
using LayerChoice = std::vector<std::size_t>;

std::vector<LayerChoice> layer_choices(std::size_t n_layers) {
  std::vector<LayerChoice> choices;
  LayerChoice all;
  for (std::size_t i = 0; i < n_layers; ++i) {
    choices.push_back({i});
    all.push_back(i);
  }
  if (n_layers > 1) choices.push_back(all);
  return choices;
}

/// The states of the chosen layers, [n_rows, n_features].
std::vector<float> chosen_states(const LearningRows& rows, const LayerChoice& choice) {
  const auto layer_size = static_cast<std::size_t>(2 * rows.hidden_dim);
  const std::size_t row_size = rows.layers.size() * layer_size;
  std::vector<float> out;
  out.reserve(rows.n_rows() * choice.size() * layer_size);
  for (std::size_t row = 0; row < rows.n_rows(); ++row) {
    for (const std::size_t layer : choice) {
      const auto begin =
          rows.states.begin() + static_cast<std::ptrdiff_t>(row * row_size + layer * layer_size);
      out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(layer_size));
    }
  }
  return out;
}

/// A share of the rows that is held out, and the others; both as places in `picked`.
struct Fold {
  std::vector<std::size_t> learn;
  std::vector<std::size_t> held_out;
};
/// The rows of each label are dealt out in turn, so that all folds have the labels alike.
std::vector<Fold> make_folds(const LearningRows& rows, std::span<const std::size_t> picked,
                             std::size_t n_folds) {
  std::vector<Fold> folds(n_folds);
  std::vector<std::size_t> n_dealt(rows.n_labels, 0);
  for (std::size_t at = 0; at < picked.size(); ++at) {
    const std::size_t own = n_dealt[rows.labels[picked[at]]]++ % n_folds;
    for (std::size_t i = 0; i < n_folds; ++i) {
      (i == own ? folds[i].held_out : folds[i].learn).push_back(at);
    }
  }
  return folds;
}

std::vector<std::size_t> rows_at(std::span<const std::size_t> picked,
                                 std::span<const std::size_t> places) {
  std::vector<std::size_t> out;
  for (const std::size_t place : places) out.push_back(picked[place]);
  return out;
}

double penalty_of(double strength, std::size_t n_features, std::size_t n_rows) {
  return strength * static_cast<double>(n_features) / static_cast<double>(n_rows);
}

/// One choice of layers and one fold: the held-out rows' scores, per penalty.
struct FoldScores {
  std::vector<std::vector<ScoredRow>> by_penalty;
};

FoldScores try_penalties(const TrainingSet& set, std::span<const std::size_t> learn,
                         std::span<const std::size_t> held_out) {
  FoldScores result;
  std::optional<LogisticModel> model;
  for (const double strength : kPenalties) {
    model = train_logistic(set, learn, penalty_of(strength, set.n_features, learn.size()),
                           model ? &*model : nullptr);
    std::vector<ScoredRow>& scored = result.by_penalty.emplace_back();
    for (const std::size_t row : held_out) {
      scored.push_back({model->scores(set.row(row)), set.labels[row]});
    }
  }
  return result;
}

double mean_loss(const std::vector<ScoredRow>& rows) {
  double loss = 0;
  for (const ScoredRow& row : rows) loss -= log_softmax(row.scores)[row.label];
  return loss / static_cast<double>(rows.size());
}

Learned learn_head(const LearningRows& rows, std::span<const std::size_t> picked,
                   ThreadPool& pool) {
  const std::vector<LayerChoice> choices = layer_choices(rows.layers.size());
  const std::vector<Fold> folds = make_folds(rows, picked, kInnerFolds);
  double least_loss = 0;
  const LayerChoice* best_choice = nullptr;
  double best_strength = 0;
  std::vector<ScoredRow> best_scored;
  std::vector<float> best_states;
  for (const LayerChoice& choice : choices) {
    std::vector<float> states = chosen_states(rows, choice);
    const TrainingSet set{states, rows.labels, states.size() / rows.n_rows(), rows.n_labels};
    std::vector<FoldScores> of_folds(folds.size());
    pool.parallel_for(static_cast<std::int64_t>(folds.size()), 1,
                      [&](std::int64_t begin, std::int64_t end, int) {
                        for (std::int64_t i = begin; i < end; ++i) {
                          const auto at = static_cast<std::size_t>(i);
                          of_folds[at] = try_penalties(set, rows_at(picked, folds[at].learn),
                                                       rows_at(picked, folds[at].held_out));
                        }
                      });
    bool is_best = false;
    for (std::size_t p = 0; p < std::size(kPenalties); ++p) {
      std::vector<ScoredRow> scored;
      for (FoldScores& fold : of_folds) {
        std::move(fold.by_penalty[p].begin(), fold.by_penalty[p].end(), std::back_inserter(scored));
      }
      const double loss = mean_loss(scored);
      if (best_choice != nullptr && loss >= least_loss) continue;
      is_best = true;
      least_loss = loss;
      best_choice = &choice;
      best_strength = kPenalties[p];
      best_scored = std::move(scored);
    }
    if (is_best) best_states = std::move(states);
  }
  const TrainingSet set{best_states, rows.labels, best_states.size() / rows.n_rows(),
                        rows.n_labels};
  Learned learned;
  learned.penalty = penalty_of(best_strength, set.n_features, picked.size());
  auto head = std::make_shared<LinearHead>();
  head->hidden_dim = rows.hidden_dim;
  for (const std::size_t layer : *best_choice) head->layers.push_back(rows.layers[layer]);
  head->logistic = train_logistic(set, picked, learned.penalty);
  learned.head = std::move(head);
  learned.calibration = fit_calibration(best_scored, false);
  return learned;
}

/// The head's scores of a row of `rows`.
std::vector<double> head_scores(const LinearHead& head, const LearningRows& rows, std::size_t row) {
  const auto layer_size = static_cast<std::size_t>(2 * rows.hidden_dim);
  const std::span<const float> states =
      std::span(rows.states).subspan(row * rows.layers.size() * layer_size);
  std::vector<float> x;
  for (const std::int64_t layer : head.layers) {
    const auto at = static_cast<std::size_t>(
        std::find(rows.layers.begin(), rows.layers.end(), layer) - rows.layers.begin());
    const std::span<const float> part = states.subspan(at * layer_size, layer_size);
    x.insert(x.end(), part.begin(), part.end());
  }
  return head.logistic.scores(x);
}

/// `where` begins the message about too few rows.
Status check_rows(Recipe recipe, const LearningRows& rows, std::span<const std::size_t> picked,
                  std::size_t least, const std::string& where) {
  if (recipe == Recipe::kThreshold && rows.n_labels != 2) {
    return Error{
        ErrorCode::kInvalidArgument,
        "a threshold is learned for two labels; the task has " + std::to_string(rows.n_labels)};
  }
  if (recipe == Recipe::kHead && rows.states.empty()) {
    return Error{ErrorCode::kInvalidArgument, "there are no hidden states to learn a head from"};
  }
  const std::vector<std::size_t> counts = count_labels(rows, picked);
  const std::size_t fewest = *std::min_element(counts.begin(), counts.end());
  if (fewest >= least) return {};
  return Error{ErrorCode::kInvalidArgument, where + " every label needs at least " +
                                                std::to_string(least) + " rows; one has " +
                                                std::to_string(fewest)};
}

}  // namespace

std::string_view recipe_name(Recipe recipe) {
  switch (recipe) {
    case Recipe::kZeroShot:
      return "zero-shot";
    case Recipe::kPrior:
      return "prior";
    case Recipe::kThreshold:
      return "threshold";
    case Recipe::kHead:
      return "head";
  }
  return "";
}

std::size_t least_rows(Recipe recipe) {
  switch (recipe) {
    case Recipe::kZeroShot:
      return 0;
    case Recipe::kPrior:
    case Recipe::kThreshold:
      return 5;
    case Recipe::kHead:
      return 8;
  }
  return 0;
}

Result<Learned> learn(Recipe recipe, const LearningRows& rows, std::span<const std::size_t> picked,
                      ThreadPool& pool) {
  MUNIA_RETURN_IF_ERROR(check_rows(recipe, rows, picked, least_rows(recipe),
                                   "to learn a " + std::string(recipe_name(recipe))));
  switch (recipe) {
    case Recipe::kZeroShot:
      return Learned{};
    case Recipe::kPrior:
      return Learned{fit_calibration(scored_rows(rows, picked), true), nullptr};
    case Recipe::kThreshold:
      return Learned{fit_threshold(rows, picked), nullptr};
    case Recipe::kHead:
      return learn_head(rows, picked, pool);
  }
  return Learned{};
}

Calibration learn_prior(const LearningRows& rows) {
  std::vector<std::size_t> all(rows.n_rows());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return fit_calibration(scored_rows(rows, all), true);
}

JudgedRow judge(const Learned& learned, const LearningRows& rows, std::size_t row) {
  const std::vector<double> probabilities = learned.calibration.probabilities(
      learned.head ? head_scores(*learned.head, rows, row) : rows.logprobs[row]);
  const std::size_t found = learned.calibration.choose(probabilities);
  return {rows.labels[row], found, probabilities[found]};
}

std::vector<std::size_t> shuffled_evenly(std::span<const std::size_t> labels, std::size_t n_labels,
                                         std::uint32_t seed) {
  std::vector<std::size_t> order(labels.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  // Fisher and Yates, by hand: std::shuffle differs from library to library.
  std::mt19937 random(seed);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  std::vector<double> n_of_label(n_labels, 0);
  for (const std::size_t label : labels) ++n_of_label[label];
  // A label's rows stand evenly between 0 and 1.
  std::vector<double> n_before(n_labels, 0);
  std::vector<std::pair<double, std::size_t>> placed;
  for (const std::size_t row : order) {
    const std::size_t label = labels[row];
    placed.emplace_back((n_before[label]++ + 0.5) / n_of_label[label], row);
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::size_t> out;
  for (const auto& [place, row] : placed) out.push_back(row);
  return out;
}

Result<std::vector<JudgedRow>> cross_validate(Recipe recipe, const LearningRows& rows,
                                              std::span<const std::size_t> picked,
                                              std::size_t n_folds, ThreadPool& pool) {
  // So that every fold leaves enough of each label to the others.
  const std::size_t least = (least_rows(recipe) * n_folds + n_folds - 2) / (n_folds - 1);
  MUNIA_RETURN_IF_ERROR(
      check_rows(recipe, rows, picked, least,
                 "to judge a " + std::string(recipe_name(recipe)) + " by cross-validation"));
  std::vector<JudgedRow> judged(picked.size());
  for (const Fold& fold : make_folds(rows, picked, n_folds)) {
    MUNIA_ASSIGN_OR_RETURN(const Learned learned,
                           learn(recipe, rows, rows_at(picked, fold.learn), pool));
    for (const std::size_t place : fold.held_out) {
      judged[place] = judge(learned, rows, picked[place]);
    }
  }
  return judged;
}

}  // namespace munia::tasks
