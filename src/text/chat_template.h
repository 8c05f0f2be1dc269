// A model's own chat template (a Jinja subset), parsed once and rendered for messages, as Hugging
// Face transformers renders it. What munia does not know in a template is an Error with line and
// column, never another template. Immutable; rendering is safe from several threads.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/marked_text.h"

namespace munia::text {

/// What one rendering may use; a template or a conversation that needs more is an Error (kLimit).
struct TemplateLimits {
  std::uint64_t max_steps = 10'000'000;         // nodes evaluated, elements and names walked
  std::uint64_t max_work_bytes = 256ull << 20;  // of all strings made on the way
  std::uint64_t max_output_bytes = 64ull << 20;
  std::uint32_t max_depth = 500;  // of the evaluator: expressions, macros, loops
};

/// Who wrote what (MarkedText). Text and string literals of the template are trusted, and so are
/// the context's top-level bos_token, eos_token, pad_token and unk_token. Every other string of the
/// context is the user's: roles, contents, names, keys. What the engine makes itself (numbers,
/// True, JSON's punctuation, padding) counts as the user's. All operations keep the marks byte by
/// byte. So a special token that comes half from the template and half from elsewhere has not all
/// of its bytes trusted, and never matches.
class ChatTemplate {
 public:
  static constexpr std::size_t kMaxSourceBytes = 1 << 20;

  /// Parses the template's source. Errors: "line L, column C: …".
  static Result<ChatTemplate> parse(std::string_view source);

  /// Renders with the variables of `context` (a JSON object: messages, add_generation_prompt,
  /// tools, enable_thinking, bos_token, eos_token, …). Strings of `context` are the user's, except
  /// those of its keys bos_token, eos_token, pad_token and unk_token. Bounded: depth, steps, output
  /// size. Errors: raise_exception's text, an undefined operation, or a limit, with line and
  /// column.
  Result<MarkedText> render(const boost::json::object& context) const;
  Result<MarkedText> render(const boost::json::object& context, const TemplateLimits& limits) const;

  /// Whether the template loops over a message's content, that is, wants content as a list of parts
  /// (a list of one part for a plain string is not made). Found by looking at the source.
  bool walks_content_parts() const;

 private:
  struct Program;
  std::shared_ptr<const Program> program_;
};

}  // namespace munia::text
