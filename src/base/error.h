// The three kinds of failure (CONTRIBUTING.md, "Errors"):
//   bad input               -> Result<T> / Status with a code and one clear sentence;
//   cannot start            -> LoadError, thrown while loading, caught at the edges
//                              (command line, Python, server);
//   a mistake in this code  -> MUNIA_CHECK, which no byte from a user may reach.
// First room of the flow; knows nothing of models or text.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace munia {

enum class ErrorCode {
  kInvalidArgument,  // a request or flag is wrong (exit 2, HTTP 400)
  kInvalidData,      // input data or a file's content is wrong (exit 4 or 3)
  kNotFound,         // a file or name does not exist
  kUnsupported,      // well-formed, but not something munia does
  kIo,               // the system refused a read or write
  kLimit,            // a limit was passed: context, memory
  kCancelled,        // the caller went away or asked to stop
  kDeadline,         // the request's time ran out
  kUnavailable,      // not ready, full, or shutting down
};

/// What went wrong: says what, which value, which limit, what to do, in one sentence.
struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message;
};

/// Thrown when a program part cannot start: a model, tokenizer or configuration cannot be loaded.
class LoadError : public std::runtime_error {
 public:
  explicit LoadError(const Error& error) : std::runtime_error(error.message), code_(error.code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

/// A value or an Error. `if (!result) return result.error();`
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Error& error() const { return std::get<1>(state_); }

  /// The value, or throws LoadError: for code that loads.
  T value_or_throw() && {
    if (!ok()) throw LoadError(error());
    return std::get<0>(std::move(state_));
  }
  T value_or_throw() const& {
    if (!ok()) throw LoadError(error());
    return std::get<0>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

/// Success or an Error. `return {};` is success.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT: implicit
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }
  void throw_if_error() const {
    if (error_) throw LoadError(*error_);
  }

 private:
  std::optional<Error> error_;
};

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace munia

/// Asserts something that only a mistake in munia's own code can break.
#define MUNIA_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::munia::check_failed(#condition, __FILE_NAME__, __LINE__))

#define MUNIA_CONCAT_INNER(a, b) a##b
#define MUNIA_CONCAT(a, b) MUNIA_CONCAT_INNER(a, b)
/// `MUNIA_ASSIGN_OR_RETURN(auto x, f());` binds f()'s value or returns its Error.
#define MUNIA_ASSIGN_OR_RETURN(target, expression) \
  MUNIA_ASSIGN_OR_RETURN_IMPL(MUNIA_CONCAT(munia_result_, __LINE__), target, expression)
#define MUNIA_ASSIGN_OR_RETURN_IMPL(result, target, expression) \
  auto result = (expression);                                   \
  if (!result) return result.error();                           \
  target = *std::move(result)
#define MUNIA_RETURN_IF_ERROR(expression)                  \
  do {                                                     \
    if (auto munia_status = (expression); !munia_status) { \
      return munia_status.error();                         \
    }                                                      \
  } while (false)
