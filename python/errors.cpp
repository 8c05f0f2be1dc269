#include "python/errors.h"

namespace munia::python {
namespace {

namespace nb = nanobind;

PyObject* model_error = nullptr;  // owned by the module, which is never unloaded

[[noreturn]] void raise_kind(PyObject* kind, const std::string& message) {
  // Messages hold users' texts and files' names, which need not be UTF-8.
  PyObject* const text = PyUnicode_DecodeUTF8(
      message.data(), static_cast<Py_ssize_t>(message.size()), "surrogateescape");
  if (text != nullptr) {
    PyErr_SetObject(kind, text);
    Py_DECREF(text);
  }
  throw nb::python_error();
}

}  // namespace

void define_model_error(nb::module_& module) {
  model_error = PyErr_NewExceptionWithDoc(
      "munia.ModelError",
      "A model cannot be loaded (its files are broken, or of a kind that munia does not compute), "
      "or cannot be used any more: it was closed, or belongs to the parent of a forked process.",
      PyExc_RuntimeError, nullptr);
  if (model_error == nullptr) throw nb::python_error();
  module.attr("ModelError") = nb::handle(model_error);
}

void raise_value_error(const std::string& message) { raise_kind(PyExc_ValueError, message); }
void raise_type_error(const std::string& message) { raise_kind(PyExc_TypeError, message); }
void raise_model_error(const std::string& message) { raise_kind(model_error, message); }

void raise(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kInvalidData:
    case ErrorCode::kUnsupported:
    case ErrorCode::kLimit:
      raise_kind(PyExc_ValueError, error.message);
    case ErrorCode::kNotFound:
      raise_kind(PyExc_FileNotFoundError, error.message);
    case ErrorCode::kIo:
      raise_kind(PyExc_OSError, error.message);
    default:
      raise_kind(model_error, error.message);
  }
}

void raise_load_error(const LoadError& error) {
  const std::string message = error.what();
  switch (error.code()) {
    case ErrorCode::kNotFound:
      raise_kind(PyExc_FileNotFoundError, message);
    case ErrorCode::kInvalidArgument:
      raise_kind(PyExc_ValueError, message);
    case ErrorCode::kIo:
      raise_kind(PyExc_OSError, message);
    default:
      raise_kind(model_error, message);
  }
}

}  // namespace munia::python
