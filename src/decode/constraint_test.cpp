// demands.md rows 39 and 40: exactly the tokens that the grammar can read are allowed, wherever
// they cut characters.
#include "decode/constraint.h"

#include <gtest/gtest.h>

#include <cmath>

#include <string>
#include <vector>

#include "decode/random.h"
#include "grammar/choices.h"
#include "grammar/json_parts.h"
#include "grammar/regex.h"
#include "grammar/schema.h"

namespace munia::decode {
namespace {

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

// Walks at random through the masks of a constraint: each must hold exactly the tokens whose bytes
// a matcher of its own reads one by one. Also past the point where the constraint forgets its
// states.
void check_masks(const grammar::GrammarPtr& grammar, int n_steps) {
  const std::vector<std::string> tokens = nasty_vocabulary();
  const auto index = std::make_shared<TokenIndex>(tokens);
  Xoshiro256 random(5);
  auto constraint = std::make_unique<Constraint>(index, grammar);
  auto matcher = std::make_unique<grammar::Matcher>(grammar);
  grammar::Matcher::State state = matcher->start();
  for (int step = 0; step < n_steps; ++step) {
    std::vector<std::int32_t> readable;
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      grammar::Matcher::State next = state;
      for (const char c : tokens[id]) {
        if (next == grammar::Matcher::kNone) break;
        next = matcher->next(next, static_cast<std::uint8_t>(c));
      }
      if (next != grammar::Matcher::kNone && !tokens[id].empty()) {
        readable.push_back(static_cast<std::int32_t>(id));
      }
    }
    ASSERT_EQ(constraint->allowed().ids(), readable) << step;
    ASSERT_EQ(constraint->can_end(), matcher->accepts(state));
    ASSERT_EQ(constraint->must_end(), readable.empty());
    ASSERT_TRUE(constraint->status().ok());
    if (readable.empty()) {
      ASSERT_TRUE(matcher->accepts(state));
      constraint = std::make_unique<Constraint>(index, grammar);
      matcher = std::make_unique<grammar::Matcher>(grammar);
      state = matcher->start();
      continue;
    }
    const double pick = random.next_double() * static_cast<double>(readable.size());
    const std::int32_t id = readable[static_cast<std::size_t>(pick)];
    constraint->accept(id);
    for (const char c : tokens[static_cast<std::size_t>(id)]) {
      state = matcher->next(state, static_cast<std::uint8_t>(c));
    }
  }
}

TEST(TokenIndex, AllowsWhatTheGrammarCanRead) {
  check_masks(grammar::json_object_grammar(), 2000);
  check_masks(grammar::choice_grammar({"愤怒", "喜悦", "abcd", "ab"}).value_or_throw(), 200);
  check_masks(grammar::regex_grammar("[愤怒a-d]{2,9}(\\.5)?e*").value_or_throw(), 500);
  check_masks(grammar::schema_text_grammar(
                  R"({"properties":{"abc":{"type":"string","minLength":3,"maxLength":60},
                      "愤":{"items":{"type":"number","minimum":-1,"maximum":12.5},"maxItems":30},
                      "n":{"enum":["愤怒",true,null]}},"required":["n"],"additionalProperties":true})")
                  .value_or_throw(),
              3000);
}

TEST(Constraint, EndsWhereNothingMayFollow) {
  const auto index = std::make_shared<TokenIndex>(
      std::vector<std::string>{"good", "goodness", "ness", "go", "od", "", "bad"});
  Constraint constraint(index, grammar::choice_grammar({"good", "goodness"}).value_or_throw());
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

TEST(Constraint, MustEndWhereTheVocabularyLacksTheByte) {
  const auto index = std::make_shared<TokenIndex>(std::vector<std::string>{"a", "ax", ""});
  Constraint constraint(index, grammar::choice_grammar({"ab"}).value_or_throw());
  EXPECT_FALSE(constraint.must_end());
  constraint.accept(0);
  EXPECT_TRUE(constraint.must_end());
  EXPECT_FALSE(constraint.can_end());
}

TEST(Constraint, ListsFewTokens) {
  const auto index = std::make_shared<TokenIndex>(nasty_vocabulary());
  Constraint constraint(index, grammar::choice_grammar({"abc"}).value_or_throw());
  const TokenMask& mask = constraint.allowed();
  EXPECT_EQ(mask.count(), 4);  // "a", "ab" and "abc" twice
  EXPECT_TRUE(std::equal(constraint.few_allowed().begin(), constraint.few_allowed().end(),
                         mask.ids().begin()));
  EXPECT_EQ(constraint.few_allowed().size(), 4U);
  Constraint text(index, grammar::regex_grammar(".*").value_or_throw());
  EXPECT_TRUE(text.few_allowed().empty());
  EXPECT_FALSE(text.must_end());
}

TEST(Constraint, TellsWhatIsTooMuchWork) {
  std::vector<std::string> tokens;  // all texts of a and b up to 12 letters
  for (std::size_t n = 1; n <= 12; ++n) {
    for (std::size_t bits = 0; bits < std::size_t{1} << n; ++bits) {
      std::string text;
      for (std::size_t i = 0; i < n; ++i) text += (bits >> i & 1) != 0 ? 'a' : 'b';
      tokens.push_back(text);
    }
  }
  const auto index = std::make_shared<TokenIndex>(tokens);
  Constraint fine(index, grammar::regex_grammar("(?:a|b)*a(?:a|b){5}").value_or_throw());
  (void)fine.allowed();
  EXPECT_TRUE(fine.status().ok());
  Constraint ambiguous(index, grammar::regex_grammar("(?:a|b)*a(?:a|b){3000}").value_or_throw());
  for (int i = 0; i < 600 && ambiguous.status().ok() && !ambiguous.must_end(); ++i) {
    const std::vector<std::int32_t> ids = ambiguous.allowed().ids();
    ambiguous.accept(ids.back());
  }
  ASSERT_FALSE(ambiguous.status().ok());
  EXPECT_EQ(ambiguous.status().error().code, ErrorCode::kLimit);
}

}  // namespace
}  // namespace munia::decode
