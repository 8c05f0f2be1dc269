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
  for (const char* text :
       {"abcdabcdabcdabcd", "abcdabcdabcdabcdabcdabcd", "愤怒愤怒愤怒愤",  // long ones
        "a愤b怒c愤d怒a愤b怒c\n", "abcdabcdabcd", "abcdabcdabcda", "abcdabcdabcda"}) {
    tokens.emplace_back(text);
  }
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
  check_masks(grammar::regex_grammar("([愤怒a-d]{20,45}\\.){2}").value_or_throw(), 1000);
  check_masks(grammar::regex_grammar("([a-d]{0,20}|[b愤]{16,})*,[怒a]{17}").value_or_throw(), 1000);
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
  ASSERT_FALSE(constraint.status().ok());
  EXPECT_NE(constraint.status().error().message.find("no token of this model"), std::string::npos);
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
  EXPECT_EQ(ambiguous.status().error().code, ErrorCode::kUnsupported);
}

// A grammar whose beginning alone has 2^60 ways: each rule calls the next in two ways.
grammar::GrammarPtr endless_beginning() {
  grammar::Builder builder;
  std::vector<grammar::RuleId> rules;
  for (int i = 0; i <= 60; ++i) rules.push_back(builder.add_rule());
  for (std::size_t i = 0; i < 60; ++i) {
    const grammar::Rule rule = builder.rule(rules[i]);
    for (int way = 0; way < 2; ++way) {
      const grammar::NodeId back = builder.node_beside(rule.start);
      builder.call(rule.start, rules[i + 1], back);
      builder.edge(back, 'x', 'x', rule.end);
    }
  }
  const grammar::Rule last = builder.rule(rules.back());
  builder.edge(last.start, 'a', 'a', last.end);
  return std::move(builder).finish().value_or_throw();
}

TEST(Constraint, FailsAtOnceWhereTheBeginningIsTooMuch) {
  const auto index = std::make_shared<TokenIndex>(std::vector<std::string>{"a", "x", ""});
  Constraint constraint(index, endless_beginning());
  EXPECT_LE(constraint.work(), 1'000'000U);
  ASSERT_FALSE(constraint.status());
  EXPECT_EQ(constraint.status().error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(constraint.allowed().count(), 0);
  EXPECT_FALSE(constraint.can_end());
  EXPECT_TRUE(constraint.must_end());
  constraint.accept(0);
  constraint.shrink();
  EXPECT_FALSE(constraint.status());
}

// Each token may take much work, but not each of very many.
TEST(Constraint, AReplyHasItsWorkToo) {
  grammar::Builder builder;
  const grammar::Rule rule = builder.rule(builder.add_rule(false, 0, 1'000'000));
  const grammar::NodeId loop = builder.node_beside(rule.start);
  const grammar::NodeId ways[] = {builder.node_beside(loop), builder.node_beside(loop)};
  builder.jump(rule.start, loop);
  for (int i = 0; i < 50'000; ++i) {
    for (const grammar::NodeId way : ways) builder.edge(loop, 'a', 'a', way);
  }
  // The count makes each state a new one.
  for (const grammar::NodeId way : ways) builder.jump(way, loop, grammar::Jump::Test::kCountUp);
  builder.jump(loop, rule.end);
  const auto index = std::make_shared<TokenIndex>(std::vector<std::string>{"a", "b"});
  Constraint constraint(index, std::move(builder).finish().value_or_throw());
  int n = 0;
  for (; n < 2000 && constraint.status(); ++n) {
    ASSERT_TRUE(constraint.allowed().has(0));
    constraint.accept(0);
  }
  ASSERT_FALSE(constraint.status());
  EXPECT_GT(n, 300);
  EXPECT_LT(n, 500);
  EXPECT_LE(constraint.work(), 20'000'000U + 50'000U * static_cast<std::uint64_t>(n));
}

TEST(Constraint, ACopyGoesItsOwnWay) {
  const auto index = std::make_shared<TokenIndex>(nasty_vocabulary());
  Constraint constraint(index, grammar::choice_grammar({"abc", "abd"}).value_or_throw());
  (void)constraint.allowed();
  constraint.shrink();
  Constraint copy(constraint);
  copy.accept(copy.allowed().ids().front());
  EXPECT_EQ(constraint.allowed().count(), 4);
  EXPECT_EQ(copy.few_allowed().size(), 1U);
}

}  // namespace
}  // namespace munia::decode
