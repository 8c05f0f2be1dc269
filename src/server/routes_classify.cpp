// POST /classify: labels of up to 1,024 texts. Bulk: interactive requests go before it.
#include "server/answers.h"
#include "server/routes.h"

namespace munia::server {
namespace {

std::string results_json(const std::vector<tasks::Classification>& results) {
  JsonWriter writer;
  writer.begin_array();
  for (const tasks::Classification& result : results) {
    writer.begin_object().key("label");
    if (result.label) {
      writer.value(*result.label).field("confidence", result.confidence);
    } else {
      writer.null().field("confidence", result.confidence).field("raw", result.raw);
    }
    writer.key("probabilities");
    tasks::write_probabilities(writer, result);
    writer.end_object();
  }
  return writer.end_array().text();
}

void post_classify(Service& service, const ExchangePtr& exchange) {
  const LoadedModel* model = service.model_or_fail(exchange);
  if (model == nullptr) return;
  BodyReader body(exchange->request().body);
  const std::vector<std::string> texts = body.strings("texts");
  if (!body.has("texts")) body.reject("\"texts\" is missing", "texts");
  const auto most = static_cast<std::size_t>(service.options().max_texts);
  if (texts.size() > most) {
    body.reject("\"texts\" has " + std::to_string(texts.size()) + " texts; at most " +
                    std::to_string(most) + " are taken at once",
                "texts");
  }
  const std::optional<double> timeout = read_timeout(body);
  if (!body.ok()) return exchange->fail(*body.error());
  const auto classifier = read_classifier(service, *model, body);
  if (!body.ok()) return exchange->fail(*body.error());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string param = "texts[" + std::to_string(i) + "]";
    if (const Outcome wrong = check_text(*model, *classifier, texts[i], param)) {
      return exchange->fail(*wrong);
    }
    count_special_tokens(service, *model, texts[i]);
  }
  service.run(exchange, Priority::kBulk, timeout,
              [&service, exchange, texts, classifier](JobScope& scope) -> Outcome {
                const auto results = classify_texts(service, *exchange, scope, *classifier, texts);
                if (!results) return to_api_error(results.error(), "texts");
                exchange->json(200, results_json(*results));
                return std::nullopt;
              });
}

}  // namespace

void add_classify_routes(Router& router) { router.add({"POST", "/classify", post_classify}); }

}  // namespace munia::server
