// OpenAI's API as its official clients use it: models, chat completions, completions.
#include "server/routes.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "server/openai_reply.h"

namespace munia::server {
namespace {

constexpr std::int64_t kInFlight = 8;  // choices of one request that the engine has at once

/// The choices of one request while the engine computes them. The engine's callbacks write the
/// chunks of a stream; they use this object, so it waits for every ticket before it goes.
class Choices {
 public:
  Choices(Service& service, Exchange& exchange, JobScope& scope, const CompletionRequest& request)
      : service_(service),
        exchange_(exchange),
        scope_(scope),
        request_(request),
        model_(*service.model()),
        writer_(request, model_, exchange.request().id, service.options().version) {}

  ~Choices() {
    for (Choice& choice : choices_) {
      if (choice.ticket) choice.ticket->cancel();
    }
    for (Choice& choice : choices_) {
      if (choice.ticket) (void)wait(choice);
    }
  }
  Choices(const Choices&) = delete;
  Choices& operator=(const Choices&) = delete;

  Outcome run() {
    if (request_.job.constraint) {  // once for all choices
      auto begun = model_.bundle->begin_constraint(request_.job.constraint);
      if (!begun) return to_outcome(begun.error());
      begun_constraint_ = *std::move(begun);
    }
    const std::int64_t n = request_.n_choices();
    const std::int64_t n_of_job = request_.n_choices_of_job();
    choices_.reserve(static_cast<std::size_t>(n));  // callbacks hold references
    for (std::int64_t i = 0; i < n; ++i) {
      choices_.push_back({nullptr, LogprobsWriter(*model_.bundle->tokenizer, request_.chat)});
    }
    std::vector<engine::GenerateResult> results;
    std::int64_t n_submitted = 0;
    for (std::int64_t i = 0; i < n; i += n_of_job) {
      // A few at a time, so that one request with many choices leaves room for others.
      for (; n_submitted < std::min(n, i + kInFlight); n_submitted += n_of_job) {
        if (const Status submitted = submit(n_submitted); !submitted) {
          return to_outcome(submitted.error());
        }
      }
      Choice& choice = choices_[static_cast<std::size_t>(i)];
      Result<engine::JobResult> result = wait(choice);
      if (!result) return to_outcome(result.error());
      for (engine::GenerateResult& text :
           engine::texts_of(std::get<engine::GenerateResult>(*std::move(result)))) {
        results.push_back(std::move(text));
        note(static_cast<std::int64_t>(results.size()) - 1, results.back());
      }
      if (request_.stream) finish(i, choice, results.back());
    }
    if (request_.stream) {
      if (request_.include_usage)
        exchange_.event(writer_.usage_chunk(writer_.total_usage(results)));
      exchange_.done();
    } else {
      exchange_.json(200, writer_.whole(results));
    }
    return std::nullopt;
  }

 private:
  struct Choice {
    std::shared_ptr<engine::Ticket> ticket;
    LogprobsWriter logprobs;  // of tokens whose text has not been sent
    bool has_logprobs = false;
    bool begun = false;
  };

  Status submit(std::int64_t index) {
    Choice& choice = choices_[static_cast<std::size_t>(index)];
    engine::GenerateJob job = request_.job_of(index);
    job.begun_constraint = begun_constraint_;
    std::function<void(std::string_view)> on_text;
    if (request_.stream) {
      on_text = [this, index, &choice](std::string_view piece) { send(index, choice, piece); };
      if (request_.logprobs) {
        job.on_token = [&choice](const decode::TokenLogprob& token) {
          choice.logprobs.add(token);
          choice.has_logprobs = true;
        };
      }
    }
    job.on_text = service_.timed(std::move(on_text), exchange_.request().arrived);
    MUNIA_ASSIGN_OR_RETURN(choice.ticket, model_.engine->submit(std::move(job)));
    scope_.track(choice.ticket);
    return {};
  }

  Result<engine::JobResult> wait(Choice& choice) {
    Result<engine::JobResult> result = choice.ticket->wait();
    scope_.forget(choice.ticket);
    choice.ticket.reset();
    return result;
  }

