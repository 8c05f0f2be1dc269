// Splits a chat template into tokens, as jinja2 with trim_blocks and lstrip_blocks does: text,
// tags, and within tags names, numbers, strings and operators. Whitespace control happens here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/template_value.h"

namespace munia::text::tmpl {

enum class TokenType {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEof
};

struct Token {
  TokenType type;
  Position at;
  std::string text;  // data, name, string (unescaped), operator
  Int integer = 0;
  double real = 0;
};

/// Throws Failure.
std::vector<Token> tokenize_template(std::string_view source);

/// For messages: "'end of statement block'", "'foo'".
std::string describe(const Token& token);

}  // namespace munia::text::tmpl
