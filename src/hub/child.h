// Runs a program as a child process: an argument vector, no shell. Private to this room.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace munia::hub {

struct ChildRequest {
  std::vector<std::string> arguments;    // [0] is the program, looked up in PATH
  std::vector<std::string> environment;  // "NAME=value", over the caller's own environment
};

struct ChildResult {
  bool started = false;  // false: there is no such program
  int exit_status = -1;  // 128 + signal when a signal ended it
  std::string output;    // the last bytes of standard output and error, as one
};

/// Waits for the end of the child. `tick` is called about ten times a second; when it returns true
/// the child is stopped and the Error is kCancelled.
Result<ChildResult> run_child(const ChildRequest& request, const std::function<bool()>& tick);

}  // namespace munia::hub
