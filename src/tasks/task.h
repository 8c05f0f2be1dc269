// A task: a label set and the way to ask the model for it. Built in: the articles' prompts, word
// for word; others by file (TOML) or from a list of labels.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace munia::tasks {

struct Label {
  std::string name;                // shown
  std::vector<std::string> texts;  // scored; their probabilities are added
  std::string emoji;               // may be empty
};

enum class Method { kScore, kGenerate };

struct Task {
  std::string name;
  std::vector<Label> labels;
  std::optional<std::string> system;  // system message; none: the template's own default applies
  std::string user_template;          // with {text}
  bool raw = false;          // true: system + user_template as plain text, no chat template
  std::string reply_system;  // system message of predict's reply
  std::string question;      // behind the text, in predict's shared prompt
  Method method = Method::kScore;
};

/// "sentiment", "sentiment-raw", "sentiment-3"; another name is an Error that lists them.
Result<Task> builtin_task(std::string_view name);
std::vector<std::string> builtin_task_names();
/// A task from labels given by the user, at least two, distinct; without `system`, prompt A's
/// wording with these labels.
Result<Task> task_from_labels(const std::vector<std::string>& labels,
                              const std::optional<std::string>& system);
/// Reads a task file; Errors name file, line and key.
Result<Task> load_task_file(const std::string& path);
/// A built-in name, or else a file.
Result<Task> find_task(const std::string& name_or_path);

}  // namespace munia::tasks
