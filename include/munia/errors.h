/// Errors of munia's C++ interface. Every function that can fail throws one of these; the message
/// is one sentence: what was wrong, which value, which limit, what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace munia {

/// Base of all errors that munia throws.
class Exception : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A model cannot be loaded: a file is missing, broken, or of a kind that munia does not compute.
class ModelLoadError : public Exception {
 public:
  using Exception::Exception;
};

/// A request is wrong: an empty or too long text, a parameter out of range, an unknown task.
class RequestError : public Exception {
 public:
  using Exception::Exception;
};

/// A request was cancelled, by Generation::cancel() or because its model went away.
class Cancelled : public Exception {
 public:
  using Exception::Exception;
};

/// A request failed for another reason: memory, a full queue.
class RuntimeFailure : public Exception {
 public:
  using Exception::Exception;
};

}  // namespace munia
