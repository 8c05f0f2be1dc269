// Regular expressions as grammars. The whole text must match, on code points. Known: literals, ".",
// classes with ranges and negation, \d \w \s \D \W \S as in ECMA-262 (\d and \w are ASCII), groups,
// alternation, ? * + {m} {m,} {m,n}, and ^ $ at the ends, where they change nothing. What has no
// place in a regular language or none in choosing a text (lazy and possessive repetition,
// look-around, back references, \b, flags) is refused.
#pragma once

#include <string_view>

#include "grammar/code_points.h"
#include "grammar/grammar.h"

namespace munia::grammar {

inline constexpr std::size_t kMaxPatternBytes = 4096;
inline constexpr std::uint32_t kMaxRepeats = 10000;

/// kInvalidArgument where the pattern is wrong, kUnsupported where it asks for more than is known
/// here; both name the place as a count of characters. kLimit where it is too large.
Result<GrammarPtr> regex_grammar(std::string_view pattern);

/// Lays the texts of `pattern` between two nodes.
Status add_regex(Builder& builder, NodeId from, std::string_view pattern, Writing writing,
                 NodeId to);

}  // namespace munia::grammar
