// The articles' own services: POST /predict (emotion and reply, in one answer or streamed; and the
// inputs form of text-embeddings-inference), POST /chat, GET /stream.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/utf8.h"
#include "server/answers.h"
#include "server/routes.h"

namespace munia::server {
namespace json = boost::json;
namespace {

constexpr std::int64_t kPredictTokens = 128;
constexpr std::int64_t kChatTokens = 256;
constexpr float kChatRepetitionPenalty = 1.05F;

// ---- POST /predict ------------------------------------------------------------------------------

struct PredictRequest {
  std::string text;
  std::shared_ptr<const tasks::Classifier> classifier;
  tasks::PredictOptions options;
  bool stream = false;
  std::optional<double> timeout;
};

std::string prediction_json(const tasks::Prediction& prediction) {
  JsonWriter writer;
  writer.begin_object();
  tasks::write_emotion(writer, prediction.emotion);
  tasks::write_reply(writer, prediction);
  tasks::write_prediction_end(writer, prediction);
  return writer.end_object().text();
}

std::string token_json(std::string_view piece) {
  return JsonWriter().begin_object().field("token", piece).end_object().text();
}

Outcome run_predict(Service& service, Exchange& exchange, JobScope& scope,
                    const PredictRequest& request) {
  tasks::PredictOptions options = request.options;
  options.on_submit = [&scope](const std::shared_ptr<engine::Ticket>& ticket) {
    scope.track(ticket);
  };
  std::function<void(std::string_view)> on_piece;
  if (request.stream) {
    options.on_emotion = [&exchange](const tasks::Classification& emotion) {
      JsonWriter writer;
      writer.begin_object();
      tasks::write_emotion(writer, emotion);
      exchange.event(writer.end_object().text());
    };
    on_piece = [&exchange](std::string_view piece) { exchange.event(token_json(piece)); };
  }
  options.on_text = service.timed(std::move(on_piece), exchange.request().arrived);
  const Result<tasks::Prediction> prediction =
      tasks::predict(*service.model()->engine, *request.classifier, request.text, options);
  if (!prediction) return to_api_error(service.told_reason(prediction.error(), scope), "text");
  const tasks::Classification& emotion = prediction->emotion;
  note_prediction(service, *request.classifier, emotion);
  service.note_job(emotion.usage, emotion.timings, "stop");
  std::string reason = "stop";
  if (prediction->reply) {
    reason = prediction->finish_reason;
    const engine::Usage& sum = prediction->usage;
    service.note_job({sum.prompt_tokens - emotion.usage.prompt_tokens,
                      sum.cached_tokens - emotion.usage.cached_tokens,
                      sum.completion_tokens - emotion.usage.completion_tokens},
                     {emotion.timings.queue_ms, prediction->first_token_ms, prediction->total_ms},
                     reason);
  }
  exchange.note_usage(prediction->usage.prompt_tokens, prediction->usage.cached_tokens,
                      prediction->usage.completion_tokens, reason);
  if (!request.stream) {
    exchange.json(200, prediction_json(*prediction));
    return std::nullopt;
  }
  JsonWriter writer;
  writer.begin_object();
  tasks::write_prediction_end(writer, *prediction);
  exchange.event(writer.end_object().text());
  exchange.done();
  return std::nullopt;
}

// [{"label","score"},…], best first.
void write_scores(JsonWriter& writer, const tasks::Classification& result) {
  std::vector<std::pair<std::string, double>> scores = result.probabilities;
  std::stable_sort(scores.begin(), scores.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  writer.begin_array();
  for (const auto& [label, score] : scores) {
    writer.begin_object().field("label", label).field("score", score).end_object();
  }
  if (scores.empty()) {  // method generate has no probabilities
    writer.begin_object().key("label");
    if (result.label) {
      writer.value(*result.label);
    } else {
      writer.null();
    }
    writer.key("score").null().end_object();
  }
  writer.end_array();
}

void predict_inputs(Service& service, const LoadedModel& model, const ExchangePtr& exchange,
                    BodyReader& body) {
  const std::vector<std::string> texts = body.strings("inputs");
  const auto classifier = read_classifier(service, model, body);
  const std::optional<double> timeout = read_timeout(body);
  const auto most = static_cast<std::size_t>(service.options().max_texts);
  if (texts.size() > most) {
    body.reject("\"inputs\" has " + std::to_string(texts.size()) + " texts; at most " +
                    std::to_string(most) + " are taken at once",
                "inputs");
  }
  if (body.error()) return exchange->fail(*body.error());
  const bool is_list = body.find("inputs")->is_array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string param = is_list ? "inputs[" + std::to_string(i) + "]" : "inputs";
    if (const Outcome wrong = check_text(model, *classifier, texts[i], param)) {
      return exchange->fail(*wrong);
    }
    count_special_tokens(service, model, texts[i]);
  }
  service.run(exchange, is_list ? Priority::kBulk : Priority::kInteractive, timeout,
              [&service, exchange, texts, classifier, is_list](JobScope& scope) -> Outcome {
                const auto results = classify_texts(service, *exchange, scope, *classifier, texts);
                if (!results) return to_api_error(results.error(), "inputs");
                JsonWriter writer;
                if (is_list) writer.begin_array();
                for (const tasks::Classification& result : *results) write_scores(writer, result);
                if (is_list) writer.end_array();
                exchange->json(200, writer.text());
                return std::nullopt;
              });
}

void post_predict(Service& service, const ExchangePtr& exchange) {
  const LoadedModel* model = service.model_or_fail(exchange);
  if (model == nullptr) return;
  BodyReader body(exchange->request().body);
  if (body.has("inputs")) return predict_inputs(service, *model, exchange, body);
  PredictRequest request;
  request.text = body.required_string("text");
  if (body.ok() && is_blank(request.text)) body.reject("\"text\" is empty", "text");
  request.classifier = read_classifier(service, *model, body);
  request.options.max_tokens = body.integer("max_tokens", 1, kMostTokens).value_or(kPredictTokens);
  request.options.reply = body.boolean("reply").value_or(true);
  request.options.stops = read_stops(body);
  request.stream = body.boolean("stream").value_or(false);
  request.timeout = read_timeout(body);
  read_sampling(body, request.options.sampling);
  if (const auto prompt = body.string("prompt")) {
    if (*prompt == "shared") {
      request.options.prompt = tasks::PromptForm::kShared;
    } else if (*prompt != "separate") {
      body.reject("\"prompt\" is \"" + *prompt + "\"; it must be \"separate\" or \"shared\"",
                  "prompt");
    }
  }
  request.options.beams = read_beams(body, request.options.sampling, 1, request.stream);
  if (body.error()) return exchange->fail(*body.error());
  if (const Outcome wrong = check_text(*model, *request.classifier, request.text, "text")) {
    return exchange->fail(*wrong);
  }
  count_special_tokens(service, *model, request.text);
  service.run(exchange, Priority::kInteractive, request.timeout,
              [&service, exchange, request](JobScope& scope) {
                return run_predict(service, *exchange, scope, request);
              });
}

// ---- POST /chat, GET /stream --------------------------------------------------------------------

engine::GenerateJob chat_job() {
  engine::GenerateJob job;
  job.max_tokens = kChatTokens;
  job.sampling.repetition_penalty = kChatRepetitionPenalty;
  return job;
}

// The text as a user's turn in the model's own template, without a system message.
Outcome set_prompt(Service& service, const LoadedModel& model, const std::string& text,
                   const char* param, engine::GenerateJob& job) {
  json::object context;
  context["messages"] = json::array{json::object{{"role", "user"}, {"content", text}}};
  context["add_generation_prompt"] = true;
  Result<std::vector<std::int32_t>> ids = model.bundle->render_ids(context);
  if (!ids) return to_api_error(ids.error(), param);
  job.prompt = *std::move(ids);
  count_special_tokens(service, model, text);
  return Service::check_prompt(model, job.prompt.size(), param);
}

void post_chat(Service& service, const ExchangePtr& exchange) {
  const LoadedModel* model = service.model_or_fail(exchange);
  if (model == nullptr) return;
  BodyReader body(exchange->request().body);
  engine::GenerateJob job = chat_job();
  const std::string text = body.string("text").value_or("");
  job.max_tokens = body.integer("max_tokens", 1, kMostTokens).value_or(job.max_tokens);
  job.stops = read_stops(body);
  read_sampling(body, job.sampling);
  job.beams = read_beams(body, job.sampling, 1, false);
  const std::optional<double> timeout = read_timeout(body);
  if (body.error()) return exchange->fail(*body.error());
  if (is_blank(text)) return exchange->json(400, R"({"error":"No input provided"})");
  if (const Outcome wrong = set_prompt(service, *model, text, "text", job)) {
    return exchange->fail(*wrong);
  }
  service.run(
      exchange, Priority::kInteractive, timeout,
      [&service, exchange, job](JobScope& scope) -> Outcome {
        const auto result = service.generate(*exchange, scope, job);
        if (!result) return to_api_error(result.error(), "text");
        const double seconds =
            std::chrono::duration<double>(Clock::now() - exchange->request().arrived).count();
        JsonWriter writer;
        writer.begin_object().field("response", result->text);
        writer.field("time_used", std::round(seconds * 100) / 100);
        writer.field("finish_reason", result->finish_reason).key("usage");
        tasks::write_usage(writer, result->usage);
        exchange->json(200, writer.end_object().text());
        return std::nullopt;
      });
}

// The query's max_tokens, or nothing and a mistake in `error`.
std::optional<std::int64_t> query_tokens(const Request& request, Outcome& error) {
  const auto value = request.query_value("max_tokens");
  if (!value) return kChatTokens;
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (code != std::errc() || end != value->data() + value->size() || number < 1 ||
      number > kMostTokens) {
    error = bad_request("max_tokens must be an integer from 1 to " + std::to_string(kMostTokens),
                        "max_tokens");
    return std::nullopt;
  }
  return number;
}

void get_stream(Service& service, const ExchangePtr& exchange) {
  const LoadedModel* model = service.model_or_fail(exchange);
  if (model == nullptr) return;
  const Request& request = exchange->request();
  if (request.method == "HEAD") {
    return exchange->fail(
        {405, "HEAD is not answered here, use GET", "", "method_not_allowed", {}});
  }
  Outcome wrong;
  engine::GenerateJob job = chat_job();
  job.max_tokens = query_tokens(request, wrong).value_or(1);
  if (wrong) return exchange->fail(*wrong);
  if (const auto beams = request.query_value("num_beams"); beams && *beams != "1") {
    return exchange->fail(bad_request(
        "num_beams above 1 cannot be streamed: the best text is known at the end; use POST /chat",
        "num_beams", "unsupported_parameter"));
  }
  const std::string text(request.query_value("q").value_or(""));
  if (is_blank(text)) return exchange->fail(bad_request("\"q\" is missing or empty", "q"));
  if (find_invalid_utf8(text)) return exchange->fail(bad_request("\"q\" is not UTF-8", "q"));
  if ((wrong = set_prompt(service, *model, text, "q", job))) return exchange->fail(*wrong);
  service.run(exchange, Priority::kInteractive, std::nullopt,
              [&service, exchange, job](JobScope& scope) -> Outcome {
                engine::GenerateJob streamed = job;
                streamed.on_text = [&exchange](std::string_view piece) {
                  exchange->event(token_json(piece));
                };
                const auto result = service.generate(*exchange, scope, std::move(streamed));
                if (!result) return to_api_error(result.error(), "q");
                exchange->done();
                return std::nullopt;
              });
}

}  // namespace

void add_article_routes(Router& router) {
  router.add({"POST", "/predict", post_predict});
  router.add({"POST", "/chat", post_chat});
  router.add({"GET", "/stream", get_stream});
}

}  // namespace munia::server
