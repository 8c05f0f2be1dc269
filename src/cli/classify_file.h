// munia classify -i FILE: the labels of every row of a file, in the order of the rows.
#pragma once

#include <string>

#include "cli/classify_plan.h"

namespace munia::cli {

/// Status 0; 4 when rows were rejected and `options.rejects` names no file for them. Fails with
/// status 2 at options that contradict each other, 3 at an input that can't be opened, 4 at one
/// whose beginning is wrong, 130 at Ctrl-C.
ExitStatus classify_file(const Context& context, const std::string& input,
                         const FileOptions& options, const TaskOptions& task);

}  // namespace munia::cli
