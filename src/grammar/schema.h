// JSON schemas (draft 2020-12, and draft 7 where they agree) as grammars: every text of the grammar
// is JSON that the schema accepts. Keywords: type, enum, const, properties, required,
// additionalProperties, items, minItems, maxItems, minLength, maxLength, pattern, format, minimum,
// maximum, exclusiveMinimum, exclusiveMaximum, anyOf, oneOf of alternatives that exclude each
// other, allOf of one, $ref into the schema itself. docs/constraints.md tells where fewer texts are
// allowed than the schema accepts. A keyword that is not known here is refused, never ignored.
#pragma once

#include <boost/json/value.hpp>
#include <string_view>

#include "grammar/grammar.h"

namespace munia::grammar {

inline constexpr std::size_t kMaxSchemaParts = 2000;        // schemas within the schema
inline constexpr std::size_t kMaxSchemaBytes = 256 * 1024;  // as compact JSON

/// kInvalidArgument where the schema is wrong or nothing can fulfil it, kUnsupported where a
/// keyword is not known, kLimit where it is too large. The message names the place as a JSON
/// pointer.
Result<GrammarPtr> schema_grammar(const boost::json::value& schema);
/// The same of JSON text.
Result<GrammarPtr> schema_text_grammar(std::string_view schema);

}  // namespace munia::grammar
