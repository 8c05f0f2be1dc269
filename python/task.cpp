#include "python/task.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/errors.h"
#include "python/values.h"
#include "tasks/task_file.h"

namespace munia::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

PyTask made(Result<tasks::Task> task) {
  return {std::make_shared<const tasks::Task>(take(std::move(task)))};
}

PyTask task_of_labels(nb::handle labels, nb::handle system) {
  std::optional<std::string> text;
  if (!system.is_none()) text = text_of(system, "system");
  return made(tasks::task_from_labels(texts_of(labels, "label"), text));
}

std::vector<std::string> label_names(const PyTask& self) {
  std::vector<std::string> names;
  for (const tasks::Label& label : self.task->labels) names.push_back(label.name);
  return names;
}

const char* method_name(const PyTask& self) {
  switch (self.task->method) {
    case tasks::Method::kScore:
      return "score";
    case tasks::Method::kGenerate:
      return "generate";
    case tasks::Method::kHead:
      return "head";
  }
  return "";
}

nb::list head_layers(const PyTask& self) {
  nb::list layers;
  if (self.task->head == nullptr) return layers;
  for (const std::int64_t layer : self.task->head->layers) layers.append(nb::int_(layer));
  return layers;
}

void save(const PyTask& self, nb::handle path, nb::handle name) {
  tasks::Task task = *self.task;
  if (!name.is_none()) task.name = text_of(name, "name");
  const Status status = tasks::save_task(task, text_of(path, "path"), "");
  if (!status) raise(status.error());
}

}  // namespace

void define_task(nb::module_& module) {
  nb::class_<PyTask>(module, "Task")
      .def_static(
          "find", [](nb::handle name) { return made(tasks::find_task(text_of(name, "task"))); },
          "name"_a)
      .def_static("from_labels", &task_of_labels, "labels"_a, "system"_a.none())
      .def_prop_ro("name", [](const PyTask& self) { return self.task->name; })
      .def_prop_ro("labels", &label_names)
      .def_prop_ro("method", &method_name)
      .def_prop_ro("head_layers", &head_layers)
      .def("save", &save, "path"_a, "name"_a.none());
}

}  // namespace munia::python
