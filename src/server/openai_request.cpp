#include "server/openai_request.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <utility>

#include "base/json_value.h"
#include "server/answers.h"
#include "server/constraint_request.h"

namespace munia::server {
namespace {

namespace json = boost::json;

// A client that names a model wants that one: silence would answer with another.
void read_model(BodyReader& body, const LoadedModel& model) {
  const std::optional<std::string> name = body.string("model");
  if (!name || *name == model.id || !body.ok()) return;
  ApiError error;
  error.status = 404;
  error.message = "the model '" + *name + "' is not served here; this server has '" + model.id +
                  "': name that one, or leave \"model\" out";
  error.param = "model";
  error.code = "model_not_found";
  body.reject(std::move(error));
}

/// Refuses fields that would change the answer if they were ignored.
void refuse(BodyReader& body, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const json::value* value = body.find(key);
    if (value == nullptr) continue;
    const bool says_nothing = (value->is_array() && value->get_array().empty()) ||
                              (value->is_bool() && !value->get_bool()) ||
                              (value->is_string() && (view_of(value->get_string()) == "none" ||
                                                      view_of(value->get_string()) == "auto"));
    if (says_nothing) continue;
    body.reject("\"" + std::string(key) + "\" is not supported by this server; leave it out", key,
                "unsupported_parameter");
  }
}

void read_logit_bias(BodyReader& body, std::int64_t vocab_size, decode::SamplingParams& sampling) {
  const json::value* value = body.find("logit_bias");
  if (value == nullptr) return;
  const std::string rule = "\"logit_bias\" must map token ids (0 to " +
                           std::to_string(vocab_size - 1) + ") to numbers from -100 to 100";
  if (!value->is_object()) return body.reject(rule, "logit_bias");
  for (const auto& [key, bias] : value->get_object()) {
    std::int32_t id = -1;
    const char* const end = key.data() + key.size();
    const auto [at, error] = std::from_chars(key.data(), end, id);
    json::error_code not_number;
    const auto number = bias.to_number<double>(not_number);
    if (error != std::errc() || at != end || id < 0 || id >= vocab_size || not_number ||
        !(number >= -100 && number <= 100)) {
      return body.reject(rule, "logit_bias");
    }
    sampling.logit_bias.emplace_back(id, static_cast<float>(number));
  }
}

// What other servers call a beam search is refused, not guessed: there n or best_of may be the
// number of beams.
void read_other_names_of_beams(BodyReader& body, const CompletionRequest& request) {
  if (body.boolean("use_beam_search").value_or(false)) {
    body.reject("\"use_beam_search\" is not supported by this server; give \"num_beams\"",
                "use_beam_search", "unsupported_parameter");
  }
  if (const auto best_of = body.integer("best_of", 1, kMaxChoices);
      best_of && *best_of != request.n) {
    body.reject(
        "\"best_of\" other than \"n\" is not supported; leave it out, or give \"num_beams\"",
        "best_of", "unsupported_parameter");
  }
}

// Once everything is read.
void check_tokens_and_beams(BodyReader& body, const CompletionRequest& request) {
  const engine::GenerateJob& job = request.job;
  if (job.min_tokens > job.max_tokens) {
    body.reject("\"min_tokens\" is " + std::to_string(job.min_tokens) +
                    ", above \"max_tokens\", which is " + std::to_string(job.max_tokens),
                "min_tokens");
  }
  if (!job.beams.enabled()) return;
  if (request.logprobs) {
    body.reject("\"logprobs\" with \"num_beams\" above 1 are not supported; leave one out",
                "logprobs", "unsupported_parameter");
  }
  if (job.constraint) {
    body.reject(
        "a reply held to a format or to choices is not supported with \"num_beams\" above 1; leave "
        "one out",
        "num_beams", "unsupported_parameter");
  }
}

void read_common(BodyReader& body, const LoadedModel& model, CompletionRequest& request) {
  read_model(body, model);
  request.n = body.integer("n", 1, kMaxChoices).value_or(1);
  request.stream = body.boolean("stream").value_or(false);
  if (const json::value* options = body.find("stream_options")) {
    const json::value* usage =
        options->is_object() ? options->get_object().if_contains("include_usage") : nullptr;
    if (!options->is_object() || (usage != nullptr && !usage->is_bool() && !usage->is_null())) {
      body.reject("\"stream_options\" must be an object like {\"include_usage\": true}",
                  "stream_options");
    } else if (usage != nullptr && usage->is_bool()) {
      request.include_usage = request.stream && usage->get_bool();
    }
  }
  request.job.stops = read_stops(body);
  read_sampling(body, request.job.sampling);
  read_logit_bias(body, model.bundle->model->config().vocab_size, request.job.sampling);
  RequestedForm form = read_constraint(body);
  request.job.constraint = std::move(form.grammar);
  request.form_param = std::move(form.param);
  request.job.min_tokens = body.integer("min_tokens", 0, kMostTokens).value_or(0);
  request.job.beams = read_beams(body, request.job.sampling, request.n, request.stream);
  read_other_names_of_beams(body, request);
  request.timeout = read_timeout(body);
}

// Both names of the limit; the smaller wins.
void read_max_tokens(BodyReader& body, std::int64_t least, CompletionRequest& request) {
  constexpr std::int64_t kMost = 1 << 20;
  const auto old_name = body.integer("max_tokens", least, kMost);
  const auto new_name = body.integer("max_completion_tokens", least, kMost);
  request.job.max_tokens = std::min(old_name.value_or(new_name.value_or(kDefaultMaxTokens)),
                                    new_name.value_or(old_name.value_or(kDefaultMaxTokens)));
}

void add_prompt(BodyReader& body, const LoadedModel& model, std::string_view param,
                Result<std::vector<std::int32_t>> ids, CompletionRequest& request) {
  if (!body.ok()) return;
  if (!ids) return body.reject(to_api_error(ids.error(), std::string(param)));
  if (ids->empty()) {
    return body.reject("\"" + std::string(param) + "\" has no tokens; give it some text",
                       std::string(param));
  }
  if (Outcome too_long = Service::check_prompt(model, ids->size(), std::string(param))) {
    return body.reject(*std::move(too_long));
  }
  request.prompts.push_back(*std::move(ids));
}

void read_messages(BodyReader& body, const LoadedModel& model, CompletionRequest& request) {
  const json::value* messages = body.find("messages");
  if (messages == nullptr) return body.reject("\"messages\" is missing", "messages");
  json::object context = render_context(body);
  if (json::array* list = context["messages"].if_array()) {
    for (json::value& message : *list) {  // OpenAI's newer name of the system role
      json::value* role = message.is_object() ? message.get_object().if_contains("role") : nullptr;
      if (role != nullptr && role->is_string() && view_of(role->get_string()) == "developer") {
        *role = "system";
      }
    }
  }
  if (body.ok()) add_prompt(body, model, "messages", model.bundle->render_ids(context), request);
}

void read_prompts(BodyReader& body, const LoadedModel& model, CompletionRequest& request) {
  const json::value* prompt = body.find("prompt");
  const std::string rule =
      "\"prompt\" must be a string, a list of strings, a list of token ids, or a list of such "
      "lists";
  if (prompt == nullptr) return body.reject("\"prompt\" is missing", "prompt");
  const auto add_text = [&](const json::value& text) {
    add_prompt(body, model, "prompt", model.bundle->plain_ids(view_of(text.get_string())), request);
  };
  const auto add_ids = [&](const json::value& list) {
    std::vector<std::int32_t> ids;
    for (const json::value& item : list.get_array()) {
      json::error_code error;
      const auto id = item.is_number() ? item.to_number<std::int32_t>(error) : -1;
      if (error || id < 0 || id >= model.bundle->model->config().vocab_size) {
        return body.reject(rule, "prompt");
      }
      ids.push_back(id);
    }
    add_prompt(body, model, "prompt", std::move(ids), request);
  };
  if (prompt->is_string()) return add_text(*prompt);
  if (!prompt->is_array() || prompt->get_array().empty()) return body.reject(rule, "prompt");
  const json::array& list = prompt->get_array();
  if (list[0].is_number()) return add_ids(*prompt);
  if (static_cast<std::int64_t>(list.size()) > kMaxPrompts) {
    return body.reject("\"prompt\" has " + std::to_string(list.size()) + " prompts; at most " +
                           std::to_string(kMaxPrompts) + " are allowed",
                       "prompt");
  }
  for (const json::value& item : list) {
    if (!body.ok()) return;
    if (item.is_string()) {
      add_text(item);
    } else if (item.is_array()) {
      add_ids(item);
    } else {
      body.reject(rule, "prompt");
    }
  }
}

}  // namespace

