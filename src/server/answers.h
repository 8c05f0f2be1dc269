// Pieces of answers and requests that several routes share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "server/body_reader.h"
#include "server/service.h"
#include "tasks/classify.h"
#include "tasks/result_json.h"

namespace munia::server {

inline constexpr std::int64_t kMostTokens = 1 << 20;  // of a request's max_tokens

/// What the template is rendered with: the body's messages, tools and chat_template_kwargs.
/// Variables that only the server may set (special tokens) are left out.
boost::json::object render_context(BodyReader& body);

/// The classifier of a task by name; the Error lists the names. A request names no files.
Result<std::shared_ptr<const tasks::Classifier>> find_classifier(const LoadedModel& model,
                                                                 const std::string& name);
/// The classifier of a request: "labels" (with "system"), or "task", or the service's own.
std::shared_ptr<const tasks::Classifier> read_classifier(const Service& service,
                                                         const LoadedModel& model,
                                                         BodyReader& body);
/// Counts special tokens that stand in a user's text, where they are data.
void count_special_tokens(Service& service, const LoadedModel& model, std::string_view text);
/// Counts a label; one that the request itself named counts as "own".
void note_prediction(Service& service, const tasks::Classifier& classifier,
                     const tasks::Classification& result);
/// Whether `text` can be asked about: 400 when it is empty or too long, with both numbers.
Outcome check_text(const LoadedModel& model, const tasks::Classifier& classifier,
                   std::string_view text, const std::string& param);
/// Labels of texts, at most a few in the engine at once so that others get in between. The first
/// failure ends it.
Result<std::vector<tasks::Classification>> classify_texts(Service& service, Exchange& exchange,
                                                          JobScope& scope,
                                                          const tasks::Classifier& classifier,
                                                          const std::vector<std::string>& texts);

}  // namespace munia::server
