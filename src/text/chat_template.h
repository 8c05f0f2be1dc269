// A model's own chat template (a Jinja subset), parsed once and rendered for messages, as Hugging
// Face transformers renders it. What munia does not know in a template is an Error with line and
// column, never another template. Immutable; rendering is safe from several threads.
#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/marked_text.h"

namespace munia::text {

class ChatTemplate {
 public:
  /// Parses the template's source. Errors: "line L, column C: …".
  static Result<ChatTemplate> parse(std::string_view source);

  /// Renders with the variables of `context` (a JSON object: messages, add_generation_prompt,
  /// tools, enable_thinking, bos_token, eos_token, …). Strings of `context` are the user's, except
  /// those of its keys bos_token, eos_token, pad_token and unk_token. Bounded: depth, steps, output
  /// size. Errors: raise_exception's text, an undefined operation, or a limit, with line and
  /// column.
  Result<MarkedText> render(const boost::json::object& context) const;

 private:
  struct Program;
  std::shared_ptr<const Program> program_;
};

}  // namespace munia::text
