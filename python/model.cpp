#include "python/model.h"

#include <boost/json.hpp>
#include <cstring>
#include <utility>

#include "engine/check_job.h"
#include "python/task.h"

namespace munia::python {
namespace {

namespace nb = nanobind;
namespace json = boost::json;

json::object context_of(const std::string& text) {
  json::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) {
    raise_value_error("the messages cannot be read as JSON: " + error.message());
  }
  return std::move(value.get_object());
}

nb::object text_object(const std::string& text) { return nb::str(text.data(), text.size()); }

nb::object ids_object(const Ids& ids) {
  nb::list list;
  for (const std::int32_t id : ids) list.append(nb::int_(id));
  return list;
}

}  // namespace

nb::tuple generated_tuple(const engine::GenerateResult& result) {
  nb::list beams;
  const auto add = [&beams](const engine::GenerateResult& beam) {
    if (!beam.score) return;
    beams.append(nb::make_tuple(text_object(beam.text), ids_object(beam.ids),
                                beam.finish_reason.c_str(), *beam.score));
  };
  add(result);
  for (const engine::GenerateResult& other : result.others) add(other);
  return nb::make_tuple(text_object(result.text), ids_object(result.ids),
                        result.finish_reason.c_str(), result.usage.prompt_tokens,
                        result.usage.cached_tokens, result.usage.completion_tokens,
                        result.timings.first_token_ms, result.timings.total_ms, beams);
}

nb::dict PyModel::info() const {
  const Call call(*core_);
  const model::Model& model = *call->bundle->model;
  nb::dict info;
  info["name"] = text_object(call->bundle->name);
  info["architecture"] = text_object(model.config().architecture);
  info["weights"] = text_object(model.weights().types);
  info["isa"] = text_object(std::string(model.kernels().name));
  info["n_layers"] = model.config().n_layers;
  info["hidden_dim"] = model.config().hidden_dim;
  info["vocab_size"] = model.config().vocab_size;
  info["context"] = model.context();
  info["threads"] = call->n_threads;
  info["weight_bytes"] = model.weights().size_bytes;
  info["load_seconds"] = call->bundle->load_seconds;
  return info;
}

Ids PyModel::tokenize(nb::handle text, bool special) const {
  const std::string bytes = text_of(text, "the text");
  Call call(*core_);
  return call.take(call->bundle->plain_ids(bytes, special));
}

std::string PyModel::detokenize(nb::handle ids, bool skip_special) const {
  const Ids list = ids_of(ids, "ids");
  const Call call(*core_);
  const text::Tokenizer& tokenizer = *call->bundle->tokenizer;
  for (const std::int32_t id : list) {
    if (id < tokenizer.vocab_size()) continue;
    raise_value_error("id " + std::to_string(id) + " is outside the vocabulary (0 to " +
                      std::to_string(tokenizer.vocab_size() - 1) + ")");
  }
  return tokenizer.decode(list, skip_special);
}

nb::tuple PyModel::render(nb::handle context) const {
  const json::object object = context_of(text_of(context, "the conversation"));
  Call call(*core_);
  const text::MarkedText marked = call.take(call->bundle->render(object));
  return nb::make_tuple(text_object(marked.bytes),
                        ids_object(call.take(call->bundle->tokenizer->encode(marked))));
}

nb::tuple PyModel::generate(nb::handle prompt, const ReplySettings& settings, bool special) const {
  Call call(*core_);
  engine::GenerateJob job = settings.job(prompt_of(prompt, *call->bundle, special));
  return generated_tuple(run_job<engine::GenerateResult>(call, std::move(job)));
}

std::unique_ptr<Stream> PyModel::stream(nb::handle prompt, const ReplySettings& settings,
                                        bool special) const {
  const Call call(*core_);
  return std::make_unique<Stream>(core_, settings.job(prompt_of(prompt, *call->bundle, special)));
}

Array<double, 1> PyModel::score(nb::handle prompt, nb::handle continuations, bool special) const {
  Call call(*core_);
  engine::ScoreJob job;
  job.prompt = prompt_of(prompt, *call->bundle, special);
  const text::Tokenizer& tokenizer = *call->bundle->tokenizer;
  for (const nb::handle item : nb::iter(continuations)) {
    const std::string what = "continuation " + std::to_string(job.continuations.size() + 1);
    Ids ids;
    if (PyUnicode_Check(item.ptr())) {
      const std::string text = text_of(item, what);
      ids = take(special ? tokenizer.encode_with_special(text) : tokenizer.encode(text));
    } else {
      ids = ids_of(item, what);
    }
    if (ids.empty()) raise_value_error(what + " is empty");
    job.continuations.push_back(std::move(ids));
  }
  return array_of(run_job<engine::ScoreResult>(call, std::move(job)).logprobs);
}

Array<float, 1> PyModel::logits(nb::handle prompt, bool special) const {
  Call call(*core_);
  engine::LogitsJob job;
  job.prompt = prompt_of(prompt, *call->bundle, special);
  std::vector<float> row;
  job.on_row = [&row](std::int64_t, std::span<const float> logits) {
    row.assign(logits.begin(), logits.end());
  };
  run_job<engine::LogitsResult>(call, std::move(job));
  return array_of(std::move(row));
}

Array<float, 2> PyModel::all_logits(nb::handle prompt, bool special) const {
  Call call(*core_);
  engine::LogitsJob job;
  job.prompt = prompt_of(prompt, *call->bundle, special);
  job.all_rows = true;
  const std::size_t n_rows = job.prompt.size();
  std::vector<float> rows;
  job.on_row = [&rows](std::int64_t, std::span<const float> logits) {
    rows.insert(rows.end(), logits.begin(), logits.end());
  };
  engine::Job checked = std::move(job);
  if (const Status status = engine::check_job(checked, *call->bundle); !status) {
    raise(status.error());  // before memory for its rows is taken
  }
  rows.reserve(n_rows * static_cast<std::size_t>(call->bundle->model->config().vocab_size));
  run_job<engine::LogitsResult>(call, std::move(checked));
  return matrix_of(std::move(rows), n_rows);
}

nb::list PyModel::hidden(nb::handle prompt, const std::vector<std::int64_t>& layers,
                         bool special) const {
  Call call(*core_);
  engine::LogitsJob job;
  job.prompt = prompt_of(prompt, *call->bundle, special);
  job.tap_layers = layers;
  const std::size_t n_rows = job.prompt.size();
  auto result = run_job<engine::LogitsResult>(call, std::move(job));
  nb::list list;
  for (std::vector<float>& states : result.hidden) {
    list.append(nb::cast(matrix_of(std::move(states), n_rows)));
  }
  return list;
}

}  // namespace munia::python
