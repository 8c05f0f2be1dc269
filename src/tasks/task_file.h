// Task files: TOML, by hand or from munia fit. A head stands in a file of its own beside it.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "tasks/task.h"

namespace munia::tasks {

/// Reads a task file, and the head that it names; Errors name file, line and key. A table [fit]
/// says how the task was learned, and is not read.
Result<Task> load_task_file(const std::string& path);

/// The text of a task file. `head_file` names the head's file, for Method::kHead; `record` is TOML
/// for the table [fit], or empty.
std::string task_file_text(const Task& task, const std::string& head_file,
                           const std::string& record);
/// Writes the task file `path` (.toml), and its head, where it has one, beside it as
/// STEM.head.safetensors. Each is written under another name and moved into place, so that it is
/// whole or the old one. kInvalidArgument: not .toml; kIo.
Status save_task(const Task& task, const std::string& path, const std::string& record);
/// A TOML string with its quotes.
std::string toml_string(std::string_view text);

}  // namespace munia::tasks
