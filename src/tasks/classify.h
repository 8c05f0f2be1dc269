// Emotion of texts by scoring (or decoding) labels, and predict: emotion and reply in one call.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "decode/labels.h"
#include "engine/engine.h"
#include "tasks/task.h"

namespace munia::tasks {

struct Classification {
  std::optional<std::string> label;  // empty when method generate matched none
  std::string emoji;
  double confidence = 0;  // the label's probability; 0 with method generate
  std::vector<std::pair<std::string, double>> probabilities;  // in the task's order; empty with
                                                              // method generate
  std::string raw;                                            // the decoded text of method generate
  engine::Usage usage;
  engine::Timings timings;
};

/// Called before a job is waited for, by callers that may be interrupted: blocks until it has
/// ended, or cancels it.
using BeforeWait = std::function<void(engine::Ticket&)>;

/// How the model is asked for the emotion.
enum class PromptForm {
  kSeparate,  // the task's own prompt
  kShared,    // the reply's prompt, with the task's question behind the text: predict computes the
              // text once for both
};

/// A task prepared for one model: label tokens and their tree, made once. What its prompts begin
/// with stays in the engine's prefix cache as long as a Classifier (or a copy of it) lives.
class Classifier {
 public:
  /// Errors: a label without tokens, a model without chat template, …
  static Result<Classifier> create(engine::Engine& engine, Task task);

  const Task& task() const { return task_; }
  /// Labels for each text, in order; texts are computed in batches. The Error of a text (empty, too
  /// long for the context: both numbers) stands in its own place.
  std::vector<Result<Classification>> classify(const std::vector<std::string>& texts) const;
  /// One text, submitted at once; finish() it later. For predict and servers.
  Result<std::shared_ptr<engine::Ticket>> submit(
      std::string_view text, engine::Priority priority = engine::Priority::kInteractive) const;
  Result<Classification> finish(engine::Ticket& ticket) const;
  /// What submit() would refuse the text for; kLimit when it is too long for the context.
  Status check(std::string_view text) const;
  /// The same job for learning from: what the labels' texts score, and hidden states of `layers`.
  Result<engine::ScoreJob> features_job(std::string_view text,
                                        std::vector<std::int64_t> layers) const;
  /// What a job of the score or features kind says of the labels.
  decode::LabelScores label_scores(const engine::ScoreResult& scored) const;
  /// The job of submit(), for submitting it together with others.
  Result<engine::Job> job(std::string_view text, PromptForm form = PromptForm::kSeparate) const;
  /// The ids that the model is asked with.
  Result<std::vector<std::int32_t>> prompt_ids(std::string_view text,
                                               PromptForm form = PromptForm::kSeparate) const;

 private:
  Classifier(engine::Engine& engine, Task task) : engine_(&engine), task_(std::move(task)) {}
  Status check_head() const;
  void pin_instruction();
  Status compute_instruction();
  void add_continuations(engine::ScoreJob& job) const;
  engine::Features features(std::span<const std::int32_t> prompt,
                            std::vector<std::int64_t> layers) const;
  engine::Engine* engine_;
  Task task_;
  std::vector<decode::LabelTokens> label_tokens_;  // [n_labels]
  engine::PinnedPrefix prefix_;                    // what every prompt begins with; may be null
  std::size_t n_suffix_ = 0;                       // tokens that every prompt ends with
};

struct PredictOptions {
  std::int64_t max_tokens = 128;
  std::int64_t min_tokens = 0;
  decode::SamplingParams sampling;  // greedy by default
  std::vector<std::string> stops;
  decode::BeamParams beams;  // of the reply; on_text then gets it whole
  bool reply = true;
  PromptForm prompt = PromptForm::kSeparate;  // kShared: one computation of the text for both jobs;
                                              // needs a chat template
  /// Called with each job as it is submitted, so that the caller can cancel it.
  std::function<void(const std::shared_ptr<engine::Ticket>&)> on_submit;
  BeforeWait before_wait;
  /// Called once, as soon as the emotion is known (from the calling thread).
  std::function<void(const Classification&)> on_emotion;
  /// Called with each piece of the reply, after on_emotion (from the engine thread).
  std::function<void(std::string_view)> on_text;
};
struct Prediction {
  Classification emotion;
  std::optional<std::string> reply;
  std::string finish_reason;  // of the reply
  engine::Usage usage;        // both prompts
  double emotion_ms = 0;
  double first_token_ms = 0;
  double total_ms = 0;
};
/// Emotion and reply of one text; both prompts are computed in the same batches.
Result<Prediction> predict(engine::Engine& engine, const Classifier& classifier,
                           std::string_view text, const PredictOptions& options);

}  // namespace munia::tasks
