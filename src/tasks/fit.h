// The model's part of munia fit: one pass over labelled texts, and the choice of examples that the
// prompt shows. What is learned from the pass: learn.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "tasks/classify.h"
#include "tasks/learn.h"

namespace munia::tasks {

struct LabelledText {
  std::string text;
  std::size_t label = 0;  // its place in the task's labels
};

/// Called with the number of texts that are done.
using OnProgress = std::function<void(std::size_t n_done)>;

/// The layers of a model that heads are learned from: half way, two thirds, five sixths. A text
/// that a head labels goes no further through the model than the last layer that the head reads.
std::vector<std::int64_t> learning_layers(std::int64_t n_layers);

/// What the model says of each text, with the hidden states of `layers` (which may be none). An
/// Error names the text by its number; texts that check() refuses are the caller's to leave out.
Result<LearningRows> read_rows(engine::Engine& engine, const Classifier& classifier,
                               std::span<const LabelledText> texts,
                               const std::vector<std::int64_t>& layers,
                               const OnProgress& on_progress = {},
                               const BeforeWait& before_wait = {});

/// Examples in the prompt, with the calibration that belongs to them.
struct FewShot {
  std::vector<Example> examples;
  Calibration calibration;
};
/// The fewest texts of each label to choose from.
inline constexpr std::size_t kLeastFewShotRows = 8;
/// Tries sets of one, two and four examples per label, drawn at random from the shorter texts of
/// the first half, on texts of the second half, and takes the one under which their labels are
/// likeliest after the temperature and prior that are learned there. kInvalidArgument: too few
/// texts.
Result<FewShot> choose_examples(engine::Engine& engine, const Task& task,
                                std::span<const LabelledText> texts, std::uint32_t seed,
                                const OnProgress& on_progress = {});

/// The task with what was learned in place of what it had.
Task with_learned(Task task, const Learned& learned);
Task with_few_shot(Task task, const FewShot& few_shot);

}  // namespace munia::tasks
