// The calls of a model that label texts: classify, predict, learn.
#include <nanobind/stl/string.h>

#include <chrono>
#include <optional>
#include <utility>

#include "python/model.h"
#include "tasks/bulk.h"
#include "tasks/fit.h"
#include "tasks/learn.h"

namespace munia::python {
namespace {

namespace nb = nanobind;

constexpr std::size_t kMostRows = 10'000;  // to learn from, as munia fit

nb::object optional_text(const std::optional<std::string>& text) {
  return text ? nb::object(nb::str(text->data(), text->size())) : nb::none();
}

nb::tuple labelled_tuple(const tasks::Classification& result, std::size_t n_pieces,
                         bool truncated) {
  nb::object probabilities = nb::none();
  if (!result.probabilities.empty()) {
    nb::dict by_label;
    for (const auto& [label, p] : result.probabilities) {
      by_label[nb::str(label.data(), label.size())] = p;
    }
    probabilities = by_label;
  }
  return nb::make_tuple(optional_text(result.label), result.confidence, probabilities,
                        nb::str(result.raw.data(), result.raw.size()), result.emoji,
                        result.usage.prompt_tokens, result.usage.cached_tokens,
                        result.usage.completion_tokens, n_pieces, truncated);
}

Error of_text(std::size_t i, const Error& error) {
  return {error.code, "text " + std::to_string(i + 1) + ": " + error.message};
}

tasks::LongTexts long_texts_named(const std::string& name) {
  if (name == "error") return tasks::LongTexts::kError;
  if (name == "truncate") return tasks::LongTexts::kTruncate;
  if (name == "window") return tasks::LongTexts::kWindow;
  raise_value_error("long_texts is \"" + name +
                    "\"; it must be \"error\", \"truncate\" or \"window\"");
}

tasks::Recipe recipe_named(const std::string& name) {
  for (const tasks::Recipe recipe : {tasks::Recipe::kZeroShot, tasks::Recipe::kPrior,
                                     tasks::Recipe::kThreshold, tasks::Recipe::kHead}) {
    if (tasks::recipe_name(recipe) == name) return recipe;
  }
  raise_value_error("recipe is \"" + name +
                    "\"; it must be \"head\", \"prior\", \"threshold\" or \"zero-shot\"");
}

/// The text itself is wrong (empty, too long), so that others can still be labelled.
bool is_of_text(const Error& error) {
  return error.code == ErrorCode::kInvalidData || error.code == ErrorCode::kLimit;
}

using TextOutcome = Result<tasks::BulkOutcome>;

/// Outcomes of all texts. Errors: of the first wrong text, unless `keep_errors`; of the engine.
/// Without the GIL.
Result<std::vector<TextOutcome>> classify_all(const tasks::Classifier& classifier,
                                              const tasks::BulkOptions& options,
                                              std::vector<std::string> texts, bool keep_errors) {
  std::vector<TextOutcome> outcomes;
  outcomes.reserve(texts.size());
  tasks::BulkClassifier bulk(classifier, options);
  std::size_t n_added = 0;
  while (outcomes.size() < texts.size()) {
    while (n_added < texts.size() && bulk.has_room()) bulk.add(std::move(texts[n_added++]));
    TextOutcome outcome = bulk.take();
    if (!outcome && !(keep_errors && is_of_text(outcome.error()))) {
      return of_text(outcomes.size(), outcome.error());
    }
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

}  // namespace

ClassifierPtr PyModel::prepare(Call& call, const TaskPtr& task) const {
  std::optional<Result<ClassifierPtr>> made;
  {
    const nb::gil_scoped_release release;
    made.emplace(call->classifier(task));
  }
  return call.take(*std::move(made));
}

nb::list PyModel::classify(nb::handle texts, const TaskPtr& task, const std::string& long_texts,
                           bool keep_errors) const {
  tasks::BulkOptions options;
  options.long_texts = long_texts_named(long_texts);
  if (options.long_texts == tasks::LongTexts::kWindow && task->method == tasks::Method::kGenerate) {
    raise_value_error("long_texts=\"window\" needs probabilities, and task \"" + task->name +
                      "\" has none (its method is generate); use \"truncate\"");
  }
  std::vector<std::string> list = texts_of(texts, "text");
  Call call(*core_);
  const ClassifierPtr classifier = prepare(call, task);
  options.before_wait = call.before_wait();
  std::optional<Result<std::vector<TextOutcome>>> outcomes;
  {
    const nb::gil_scoped_release release;
    outcomes.emplace(classify_all(*classifier, options, std::move(list), keep_errors));
  }
  nb::list labelled;
  for (const TextOutcome& outcome : call.take(*std::move(outcomes))) {
    if (outcome) {
      labelled.append(
          labelled_tuple(outcome->classification, outcome->n_pieces, outcome->truncated));
    } else {
      const std::string& message = outcome.error().message;
      labelled.append(nb::str(message.data(), message.size()));
    }
  }
  return labelled;
}

nb::tuple PyModel::predict(nb::handle text, const TaskPtr& task, const ReplySettings& settings,
                           bool reply, const std::string& prompt_form) const {
  if (prompt_form != "separate" && prompt_form != "shared") {
    raise_value_error("prompt is \"" + prompt_form + "\"; it must be \"separate\" or \"shared\"");
  }
  const std::string bytes = text_of(text, "the text");
  Call call(*core_);
  const ClassifierPtr classifier = prepare(call, task);
  tasks::PredictOptions options;
  options.max_tokens = settings.max_tokens;
  options.min_tokens = settings.min_tokens;
  options.beams = settings.beams;
  options.sampling = settings.sampling;
  options.stops = settings.stops;
  options.reply = reply;
  if (prompt_form == "shared") options.prompt = tasks::PromptForm::kShared;
  options.before_wait = call.before_wait();
  std::optional<Result<tasks::Prediction>> result;
  {
    const nb::gil_scoped_release release;
    result.emplace(tasks::predict(call->engine, *classifier, bytes, options));
  }
  const tasks::Prediction done = call.take(*std::move(result));
  return nb::make_tuple(labelled_tuple(done.emotion, 1, false), optional_text(done.reply),
                        done.finish_reason, done.usage.prompt_tokens, done.usage.cached_tokens,
                        done.usage.completion_tokens, done.emotion_ms, done.first_token_ms,
                        done.total_ms);
}

TaskPtr PyModel::learn(nb::handle texts, const std::vector<std::int64_t>& labels,
                       const TaskPtr& task, const std::string& recipe_text) const {
  const tasks::Recipe recipe = recipe_named(recipe_text);
  std::vector<std::string> list = texts_of(texts, "text");
  if (list.size() != labels.size()) {
    raise_value_error("there are " + std::to_string(list.size()) + " texts and " +
                      std::to_string(labels.size()) + " labels; each text needs one");
  }
  if (list.size() > kMostRows) {
    raise_value_error("there are " + std::to_string(list.size()) +
                      " texts; a head is learned from at most " + std::to_string(kMostRows));
  }
  std::vector<tasks::LabelledText> rows;
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (labels[i] < 0 || static_cast<std::size_t>(labels[i]) >= task->labels.size()) {
      raise_value_error("label " + std::to_string(labels[i]) + " of text " + std::to_string(i + 1) +
                        " is outside 0 to " + std::to_string(task->labels.size() - 1));
    }
    rows.push_back({std::move(list[i]), static_cast<std::size_t>(labels[i])});
    wanted.push_back(rows.back().label);
  }
  // As munia fit: from what the labels' texts score, whatever the task had learned before.
  tasks::Task plain = *task;
  plain.examples.clear();
  plain.calibration = {};
  plain.head = nullptr;
  plain.method = tasks::Method::kScore;
  Call call(*core_);
  std::optional<Result<tasks::Task>> learned;
  {
    const nb::gil_scoped_release release;
    learned.emplace([&]() -> Result<tasks::Task> {
      MUNIA_ASSIGN_OR_RETURN(const tasks::Classifier classifier,
                             tasks::Classifier::create(call->engine, plain));
      const auto layers = tasks::learning_layers(call->bundle->model->config().n_layers);
      MUNIA_ASSIGN_OR_RETURN(
          const tasks::LearningRows read,
          tasks::read_rows(call->engine, classifier, rows, layers, {}, call.before_wait()));
      const auto picked = tasks::shuffled_evenly(wanted, plain.labels.size(), tasks::kShuffleSeed);
      ThreadPool::Options pool_options;
      pool_options.n_threads = call->n_threads;
      ThreadPool pool(pool_options);
      MUNIA_ASSIGN_OR_RETURN(const tasks::Learned what, tasks::learn(recipe, read, picked, pool));
      return tasks::with_learned(std::move(plain), what);
    }());
  }
  return std::make_shared<const tasks::Task>(call.take(*std::move(learned)));
}

}  // namespace munia::python
