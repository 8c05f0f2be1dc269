#include "server/answers.h"

#include <deque>
#include <utility>

namespace munia::server {
namespace {

constexpr std::size_t kTextsInFlight = 32;
constexpr std::size_t kMostLabels = 64;

}  // namespace

boost::json::object render_context(BodyReader& body) {
  boost::json::object context;
  if (const auto* kwargs = body.find("chat_template_kwargs")) {
    if (kwargs->is_object()) {
      context = kwargs->get_object();
    } else {
      body.reject("\"chat_template_kwargs\" must be an object", "chat_template_kwargs");
    }
  }
  for (const char* name : {"bos_token", "eos_token", "pad_token", "unk_token"}) context.erase(name);
  if (const auto* tools = body.find("tools")) context["tools"] = *tools;
  if (const auto* messages = body.find("messages")) context["messages"] = *messages;
  context["add_generation_prompt"] = true;
  return context;
}

Result<std::shared_ptr<const tasks::Classifier>> find_classifier(const LoadedModel& model,
                                                                 const std::string& name) {
  const auto found = model.classifiers.find(name);
  if (found == model.classifiers.end()) {
    std::string known;
    for (const auto& [task, classifier] : model.classifiers) {
      known += (known.empty() ? "" : ", ") + task;
    }
    return Error{ErrorCode::kInvalidArgument,
                 "there is no task \"" + name + "\"; this server has " + known};
  }
  if (!found->second) return found->second.error();
  // Lives as long as the model.
  return std::shared_ptr<const tasks::Classifier>(std::shared_ptr<void>(), &*found->second);
}

std::shared_ptr<const tasks::Classifier> read_classifier(const Service& service,
                                                         const LoadedModel& model,
                                                         BodyReader& body) {
  const std::optional<std::string> name = body.string("task");
  const std::vector<std::string> labels = body.strings("labels");
  const std::optional<std::string> system = body.string("system");
  if (!body.has("labels")) {
    if (system) body.reject("\"system\" needs \"labels\": a task has its own", "system");
    const auto found = find_classifier(model, name.value_or(service.options().default_task.name));
    if (!found) body.reject(found.error().message, "task");
    return found ? *found : nullptr;
  }
  if (name) body.reject("\"task\" and \"labels\" exclude each other", "task");
  if (labels.size() > kMostLabels) {
    body.reject("\"labels\" has " + std::to_string(labels.size()) + " labels; at most " +
                    std::to_string(kMostLabels) + " are taken",
                "labels");
  }
  if (!body.ok()) return nullptr;
  Result<tasks::Task> task = tasks::task_from_labels(labels, system);
  if (!task) {
    body.reject(task.error().message, "labels");
    return nullptr;
  }
  Result<tasks::Classifier> classifier = tasks::Classifier::create(*model.engine, *std::move(task));
  if (!classifier) {
    body.reject(classifier.error().message, "labels");
    return nullptr;
  }
  return std::make_shared<tasks::Classifier>(*std::move(classifier));
}

void count_special_tokens(Service& service, const LoadedModel& model, std::string_view text) {
  if (text.find('<') == std::string_view::npos) return;  // as every known special token begins
  const auto ids = model.bundle->tokenizer->encode_with_special(text);
  if (!ids) return;
  std::int64_t n = 0;
  for (const std::int32_t id : *ids) n += model.bundle->tokenizer->is_special(id);
  if (n > 0) service.metrics().special_token_attempts(n);
}

void note_prediction(Service& service, const tasks::Classifier& classifier,
                     const tasks::Classification& result) {
  // Labels that a request brought along are its user's text.
  const bool known = service.model()->classifiers.contains(classifier.task().name);
  const std::string label = result.label && !known ? "own" : result.label.value_or("");
  service.metrics().prediction(label, result.confidence);
}

Outcome check_text(const LoadedModel& model, const tasks::Classifier& classifier,
                   std::string_view text, const std::string& param) {
  const Result<std::vector<std::int32_t>> ids = classifier.prompt_ids(text);
  if (!ids) return to_api_error(Error{ids.error().code, param + ": " + ids.error().message}, param);
  return Service::check_prompt(model, ids->size(), param);
}

Result<std::vector<tasks::Classification>> classify_texts(Service& service, Exchange& exchange,
                                                          JobScope& scope,
                                                          const tasks::Classifier& classifier,
                                                          const std::vector<std::string>& texts) {
  std::vector<tasks::Classification> results;
  results.reserve(texts.size());
  std::deque<std::shared_ptr<engine::Ticket>> in_flight;
  std::optional<Error> failure;
  const auto finish_first = [&] {
    const std::shared_ptr<engine::Ticket> ticket = std::move(in_flight.front());
    in_flight.pop_front();
    Result<tasks::Classification> result = classifier.finish(*ticket);
    scope.forget(ticket);
    if (!result) {
      const Error told = service.told_reason(result.error(), scope);
      if (!failure) failure = told;
      return;
    }
    service.note_job(result->usage, result->timings, "stop");
    note_prediction(service, classifier, *result);
    exchange.note_usage(result->usage.prompt_tokens, result->usage.cached_tokens,
                        result->usage.completion_tokens, "stop");
    results.push_back(*std::move(result));
  };
  for (const std::string& text : texts) {
    if (in_flight.size() == kTextsInFlight) finish_first();
    if (!failure && scope.stopped()) failure = scope.reason();
    if (failure) break;
    Result<std::shared_ptr<engine::Ticket>> ticket =
        classifier.submit(text, engine::Priority::kBulk);
    if (!ticket) {
      failure = ticket.error();
      break;
    }
    scope.track(*ticket);
    in_flight.push_back(*std::move(ticket));
  }
  if (failure) {
    for (const auto& ticket : in_flight) ticket->cancel();
  }
  while (!in_flight.empty()) finish_first();
  if (failure) return *failure;
  return results;
}

}  // namespace munia::server
