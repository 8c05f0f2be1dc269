// demands.md rows 39 and 40: grammars work on the bytes of UTF-8 and leave no room for endless
// white space.
#include "grammar/json_parts.h"

#include <string>

#include "grammar/choices.h"
#include "grammar/grammar_test_tools.h"

namespace munia::grammar {
namespace {

TEST(JsonObjectGrammar, ReadsObjects) {
  const GrammarPtr json = json_object_grammar();
  for (const char* text :
       {R"({})", R"({"a":1})", R"({"a": 1, "b":[1,-2.5e+10,0,0.1,true,false,null,"x"]})",
        R"({"情感":"愤怒","l":[],"o":{},"n":[[],[{}]]})", R"({"e":"\"\\\/\b\f\n\r\t\u00e9\uD7FF"})",
        R"({"😀":"é𐍈￿"})", R"({"a":[1, 2, {"b": null}]})", R"({"":-0})", R"({"a":1E5})",
        R"({"a":123456789012345678.12345678901234567e-99})"}) {
    EXPECT_TRUE(reads(json, text)) << text;
  }
}

TEST(JsonObjectGrammar, RefusesEverythingElse) {
  const GrammarPtr json = json_object_grammar();
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
                           R"({"a":1e100})",
                           R"({"a":1234567890123456789})",
                           R"({"a":0.123456789012345678})",
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
    EXPECT_FALSE(reads(json, text)) << text;
  }
}

TEST(JsonObjectGrammar, NestsThirtyTwoDeep) {
  const GrammarPtr json = json_object_grammar();
  const auto nested = [](int depth) {  // the object itself counts
    return "{\"a\":" + std::string(static_cast<std::size_t>(depth - 1), '[') +
           std::string(static_cast<std::size_t>(depth - 1), ']') + "}";
  };
  EXPECT_TRUE(reads(json, nested(kMaxNesting)));
  EXPECT_FALSE(reads(json, nested(kMaxNesting + 1)));
}

TEST(ChoiceGrammar, ReadsItsChoicesOnly) {
  const GrammarPtr choices = choice_grammar({"愤怒", "喜悦", "愤怒了", "a", "a"}).value_or_throw();
  for (const char* text : {"愤怒", "喜悦", "愤怒了", "a"})
    EXPECT_TRUE(reads(choices, text)) << text;
  for (const char* text : {"", "愤", "\xE6", "b", "aa", "愤怒了了"}) {
    EXPECT_FALSE(reads(choices, text)) << text;
  }
  EXPECT_TRUE(reads(choices, "\xE6", false));  // the first byte of 愤
}

TEST(ChoiceGrammar, RefusesWhatCannotBeChosen) {
  EXPECT_EQ(choice_grammar({}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(choice_grammar({"a", ""}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(choice_grammar({"\xFF"}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(choice_grammar({std::string(70000, 'x')}).error().code, ErrorCode::kLimit);
}

}  // namespace
}  // namespace munia::grammar
