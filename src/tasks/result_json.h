// Results as the JSON that the command line and the service both show: the keys are a contract.
#pragma once

#include "base/json_writer.h"
#include "tasks/classify.h"

namespace munia::tasks {

/// {"prompt_tokens":…,"cached_tokens":…,"completion_tokens":…}
void write_usage(JsonWriter& writer, const engine::Usage& usage);
/// {"label": p, …}, or null when there are none.
void write_probabilities(JsonWriter& writer, const Classification& result);
/// "emotion": label (or null, and "raw"), "probabilities".
void write_emotion(JsonWriter& writer, const Classification& result);
/// "reply", or null when none was asked for.
void write_reply(JsonWriter& writer, const Prediction& prediction);
/// "finish_reason", "usage", "timings" in milliseconds.
void write_prediction_end(JsonWriter& writer, const Prediction& prediction);

}  // namespace munia::tasks
