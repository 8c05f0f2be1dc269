// A task: a label set and the way to ask the model for it. Built in: the articles' prompts, word
// for word; others by file (TOML) or from a list of labels.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tasks/calibration.h"
#include "tasks/linear_head.h"

namespace munia::tasks {

/// What a template's text stands for.
inline constexpr std::string_view kTextSlot = "{text}";

struct Label {
  std::string name;                // shown
  std::vector<std::string> texts;  // scored; their probabilities are added
  std::string emoji;               // may be empty
};

enum class Method {
  kScore,     // probabilities of the labels' texts
  kGenerate,  // the label that the model writes
  kHead,      // a linear head on hidden states
};

/// A text with its label, shown to the model as a turn before the text that is asked about.
struct Example {
  std::string text;
  std::size_t label = 0;  // its place in Task::labels; the label's first text is the answer
};

struct Task {
  std::string name;
  std::vector<Label> labels;
  std::optional<std::string> system;  // system message; none: the template's own default applies
  std::string user_template;          // with {text}
  bool raw = false;          // true: system + user_template as plain text, no chat template
  std::string reply_system;  // system message of predict's reply
  std::string question;      // behind the text, in predict's shared prompt
  Method method = Method::kScore;
  std::vector<Example> examples;           // not with raw
  Calibration calibration;                 // not with generate
  std::shared_ptr<const LinearHead> head;  // with Method::kHead
};

/// "sentiment", "sentiment-best", "sentiment-raw", "sentiment-3"; another name is an Error that
/// lists them.
Result<Task> builtin_task(std::string_view name);
std::vector<std::string> builtin_task_names();
/// A task from labels given by the user, at least two, distinct; without `system`, prompt A's
/// wording with these labels.
Result<Task> task_from_labels(const std::vector<std::string>& labels,
                              const std::optional<std::string>& system);
/// A built-in name, or else a file (task_file.h).
Result<Task> find_task(const std::string& name_or_path);

/// A task with nothing but the usual template and reply.
Task blank_task();
/// "" for a label whose meaning is not known.
std::string default_emoji(const std::string& label);
/// Task::question where a task has none of its own.
std::string default_question(const std::vector<Label>& labels);
/// At least two labels, named differently, each with a text; `where` begins the message.
Status check_labels(const std::vector<Label>& labels, const std::string& where);

}  // namespace munia::tasks
