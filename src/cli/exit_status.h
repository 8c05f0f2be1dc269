// How a command ends: the exit status that scripts rely on, and the one exception that carries a
// status and a sentence to main. Library errors are turned into it here and nowhere else.
#pragma once

#include <stdexcept>
#include <string>

#include "base/error.h"

namespace munia::cli {

enum class ExitStatus : int {
  kDone = 0,
  kFailed = 1,         // while running
  kUsage = 2,          // the command line, a setting
  kCannotLoad = 3,     // a model or file
  kBadInput = 4,       // input data
  kInterrupted = 130,  // Ctrl-C
};

class CommandFailure : public std::runtime_error {
 public:
  CommandFailure(ExitStatus status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  ExitStatus status() const { return status_; }

 private:
  ExitStatus status_;
};

[[noreturn]] inline void fail(ExitStatus status, const std::string& message) {
  throw CommandFailure(status, message);
}

/// The status of an error that a request caused: wrong input, or a failure of the run.
inline ExitStatus request_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kInvalidData:
    case ErrorCode::kLimit:
      return ExitStatus::kBadInput;
    case ErrorCode::kCancelled:
      return ExitStatus::kInterrupted;
    default:
      return ExitStatus::kFailed;
  }
}

/// The value, or the request's error as a failure; `where` ("line 3: ") stands before its message.
template <class T>
T value_or_fail(Result<T> result, const std::string& where = "") {
  if (!result) {
    fail(request_status(result.error().code), where + result.error().message);
  }
  return *std::move(result);
}

}  // namespace munia::cli
