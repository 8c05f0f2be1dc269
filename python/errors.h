// munia's errors as Python's own exceptions. Called with the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "base/error.h"

namespace munia::python {

/// munia.ModelError, made by the module; a RuntimeError.
void define_model_error(nanobind::module_& module);

[[noreturn]] void raise_value_error(const std::string& message);
[[noreturn]] void raise_type_error(const std::string& message);
[[noreturn]] void raise_model_error(const std::string& message);

/// Wrong input and limits: ValueError; no such file: FileNotFoundError; the system refused:
/// OSError; anything else: ModelError.
[[noreturn]] void raise(const Error& error);
/// The same while a model is loaded, where a broken file is a ModelError.
[[noreturn]] void raise_load_error(const LoadError& error);

template <class T>
T take(Result<T> result) {
  if (!result) raise(result.error());
  return *std::move(result);
}

}  // namespace munia::python
