// What a reply of /v1/chat/completions and /v1/completions must look like: OpenAI's
// "response_format", and the names by which vLLM and llama.cpp know the same.
#pragma once

#include <string>

#include "grammar/grammar.h"
#include "server/body_reader.h"

namespace munia::server {

struct RequestedForm {
  grammar::GrammarPtr grammar;  // null: free text
  std::string param;            // of the body, that asked for it
};

/// Nothing where the body asks for free text. More than one way at once is a mistake.
///   "response_format": {"type": "text" | "json_object" | "json_schema" | "regex" | "choice", …}
///   "guided_json", "guided_regex", "guided_choice", "structured_outputs": {"json" | "regex" |
///   "choice"} (vLLM); "json_schema" (llama.cpp)
RequestedForm read_constraint(BodyReader& body);

}  // namespace munia::server
