// Builds the tree of a chat template; throws Failure with line and column for what is wrong or
// not known: tags, filters, tests, nesting that is too deep.
#pragma once

#include "text/template_ast.h"
#include "text/template_lexer.h"

namespace munia::text::tmpl {

inline constexpr std::uint32_t kMaxParseDepth = 100;  // open brackets and blocks
inline constexpr std::uint32_t kMaxTreeDepth = 250;  // of an expression, also in chains: a + b + …

ScopedBody parse_template(std::vector<Token> tokens);

}  // namespace munia::text::tmpl
