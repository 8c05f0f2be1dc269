// What predict, classify and eval share: which task, and the texts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "cli/command_line.h"
#include "cli/context.h"
#include "tasks/classify.h"

namespace munia::cli {

struct TaskOptions {
  std::string task = "sentiment";
  std::string labels;  // comma-separated; empty: the task's
  std::string system;  // empty: the usual wording for these labels
};
void describe_task_options(CommandSpec& spec, TaskOptions& options);

/// Fails with status 2 at an unknown task or bad labels, 3 at a task file that cannot be read.
tasks::Task choose_task(const Context& context, const TaskOptions& options);
/// Fails with status 1 when the model cannot do the task.
tasks::Classifier make_classifier(engine::Engine& engine, tasks::Task task);

struct TextOptions {
  enum Kind { kTexts, kOrFile };
  std::vector<std::string> texts;
  std::string input;  // "-": standard input; a file where the command reads some
};
void describe_text_options(CommandSpec& spec, TextOptions& options,
                           TextOptions::Kind kind = TextOptions::kTexts);

struct InputText {
  std::string text;
  std::string where;  // "line 3: " or "text 1: " for messages; empty for a single argument
};
/// Hands the texts over in groups of at most `group_size`; from a slow standard input a group ends
/// when no more lines are there. Fails with status 2 when there is no text at all.
void for_each_group(const Context& context, const TextOptions& options, std::size_t group_size,
                    const std::function<void(const std::vector<InputText>&)>& body);

/// Fails with status 4 when a text holds nothing.
void check_not_blank(const Context& context, const InputText& text);
/// Fails with status 4 when a text is empty, or too long for the context (with both numbers).
void check_text(const Context& context, const tasks::Classifier& classifier,
                const engine::Engine& engine, const InputText& text,
                tasks::PromptForm form = tasks::PromptForm::kSeparate);

}  // namespace munia::cli
