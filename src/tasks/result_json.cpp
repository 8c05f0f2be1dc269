#include "tasks/result_json.h"

#include <cmath>

namespace munia::tasks {
namespace {

double round_ms(double ms) { return std::round(ms * 1e3) / 1e3; }

}  // namespace

void write_usage(JsonWriter& writer, const engine::Usage& usage) {
  writer.begin_object()
      .field("prompt_tokens", usage.prompt_tokens)
      .field("cached_tokens", usage.cached_tokens)
      .field("completion_tokens", usage.completion_tokens)
      .end_object();
}

void write_probabilities(JsonWriter& writer, const Classification& result) {
  if (result.probabilities.empty()) {
    writer.null();
    return;
  }
  writer.begin_object();
  for (const auto& [label, probability] : result.probabilities) writer.field(label, probability);
  writer.end_object();
}

void write_emotion(JsonWriter& writer, const Classification& result) {
  writer.key("emotion");
  if (result.label) {
    writer.value(*result.label);
  } else {
    writer.null().field("raw", result.raw);
  }
  writer.key("probabilities");
  write_probabilities(writer, result);
}

void write_reply(JsonWriter& writer, const Prediction& prediction) {
  writer.key("reply");
  if (prediction.reply) {
    writer.value(*prediction.reply);
  } else {
    writer.null();
  }
}

void write_prediction_end(JsonWriter& writer, const Prediction& prediction) {
  writer.key("finish_reason");
  if (prediction.reply) {
    writer.value(prediction.finish_reason);
  } else {
    writer.null();
  }
  writer.key("usage");
  write_usage(writer, prediction.usage);
  writer.key("timings").begin_object().field("emotion_ms", round_ms(prediction.emotion_ms));
  writer.key("first_token_ms");
  if (prediction.reply) {
    writer.value(round_ms(prediction.first_token_ms));
  } else {
    writer.null();
  }
  writer.field("total_ms", round_ms(prediction.total_ms)).end_object();
}

}  // namespace munia::tasks
