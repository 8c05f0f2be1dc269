#include "tasks/fit.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <utility>

namespace munia::tasks {
namespace {

constexpr std::size_t kInFlight = 64;
constexpr std::size_t kShots[] = {1, 2, 4};  // examples per label
constexpr std::size_t kSetsPerShots = 2;
constexpr std::size_t kMostJudges = 60;  // texts that a set of examples is tried on

Error of_text(std::size_t i, const Error& error) {
  return {error.code, "text " + std::to_string(i + 1) + ": " + error.message};
}

}  // namespace

std::vector<std::int64_t> learning_layers(std::int64_t n_layers) {
  std::vector<std::int64_t> layers;
  for (const std::int64_t layer : {n_layers / 2, n_layers * 2 / 3, n_layers * 5 / 6}) {
    if (layers.empty() || layers.back() != layer) layers.push_back(layer);
  }
  return layers;
}

Result<LearningRows> read_rows(engine::Engine& engine, const Classifier& classifier,
                               std::span<const LabelledText> texts,
                               const std::vector<std::int64_t>& layers,
                               const OnProgress& on_progress, const BeforeWait& before_wait) {
  LearningRows rows;
  rows.n_labels = classifier.task().labels.size();
  rows.layers = layers;
  rows.hidden_dim = engine.bundle().model->config().hidden_dim;
  std::deque<std::shared_ptr<engine::Ticket>> in_flight;
  const auto land_first = [&]() -> Status {
    const std::shared_ptr<engine::Ticket> ticket = std::move(in_flight.front());
    in_flight.pop_front();
    if (before_wait) before_wait(*ticket);
    const Result<engine::JobResult> result = ticket->wait();
    if (!result) return of_text(rows.n_rows(), result.error());
    const auto& scored = std::get<engine::ScoreResult>(*result);
    rows.logprobs.push_back(classifier.label_scores(scored).label_logprobs);
    rows.states.insert(rows.states.end(), scored.features.begin(), scored.features.end());
    rows.labels.push_back(texts[rows.labels.size()].label);
    if (on_progress) on_progress(rows.n_rows());
    return {};
  };
  Status status;
  for (std::size_t i = 0; i < texts.size() && status; ++i) {
    if (in_flight.size() == kInFlight) status = land_first();
    if (!status) break;
    Result<engine::ScoreJob> job = classifier.features_job(texts[i].text, layers);
    Result<std::shared_ptr<engine::Ticket>> ticket =
        job ? engine.submit(*std::move(job)) : Result<std::shared_ptr<engine::Ticket>>(job.error());
    if (ticket) {
      in_flight.push_back(*std::move(ticket));
    } else {
      status = of_text(i, ticket.error());
    }
  }
  while (status && !in_flight.empty()) status = land_first();
  for (const auto& ticket : in_flight) ticket->cancel();
  if (!status) return status.error();
  return rows;
}

namespace {

/// One label after the other, in turns, so that neither stands at the end as a block.
std::vector<Example> examples_of(std::span<const LabelledText> texts,
                                 const std::vector<std::vector<std::size_t>>& short_by_label,
                                 std::size_t n_per_label, std::mt19937& random) {
  std::vector<std::vector<std::size_t>> left = short_by_label;
  std::vector<Example> examples;
  for (std::size_t round = 0; round < n_per_label; ++round) {
    for (std::vector<std::size_t>& of_label : left) {
      const auto at = static_cast<std::ptrdiff_t>(random() % of_label.size());
      const LabelledText& chosen = texts[of_label[static_cast<std::size_t>(at)]];
      examples.push_back({chosen.text, chosen.label});
      of_label.erase(of_label.begin() + at);
    }
  }
  return examples;
}

/// How unlikely the right labels are under a calibration.
double mean_loss(const LearningRows& rows, const Calibration& calibration) {
  double loss = 0;
  for (std::size_t i = 0; i < rows.n_rows(); ++i) {
    const double p = calibration.probabilities(rows.logprobs[i])[rows.labels[i]];
    loss -= std::log(std::max(p, 1e-300));
  }
  return loss / static_cast<double>(rows.n_rows());
}

}  // namespace

Result<FewShot> choose_examples(engine::Engine& engine, const Task& task,
                                std::span<const LabelledText> texts, std::uint32_t seed,
                                const OnProgress& on_progress) {
  if (task.raw) {
    return Error{ErrorCode::kInvalidArgument, "examples are turns of a chat, and task \"" +
                                                  task.name + "\" uses no chat template"};
  }
  // Examples come from the first half of each label's texts, the other half judges them: all sets
  // by the same texts. Of the first half the shorter half, since an example takes its tokens from
  // every text's context.
  std::vector<std::vector<std::size_t>> by_label(task.labels.size());
  for (std::size_t i = 0; i < texts.size(); ++i) by_label[texts[i].label].push_back(i);
  std::size_t least = texts.size();
  std::vector<std::size_t> judge_rows;
  for (std::vector<std::size_t>& of_label : by_label) {
    least = std::min(least, of_label.size());
    const auto half = of_label.begin() + static_cast<std::ptrdiff_t>((of_label.size() + 1) / 2);
    judge_rows.insert(judge_rows.end(), half, of_label.end());
    of_label.erase(half, of_label.end());
    std::stable_sort(of_label.begin(), of_label.end(), [&](std::size_t a, std::size_t b) {
      return texts[a].text.size() < texts[b].text.size();
    });
    of_label.resize((of_label.size() + 1) / 2);
  }
  if (least < kLeastFewShotRows) {
    return Error{ErrorCode::kInvalidArgument, "to choose examples every label needs at least " +
                                                  std::to_string(kLeastFewShotRows) +
                                                  " rows; one has " + std::to_string(least)};
  }
  std::sort(judge_rows.begin(), judge_rows.end());
  if (judge_rows.size() > kMostJudges) judge_rows.resize(kMostJudges);
  std::mt19937 random(seed);
  std::optional<FewShot> best;
  double least_loss = 0;
  std::size_t n_done = 0;
  std::vector<std::int64_t> no_layers;
  for (const std::size_t n_per_label : kShots) {
    if (4 * n_per_label > least) break;  // there is nothing left to choose from
    for (std::size_t set = 0; set < kSetsPerShots; ++set) {
      FewShot candidate{examples_of(texts, by_label, n_per_label, random), {}};
      MUNIA_ASSIGN_OR_RETURN(const Classifier classifier,
                             Classifier::create(engine, with_few_shot(task, candidate)));
      std::vector<LabelledText> judges;
      for (const std::size_t row : judge_rows) {
        if (classifier.check(texts[row].text)) judges.push_back(texts[row]);
      }
      if (judges.empty()) continue;
      MUNIA_ASSIGN_OR_RETURN(const LearningRows rows,
                             read_rows(engine, classifier, judges, no_layers, [&](std::size_t n) {
                               if (on_progress) on_progress(n_done + n);
                             }));
      n_done += judges.size();
      candidate.calibration = learn_prior(rows);
      // A text that does not fit behind the examples counts as one that nothing is known of.
      const double n_unfit = static_cast<double>(judge_rows.size() - judges.size());
      const double n_fit = static_cast<double>(judges.size());
      const double loss = (n_fit * mean_loss(rows, candidate.calibration) +
                           n_unfit * std::log(static_cast<double>(rows.n_labels))) /
                          (n_fit + n_unfit);
      if (best && loss >= least_loss) continue;
      best = std::move(candidate);
      least_loss = loss;
    }
  }
  if (best) return *std::move(best);
  return Error{ErrorCode::kInvalidArgument, "with examples in the prompt no text fits the context"};
}

Task with_learned(Task task, const Learned& learned) {
  task.calibration = learned.calibration;
  task.head = learned.head;
  task.method = learned.head ? Method::kHead : Method::kScore;
  return task;
}

Task with_few_shot(Task task, const FewShot& few_shot) {
  task.calibration = few_shot.calibration;
  task.head = nullptr;
  task.method = Method::kScore;
  task.examples = few_shot.examples;
  return task;
}

}  // namespace munia::tasks