engine::GenerateJob CompletionRequest::job_of(std::int64_t choice) const {
  engine::GenerateJob copy = job;
  copy.prompt = prompts[static_cast<std::size_t>(choice / n)];
  copy.sampling.seed += static_cast<std::uint64_t>(choice % n);
  return copy;
}

CompletionRequest read_chat_request(BodyReader& body, const LoadedModel& model) {
  CompletionRequest request;
  read_common(body, model, request);
  read_max_tokens(body, 1, request);
  refuse(body, {"tools", "tool_choice", "functions", "function_call", "audio", "prediction",
                "web_search_options"});
  const bool logprobs = body.boolean("logprobs").value_or(false);
  const auto top = body.integer("top_logprobs", 0, 20);
  if (top && *top > 0 && !logprobs) {
    body.reject("\"top_logprobs\" needs \"logprobs\": true", "top_logprobs");
  }
  request.logprobs = logprobs;
  if (logprobs) request.job.top_logprobs = top.value_or(0);
  check_tokens_and_beams(body, request);
  read_messages(body, model, request);
  return request;
}

CompletionRequest read_completion_request(BodyReader& body, const LoadedModel& model) {
  CompletionRequest request;
  request.chat = false;
  read_common(body, model, request);
  request.echo = body.boolean("echo").value_or(false);
  const auto top = body.integer("logprobs", 0, 20);
  request.logprobs = top.has_value();
  if (top) request.job.top_logprobs = *top;
  if (top && request.echo) request.job.prompt_logprobs = *top;
  // Nothing but the prompt's own log-probabilities may be wanted.
  read_max_tokens(body, request.job.prompt_logprobs >= 0 ? 0 : 1, request);
  refuse(body, {"suffix"});
  check_tokens_and_beams(body, request);
  if (request.stream && request.echo && request.logprobs) {
    body.reject("\"echo\" with \"logprobs\" cannot be streamed; leave \"stream\" out", "stream",
                "unsupported_parameter");
  }
  read_prompts(body, model, request);
  if (request.job.prompt_logprobs >= 0) {
    std::int64_t n_tokens = 0;
    for (const auto& prompt : request.prompts) n_tokens += static_cast<std::int64_t>(prompt.size());
    const std::int64_t n_logprobs = n_tokens * request.n * (request.job.prompt_logprobs + 1);
    if (n_logprobs > kMaxEchoLogprobs) {
      body.reject("the prompts ask for " + std::to_string(n_logprobs) +
                      " log-probabilities together; at most " + std::to_string(kMaxEchoLogprobs) +
                      " are allowed in one request",
                  "logprobs");
    }
  }
  if (request.n_choices() > kMaxTotalChoices) {
    body.reject("the prompts ask for " + std::to_string(request.n_choices()) +
                    " choices together; at most " + std::to_string(kMaxTotalChoices) +
                    " are allowed",
                "n");
  }
  return request;
}

}  // namespace munia::server
