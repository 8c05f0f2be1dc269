// POST /tokenize, /detokenize, /apply-template: text and token ids, as llama.cpp's server has them.
#include "base/utf8.h"
#include "server/answers.h"
#include "server/routes.h"

namespace munia::server {
namespace json = boost::json;
namespace {

// A token's text, or its bytes where they are part of a character.
void write_piece(JsonWriter& writer, std::string_view bytes) {
  if (!find_invalid_utf8(bytes)) {
    writer.value(bytes);
    return;
  }
  writer.begin_array();
  for (const char c : bytes) writer.value(static_cast<int>(static_cast<unsigned char>(c)));
  writer.end_array();
}

void post_tokenize(Service& service, const ExchangePtr& exchange) {
  const LoadedModel* model = service.model_or_fail(exchange);
  if (model == nullptr) return;
  BodyReader body(exchange->request().body);
  const std::string content = body.required_string("content");
  const bool add_special = body.boolean("add_special").value_or(false);
  const bool parse_special = body.boolean("parse_special").value_or(true);
  const bool with_pieces = body.boolean("with_pieces").value_or(false);
  if (body.error()) return exchange->fail(*body.error());
  const text::Tokenizer& tokenizer = *model->bundle->tokenizer;
  Result<std::vector<std::int32_t>> ids =
      parse_special ? tokenizer.encode_with_special(content) : tokenizer.encode(content);
  if (!ids) return exchange->fail(to_api_error(ids.error(), "content"));
  if (const auto bos = tokenizer.bos_token(); add_special && tokenizer.adds_bos() && bos) {
    ids->insert(ids->begin(), *bos);
  }
  JsonWriter writer;
  writer.begin_object().key("tokens");
  if (with_pieces) {
    writer.begin_array();
    for (const std::int32_t id : *ids) {
      writer.begin_object().field("id", id).key("piece");
      write_piece(writer, tokenizer.token_bytes(id));
      writer.end_object();
    }
    writer.end_array();
  } else {
    writer.ids(*ids);
  }
  writer.field("count", ids->size()).end_object();
  exchange->json(200, writer.text());
}

void post_detokenize(Service& service, const ExchangePtr& exchange) {
  const LoadedModel* model = service.model_or_fail(exchange);
  if (model == nullptr) return;
  BodyReader body(exchange->request().body);
  const text::Tokenizer& tokenizer = *model->bundle->tokenizer;
  const auto ids = body.ids("tokens", tokenizer.vocab_size());
  if (!ids) body.reject("\"tokens\" is missing", "tokens");
  if (body.error()) return exchange->fail(*body.error());
  JsonWriter writer;
  writer.begin_object().field("content", tokenizer.decode(*ids, false)).end_object();
  exchange->json(200, writer.text());
}

void post_apply_template(Service& service, const ExchangePtr& exchange) {
  const LoadedModel* model = service.model_or_fail(exchange);
  if (model == nullptr) return;
  BodyReader body(exchange->request().body);
  if (!body.has("messages")) body.reject("\"messages\" is missing", "messages");
  json::object context;
  if (body.ok()) {
    context = render_context(body);
    context["add_generation_prompt"] = body.boolean("add_generation_prompt").value_or(true);
  }
  if (body.error()) return exchange->fail(*body.error());
  const Result<text::MarkedText> prompt = model->bundle->render(context);
  if (!prompt) return exchange->fail(to_api_error(prompt.error(), "messages"));
  JsonWriter writer;
  writer.begin_object().field("prompt", prompt->bytes).end_object();
  exchange->json(200, writer.text());
}

}  // namespace

void add_text_routes(Router& router) {
  router.add({"POST", "/tokenize", post_tokenize});
  router.add({"POST", "/detokenize", post_detokenize});
  router.add({"POST", "/apply-template", post_apply_template});
}

}  // namespace munia::server