  Outcome to_outcome(const Error& error) {
    if (error.code == ErrorCode::kUnsupported && request_.job.constraint) {
      return bad_request(error.message, request_.form_param, "unsupported_constraint");
    }
    return to_api_error(service_.told_reason(error, scope_), request_.chat ? "messages" : "prompt");
  }

  void note(std::int64_t index, const engine::GenerateResult& result) {
    engine::Usage usage = result.usage;
    if (index % request_.n != 0) usage.prompt_tokens = usage.cached_tokens = 0;
    service_.note_job(usage, result.timings, result.finish_reason);
    exchange_.note_usage(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens,
                         result.finish_reason);
  }

  void begin(std::int64_t index, Choice& choice) {
    if (std::exchange(choice.begun, true)) return;
    exchange_.event(writer_.first_chunk(index));
  }

  void send(std::int64_t index, Choice& choice, std::string_view piece) {
    begin(index, choice);
    const bool with_logprobs = std::exchange(choice.has_logprobs, false);
    exchange_.event(
        writer_.text_chunk(index, piece, with_logprobs ? choice.logprobs.take() : std::string()));
  }

  void finish(std::int64_t index, Choice& choice, const engine::GenerateResult& result) {
    begin(index, choice);
    if (choice.has_logprobs) send(index, choice, "");
    exchange_.event(writer_.finish_chunk(index, result.finish_reason, result.timings));
  }

  Service& service_;
  Exchange& exchange_;
  JobScope& scope_;
  const CompletionRequest& request_;
  const LoadedModel& model_;
  const ReplyWriter writer_;
  std::shared_ptr<decode::Constraint> begun_constraint_;
  std::vector<Choice> choices_;
};

template <CompletionRequest (*read)(BodyReader&, const LoadedModel&)>
void complete(Service& service, const ExchangePtr& exchange) {
  const LoadedModel* model = service.model_or_fail(exchange);
  if (model == nullptr) return;
  BodyReader body(exchange->request().body);
  auto request = std::make_shared<CompletionRequest>();
  if (body.ok()) *request = read(body, *model);
  if (body.error()) {
    exchange->fail(*body.error());
    return;
  }
  const std::optional<double> timeout = request->timeout;
  service.run(exchange, Priority::kInteractive, timeout,
              [&service, exchange, request](JobScope& scope) {
                return Choices(service, *exchange, scope, *request).run();
              });
}

void write_model(JsonWriter& writer, const LoadedModel& model) {
  writer.begin_object().field("id", model.id).field("object", "model");
  writer.field("created", model.created).field("owned_by", "local");
  writer.field("max_model_len", model.bundle->model->context()).end_object();
}

void list_models(Service& service, const ExchangePtr& exchange) {
  const LoadedModel* model = service.model_or_fail(exchange);
  if (model == nullptr) return;
  JsonWriter writer;
  writer.begin_object().field("object", "list").key("data").begin_array();
  write_model(writer, *model);
  writer.end_array().end_object();
  exchange->json(200, writer.text());
}

void show_model(Service& service, const ExchangePtr& exchange) {
  const LoadedModel* model = service.model_or_fail(exchange);
  if (model == nullptr) return;
  if (exchange->rest() != model->id) {
    ApiError error;
    error.status = 404;
    error.message = "the model '" + exchange->rest() + "' is not served here; this server has '" +
                    model->id + "'";
    error.param = "model";
    error.code = "model_not_found";
    exchange->fail(error);
    return;
  }
  JsonWriter writer;
  write_model(writer, *model);
  exchange->json(200, writer.text());
}

}  // namespace

void add_openai_routes(Router& router) {
  for (const std::string prefix : {"/v1", ""}) {
    router.add({"GET", prefix + "/models", list_models});
    router.add({"GET", prefix + "/models/*", show_model});
    router.add({"POST", prefix + "/chat/completions", complete<read_chat_request>});
    router.add({"POST", prefix + "/completions", complete<read_completion_request>});
  }
}

}  // namespace munia::server
