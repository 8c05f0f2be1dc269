#include "grammar/regex.h"

#include <string>
#include <vector>

#include "base/utf8.h"
#include "grammar/grammar_test_tools.h"

namespace munia::grammar {
namespace {

struct Case {
  std::string pattern;
  std::vector<std::string> matching;
  std::vector<std::string> others;
};

TEST(Regex, MatchesTheWholeText) {
  const std::vector<Case> cases = {
      {"", {""}, {"a"}},
      {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"^abc$", {"abc"}, {"abcd"}},
      {"^a|b$|^(c|d$)", {"a", "b", "c", "d"}, {"ab", "cd"}},
      {"(^a)b(c$)", {"abc"}, {"ab"}},
      {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
      {"(?:ab|c)+", {"ab", "c", "abcab"}, {"", "a", "ba"}},
      {"a?b*c+", {"c", "abbbccc", "bc"}, {"", "ab", "aac"}},
      {"a{3}", {"aaa"}, {"aa", "aaaa"}},
      {"a{2,}", {"aa", "aaaaaa"}, {"a"}},
      {"a{1,3}", {"a", "aa", "aaa"}, {"", "aaaa"}},
      {"(a{0,2}){0,2}b{0}", {"", "a", "aaaa"}, {"aaaaa", "b"}},
      {"(a*)*", {"", "aaaa"}, {"b"}},
      {"a{x}", {"a{x}"}, {"a"}},
      {"[ab]{16}", {"abababababababab"}, {"aaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaa"}},
      {"(x[ab]{2,17}){2}", {"xabxaaaaaaaaaaaaaaaaa"}, {"xabxa", "xabxaaaaaaaaaaaaaaaaaa"}},
      {"a{17,}b", {"aaaaaaaaaaaaaaaaab", "aaaaaaaaaaaaaaaaaaaaaaab"}, {"aaaaaaaaaaaaaaaab"}},
      {"a{0,20}a{16}",
       {"aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
       {"aaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
      {".{20}|情", {"情", "情情情情情情情情情情情情情情情情情情情情"}, {"", "情情"}},
      {"[abc]", {"a", "c"}, {"d", "", "ab"}},
      {"[^abc]", {"d", "情", "😀", "\n"}, {"a", "\xE6"}},
      {"[a-c_-]+", {"abc_-"}, {"d"}},
      {R"([\d\]\\^-]+)", {"1]\\^-"}, {"a"}},
      {"[一-龥]{2}", {"愤怒", "喜悦"}, {"愤", "ab", "愤怒了"}},
      {"[α-ω😀-😂]+", {"αβγ😁"}, {"a", "😃"}},
      {".", {"a", "情", "😀", "\t"}, {"\n", "", "ab", "\xE6\x83"}},
      {R"(\d+\.\d{2})", {"3.14", "10.00"}, {"3.1", "３.14", ".14"}},
      {R"(\w+)", {"aZ_9"}, {"情", "-"}},
      {R"(\s\S)", {" a", "\t情", "　a"}, {"a ", "  "}},
      {R"(\D\W)", {"a-", "情！"}, {"1-", "aa"}},
      {R"(\x41\u60c5\t\n\.\*\/)", {"A情\t\n.*/"}, {"A"}},
      {"\xC3\xA9\xE2\x82\xAC", {"é€"}, {"e"}},
  };
  for (const Case& c : cases) {
    const auto grammar = regex_grammar(c.pattern);
    ASSERT_TRUE(grammar) << c.pattern << ": " << grammar.error().message;
    for (const std::string& text : c.matching) {
      EXPECT_TRUE(reads(*grammar, text)) << c.pattern << " and " << text;
    }
    for (const std::string& text : c.others) {
      EXPECT_FALSE(reads(*grammar, text)) << c.pattern << " and " << text;
    }
  }
}

TEST(Regex, RefusesWithTheReason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a(b", "at character 3 of the regular expression: a \"(\" lacks its \")\""},
      {"a)b", "at character 2 of the regular expression: there is a \")\" without its \"(\""},
      {"[ab", "a \"[\" lacks its \"]\""},
      {"*a", "nothing before it"},
      {"a**", "put it into a group"},
      {"a*?", "lazy repetition is not supported"},
      {"a++", "possessive repetition is not supported"},
      {"a{3,2}", "the wrong way round"},
      {"a{3", "lacks its \"}\""},
      {"a{20000}", "above 10000"},
      {"(?=a)", "look-around"},
      {"(?<n>a)", "named group"},
      {"(?i)a", "is not supported"},
      {"(a)\\1", "a back reference is not supported"},
      {"\\bword", "\"\\b\" is not supported"},
      {"\\p{L}", "\"\\p\" is not supported"},
      {"\\q", "\"\\q\" is not known"},
      {"a\\", "a backslash stands at the end"},
      {"[z-a]", "the wrong way round"},
      {"[\\d-z]", "no single character"},
      {"\\u12", "hexadecimal"},
      {"\\ud83d\\ude00", "surrogate"},
      {"a^b", "not at the beginning"},
      {"a$b", "where the text has ended"},
      {"(a$)*", "is repeated"},
      {"[]", "no text at all"},
      {"\xFF", "not valid UTF-8"},
      {"((((a{99}){99}){99}){99})", "more than 65536 states"},
      {std::string(5000, 'a'), "has 5000 bytes"},
      {std::string(100, '('), "more than 64 groups"},
  };
  for (const auto& [pattern, reason] : cases) {
    const auto grammar = regex_grammar(pattern);
    ASSERT_FALSE(grammar) << pattern;
    EXPECT_NE(grammar.error().message.find(reason), std::string::npos)
        << pattern << ": " << grammar.error().message;
  }
}

TEST(Regex, EntersNoDeadEnd) {
  // [] is no character, so only the second way can be finished.
  const GrammarPtr grammar = regex_grammar("ab[]|ac").value_or_throw();
  EXPECT_TRUE(reads(grammar, "ac"));
  EXPECT_FALSE(reads(grammar, "ab", false));
  const GrammarPtr counted = regex_grammar("ab[]{20}|ac").value_or_throw();
  EXPECT_TRUE(reads(counted, "ac"));
  EXPECT_FALSE(reads(counted, "ab", false));
}

TEST(CodePoints, AreSets) {
  CodePoints set;
  set.add(10, 20);
  set.add(30, 40);
  set.add(21, 29);
  EXPECT_EQ(set.ranges(), (std::vector<CodePoints::Range>{{10, 40}}));
  set.add(0xD700, 0xE000);  // without the surrogates
  EXPECT_EQ(set.ranges(),
            (std::vector<CodePoints::Range>{{10, 40}, {0xD700, 0xD7FF}, {0xE000, 0xE000}}));
  EXPECT_EQ(set.complement().complement(), set);
  EXPECT_EQ(set.without(CodePoints::one(20)).ranges().size(), 4U);
}

// Every character is written by exactly its own bytes: each boundary of lengths and of ranges.
TEST(CodePoints, AreReadAsUtf8) {
  for (const auto& [low, high] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 0x10FFFF},
                                                            {0x7F, 0x80},
                                                            {0x7FF, 0x800},
                                                            {0xFFFF, 0x10000},
                                                            {0x345, 0x12345},
                                                            {0xABCD, 0xABCE},
                                                            {0x1F600, 0x1F64F},
                                                            {0xD7FF, 0xE000}}) {
    CodePoints set;
    set.add(low, high);
    Builder builder;
    const Rule rule = builder.rule(builder.add_rule());
    add_character(builder, rule.start, set, Writing::kPlain, rule.end);
    const GrammarPtr grammar = std::move(builder).finish().value_or_throw();
    for (const std::uint32_t near : {low, high, 0x7FU, 0x7FFU, 0xFFFFU, 0xD7FFU, 0xE000U, 0x1000U,
                                     0x10FFFFU, 0x20U, 0x40000U, 0xFFFFFU}) {
      for (std::uint32_t c = near > 2 ? near - 2 : 0; c <= near + 2 && c <= 0x10FFFF; ++c) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        std::string text;
        append_utf8(text, c);
        EXPECT_EQ(reads(grammar, text), c >= low && c <= high) << low << " " << high << " " << c;
      }
    }
  }
}

// Alternatives of nothing take no states, but each is work.
TEST(Regex, NothingWrittenVeryOftenIsRefused) {
  const auto grammar = regex_grammar("(?:" + std::string(4080, '|') + "){10000}");
  ASSERT_FALSE(grammar);
  EXPECT_EQ(grammar.error().code, ErrorCode::kLimit);
  EXPECT_NE(grammar.error().message.find("524288 steps between states"), std::string::npos)
      << grammar.error().message;
  EXPECT_TRUE(reads(regex_grammar("(?:||||a|){100}").value_or_throw(), "aaa"));
}

}  // namespace
}  // namespace munia::grammar
