// The extension munia._munia: what munia/*.py stand on. Not for users; its stub is _munia.pyi.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "decode/random.h"
#include "python/model.h"
#include "python/task.h"

namespace munia::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

void define_settings(nb::module_& module) {
  nb::class_<LoadSettings>(module, "LoadSettings")
      .def(nb::init<>())
      .def_rw("weights", &LoadSettings::weights)
      .def_rw("threads", &LoadSettings::threads)
      .def_rw("cpus", &LoadSettings::cpus)
      .def_rw("context", &LoadSettings::context)
      .def_rw("isa", &LoadSettings::isa)
      .def_rw("kv_cache", &LoadSettings::kv_cache)
      .def_rw("map_packed", &LoadSettings::map_packed)
      .def_rw("verify", &LoadSettings::verify)
      .def_rw("max_sequences", &LoadSettings::max_sequences);
  using Sampling = decode::SamplingParams;
  const auto sampling = [](auto Sampling::*member) {
    return [member](const ReplySettings& self) { return self.sampling.*member; };
  };
  const auto set_sampling = [](auto Sampling::*member) {
    using Value = std::remove_reference_t<decltype(std::declval<Sampling>().*member)>;
    return [member](ReplySettings& self, const Value& value) { self.sampling.*member = value; };
  };
  const auto both = [&](nb::class_<ReplySettings>& type, const char* name, auto Sampling::*member) {
    type.def_prop_rw(name, sampling(member), set_sampling(member));
  };
  nb::class_<ReplySettings> reply(module, "ReplySettings");
  reply.def(nb::init<>())
      .def_rw("max_tokens", &ReplySettings::max_tokens)
      .def_rw("min_tokens", &ReplySettings::min_tokens)
      .def_rw("stops", &ReplySettings::stops)
      .def("set_early_stopping", &ReplySettings::set_early_stopping, "name"_a)
      .def("set_json_schema", &ReplySettings::set_json_schema, "schema"_a)
      .def("set_regex", &ReplySettings::set_regex, "pattern"_a)
      .def("set_choice", &ReplySettings::set_choice, "choices"_a);
  using Beams = decode::BeamParams;
  const auto of_beams = [&](const char* name, auto Beams::*member) {
    using Value = std::remove_reference_t<decltype(std::declval<Beams>().*member)>;
    reply.def_prop_rw(
        name, [member](const ReplySettings& self) { return self.beams.*member; },
        [member](ReplySettings& self, Value value) { self.beams.*member = value; });
  };
  of_beams("num_beams", &Beams::num_beams);
  of_beams("num_return_sequences", &Beams::n_returned);
  of_beams("length_penalty", &Beams::length_penalty);
  both(reply, "temperature", &Sampling::temperature);
  both(reply, "top_k", &Sampling::top_k);
  both(reply, "top_p", &Sampling::top_p);
  both(reply, "min_p", &Sampling::min_p);
  both(reply, "seed", &Sampling::seed);
  both(reply, "repetition_penalty", &Sampling::repetition_penalty);
  both(reply, "presence_penalty", &Sampling::presence_penalty);
  both(reply, "frequency_penalty", &Sampling::frequency_penalty);
  both(reply, "logit_bias", &Sampling::logit_bias);
}

void define_stream(nb::module_& module) {
  nb::class_<Stream>(module, "Stream")
      .def("next", &Stream::next, "wait"_a)
      .def("descriptor", &Stream::descriptor)
      .def("cancel", &Stream::cancel)
      .def_prop_ro("ended", &Stream::ended)
      .def_prop_ro("result", [](const Stream& self) -> nb::object {
        if (!self.result()) return nb::none();
        return generated_tuple(*self.result());
      });
}

void define_model(nb::module_& module) {
  nb::class_<PyModel>(module, "Model", nb::is_weak_referenceable())
      .def(nb::init<const nb::bytes&, const LoadSettings&>(), "path"_a, "settings"_a)
      .def("close", &PyModel::close)
      .def_prop_ro("closed", &PyModel::closed)
      .def("info", &PyModel::info)
      .def("tokenize", &PyModel::tokenize, "text"_a, "special"_a)
      .def("detokenize", &PyModel::detokenize, "ids"_a, "skip_special"_a)
      .def("render", &PyModel::render, "context"_a)
      .def("generate", &PyModel::generate, "prompt"_a, "settings"_a, "special"_a)
      .def("stream", &PyModel::stream, "prompt"_a, "settings"_a, "special"_a)
      .def("score", &PyModel::score, "prompt"_a, "continuations"_a, "special"_a)
      .def("logits", &PyModel::logits, "prompt"_a, "special"_a)
      .def("all_logits", &PyModel::all_logits, "prompt"_a, "special"_a)
      .def("hidden", &PyModel::hidden, "prompt"_a, "layers"_a, "special"_a)
      .def(
          "classify",
          [](const PyModel& self, nb::handle texts, const PyTask& task,
             const std::string& long_texts,
             bool keep_errors) { return self.classify(texts, task.task, long_texts, keep_errors); },
          "texts"_a, "task"_a, "long_texts"_a, "keep_errors"_a)
      .def(
          "predict",
          [](const PyModel& self, nb::handle text, const PyTask& task,
             const ReplySettings& settings, bool reply, const std::string& prompt) {
            return self.predict(text, task.task, settings, reply, prompt);
          },
          "text"_a, "task"_a, "settings"_a, "reply"_a, "prompt"_a)
      .def(
          "learn",
          [](const PyModel& self, nb::handle texts, const std::vector<std::int64_t>& labels,
             const PyTask& task, const std::string& recipe) {
            return PyTask{self.learn(texts, labels, task.task, recipe)};
          },
          "texts"_a, "labels"_a, "task"_a, "recipe"_a);
}

}  // namespace
}  // namespace munia::python

NB_MODULE(_munia, module) {
  using namespace munia::python;
  // A process may end while models live; munia/__init__.py closes them at exit.
  nanobind::set_leak_warnings(false);
  module.attr("__version__") = MUNIA_VERSION;
  define_model_error(module);
  define_settings(module);
  define_task(module);
  define_stream(module);
  define_model(module);
  module.def("random_seed", &munia::decode::random_seed);
}
