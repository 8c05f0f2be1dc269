// For the tests of grammars: reads a text byte by byte.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "grammar/matcher.h"

namespace munia::grammar {

/// Whether the grammar reads `text`; `whole`: and may end there.
inline bool reads(const GrammarPtr& grammar, std::string_view text, bool whole = true) {
  Matcher matcher(grammar);
  Matcher::State state = matcher.start();
  if (state == Matcher::kNone) return false;
  for (const char c : text) {
    state = matcher.next(state, static_cast<std::uint8_t>(c));
    if (state == Matcher::kNone) return false;
  }
  return !whole || matcher.accepts(state);
}

}  // namespace munia::grammar
