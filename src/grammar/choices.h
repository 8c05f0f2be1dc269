// A list of texts as a grammar.
#pragma once

#include <string>
#include <vector>

#include "grammar/grammar.h"

namespace munia::grammar {

/// Exactly one of `choices`. kInvalidArgument when there is none or one is empty or not UTF-8;
/// kLimit above 1,024 choices or 64 KiB.
Result<GrammarPtr> choice_grammar(std::vector<std::string> choices);

}  // namespace munia::grammar
