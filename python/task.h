// Tasks as Python values, and the calls of a model that use them.
#pragma once

#include <nanobind/nanobind.h>

#include "python/core.h"

namespace munia::python {

/// Python's munia.Task: immutable, shared with the classifiers that were made of it.
struct PyTask {
  TaskPtr task;
};

void define_task(nanobind::module_& module);

}  // namespace munia::python
