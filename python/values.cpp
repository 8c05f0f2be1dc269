#include "python/values.h"

#include <limits>

#include "python/errors.h"

namespace munia::python {
namespace {

namespace nb = nanobind;

std::string kind_of(nb::handle value) { return nb::str(nb::inst_name(value)).c_str(); }

std::int32_t id_of(nb::handle value, const std::string& what) {
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) {
    PyErr_Clear();
    raise_type_error(what + " must hold integers, not " + kind_of(value));
  }
  int overflow = 0;
  const long long id = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0 || id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
    raise_value_error(what + " holds " + nb::str(number).c_str() +
                      ", which is no token id: ids count from 0");
  }
  return static_cast<std::int32_t>(id);
}

}  // namespace

std::string text_of(nb::handle value, const std::string& what) {
  if (!PyUnicode_Check(value.ptr())) {
    raise_type_error(what + " must be str, not " + kind_of(value));
  }
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (text == nullptr) throw nb::python_error();
  return {text, static_cast<std::size_t>(size)};
}

std::vector<std::string> texts_of(nb::handle values, const std::string& what) {
  std::vector<std::string> texts;
  for (const nb::handle value : nb::iter(values)) {
    texts.push_back(text_of(value, what + " " + std::to_string(texts.size() + 1)));
  }
  return texts;
}

Ids ids_of(nb::handle value, const std::string& what) {
  if (PyBytes_Check(value.ptr()) || PyByteArray_Check(value.ptr())) {
    raise_type_error(what + " must be a list or an array of ids, not " + kind_of(value));
  }
  const nb::object iterator = nb::steal(PyObject_GetIter(value.ptr()));
  if (!iterator.is_valid()) {
    PyErr_Clear();
    raise_type_error(what + " must be a list or an array of ids, not " + kind_of(value));
  }
  Ids ids;
  while (PyObject* const item = PyIter_Next(iterator.ptr())) {
    ids.push_back(id_of(nb::steal(item), what));
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return ids;
}

Ids prompt_of(nb::handle value, const engine::ModelBundle& bundle, bool special) {
  if (!PyUnicode_Check(value.ptr())) return ids_of(value, "the prompt");
  const std::string text = text_of(value, "the prompt");
  if (text.empty()) raise_value_error("the prompt is empty");
  return take(bundle.plain_ids(text, special));
}

}  // namespace munia::python
