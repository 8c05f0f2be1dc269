// demands.md rows 39 and 40: constraints work on the bytes of UTF-8, leave no room for endless
// white space, and allow exactly the tokens that the automaton can read.
#include "decode/constraint.h"

#include <gtest/gtest.h>

#include <cmath>

#include <string>
#include <vector>

#include "decode/random.h"

namespace munia::decode {
namespace {

bool reads(const Automaton& automaton, std::string_view text, bool whole) {
  AutomatonState state = automaton.start();
  for (const char c : text) {
    if (!automaton.advance(state, static_cast<std::uint8_t>(c))) return false;
  }
  return !whole || automaton.accepts(state);
}

TEST(JsonObjectAutomaton, ReadsObjects) {
  const auto json = json_object_automaton();
  for (const char* text :
       {R"({})", R"({"a":1})", R"({"a": 1, "b":[1,-2.5e+10,0,0.1,true,false,null,"x"]})",
        R"({"情感":"愤怒","l":[],"o":{},"n":[[],[{}]]})", R"({"e":"\"\\\/\b\f\n\r\t\u00e9\uD7FF"})",
        R"({"😀":"é𐍈￿"})", R"({"a":[1, 2, {"b": null}]})", R"({"":-0})", R"({"a":1E5})"}) {
    EXPECT_TRUE(reads(*json, text, true)) << text;
  }
}

TEST(JsonObjectAutomaton, RefusesEverythingElse) {
  const auto json = json_object_automaton();
  for (const char* text : {"[]",
                           "1",
                           " {}",
                           "{ }",
                           "{\n}",
                           R"({"a":  1})",
                           R"({"a" :1})",
                           R"({a:1})",
                           R"({"a":01})",
                           R"({"a":1,})",
                           R"({"a":[1,]})",
                           R"({"a":+1})",
                           R"({"a":.5})",
                           R"({"a":1.})",
                           R"({"a":1e})",
                           R"({"a":tru})",
                           R"({"a":nul})",
                           R"({"a":truee})",
                           R"({"a":-})",
                           R"({"a":[1})",
                           R"({"a":{]})",
                           R"({} )",
                           R"({}{})",
                           R"({"a":"\x"})",
                           R"({"a":"\ud800"})",
                           R"({"a":"\u12g4"})",
                           "{\"a\":\"\n\"}",
                           "{\"a\":\"\xC0\x80\"}",
                           "{\"a\":\"\xED\xA0\x80\"}",
                           "{\"a\":\"\xF4\x90\x80\x80\"}",
                           "{\"a\":\"\xE4\xB8\"}",
                           "{\"a\":\"\xFF\"}"}) {
    EXPECT_FALSE(reads(*json, text, true)) << text;
  }
}

TEST(JsonObjectAutomaton, NestsThirtyTwoDeep) {
  const auto json = json_object_automaton();
  const auto nested = [](int depth) {  // the object itself counts
    return "{\"a\":" + std::string(static_cast<std::size_t>(depth - 1), '[') +
           std::string(static_cast<std::size_t>(depth - 1), ']') + "}";
  };
  EXPECT_TRUE(reads(*json, nested(32), true));
  EXPECT_FALSE(reads(*json, nested(33), true));
}

TEST(ChoiceAutomaton, ReadsItsChoicesOnly) {
  const auto choices = choice_automaton({"愤怒", "喜悦", "愤怒了", "a"}).value_or_throw();
  for (const char* text : {"愤怒", "喜悦", "愤怒了", "a"}) {
    EXPECT_TRUE(reads(*choices, text, true)) << text;
  }
  for (const char* text : {"", "愤", "\xE6", "b", "aa", "愤怒了了"}) {
    EXPECT_FALSE(reads(*choices, text, true)) << text;
  }
  EXPECT_TRUE(reads(*choices, "\xE6", false));  // the first byte of 愤
}

TEST(ChoiceAutomaton, RefusesWhatCannotBeChosen) {
  EXPECT_EQ(choice_automaton({}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(choice_automaton({"a", ""}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(choice_automaton({"\xFF"}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(choice_automaton({std::string(70000, 'x')}).error().code, ErrorCode::kLimit);
}

// A vocabulary of pieces that cut characters and JSON anywhere; some are special (empty).
std::vector<std::string> nasty_vocabulary() {
  std::vector<std::string> tokens;
  for (int c = 0; c < 256; ++c) tokens.emplace_back(1, static_cast<char>(c));
  for (const char* text :
       {"{\"",   "\":", "\": ", "\", \"", "},",       "\"}",  "[[",   "]]",   "true", "tr",
        "ue",    "愤",  "怒",   "愤怒",   "\xE6\x84", "\xA4", "喜悦", "悦\"", "  ",   " \"",
        "null}", "12",  ".5",   "e+",     "\\u",      "\\n",  "abc",  "abcd", "ab",   "\xF0\x9F"}) {
    tokens.emplace_back(text);
  }
  tokens.insert(tokens.begin() + 100, "");
  tokens.emplace_back("abc");  // the same bytes twice
  return tokens;
}

TEST(TokenIndex, AllowsWhatTheAutomatonCanRead) {
  const std::vector<std::string> tokens = nasty_vocabulary();
  const TokenIndex index(tokens);
  const auto json = json_object_automaton();
  Xoshiro256 random(5);
  AutomatonState state = json->start();
  for (int step = 0; step < 2000; ++step) {
    const TokenMask mask = index.allowed(*json, state);
    std::vector<AutomatonState> next_states;
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      AutomatonState next = state;
      bool readable = !tokens[id].empty();
      for (const char c : tokens[id]) {
        readable = readable && json->advance(next, static_cast<std::uint8_t>(c));
      }
      ASSERT_EQ(mask.has(static_cast<std::int32_t>(id)), readable) << step << " token " << id;
      if (readable) next_states.push_back(next);
    }
    if (next_states.empty()) {
      ASSERT_TRUE(json->accepts(state));
      state = json->start();
      continue;
    }
    const double pick = random.next_double() * static_cast<double>(next_states.size());
    state = next_states[static_cast<std::size_t>(pick)];
  }
}

TEST(Constraint, EndsWhereNothingMayFollow) {
  const auto index = std::make_shared<TokenIndex>(
      std::vector<std::string>{"good", "goodness", "ness", "go", "od", "", "bad"});
  Constraint constraint(index, choice_automaton({"good", "goodness"}).value_or_throw());
  EXPECT_FALSE(constraint.can_end());
  EXPECT_TRUE(constraint.allowed().has(0));
  EXPECT_TRUE(constraint.allowed().has(1));
  EXPECT_TRUE(constraint.allowed().has(3));
  EXPECT_FALSE(constraint.allowed().has(2));
  EXPECT_FALSE(constraint.allowed().has(5));
  EXPECT_FALSE(constraint.allowed().has(6));
  constraint.accept(3);
  EXPECT_FALSE(constraint.can_end());
  constraint.accept(4);
  EXPECT_TRUE(constraint.can_end());
  EXPECT_FALSE(constraint.must_end());
  constraint.accept(2);
  EXPECT_TRUE(constraint.must_end());

  std::vector<float> logits(7, 1.0F);
  TokenMask mask(7);
  mask.set(6);
  mask.apply(logits);
  EXPECT_EQ(logits[6], 1.0F);
  EXPECT_TRUE(std::isinf(logits[0]) && logits[0] < 0);
}

}  // namespace
}  // namespace munia::decode
