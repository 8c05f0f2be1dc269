#include "grammar/schema.h"

#include <string>
#include <vector>

#include "grammar/grammar_test_tools.h"
#include "grammar/regex.h"

namespace munia::grammar {
namespace {

struct Case {
  std::string schema;
  std::vector<std::string> valid;
  std::vector<std::string> others;
};

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const auto grammar = schema_text_grammar(c.schema);
    ASSERT_TRUE(grammar) << c.schema << ": " << grammar.error().message;
    for (const std::string& text : c.valid) {
      EXPECT_TRUE(reads(*grammar, text)) << c.schema << " and " << text;
    }
    for (const std::string& text : c.others) {
      EXPECT_FALSE(reads(*grammar, text)) << c.schema << " and " << text;
    }
  }
}

TEST(Schema, Types) {
  check({
      {R"({"type":"string"})",
       {R"("")", R"("愤怒")", R"("\u6124\n\"")"},
       {"1", "\"", R"("\ud83d")"}},
      {R"({"type":"integer"})",
       {"0", "-7", "123456789012345678"},
       {"1.0", "01", "1234567890123456789"}},
      {R"({"type":"number"})", {"0", "-7.25", "1e5"}, {"\"1\"", ".5"}},
      {R"({"type":"boolean"})", {"true", "false"}, {"null", "True"}},
      {R"({"type":"null"})", {"null"}, {"0"}},
      {R"({"type":["string","null","integer"]})", {"null", "\"a\"", "3"}, {"true", "3.5"}},
      {R"({})", {"1", "{\"a\":[null]}", "\"x\""}, {"nope"}},
      {"true", {"1", "[]"}, {""}},
      {R"({"title":"t","description":"d","x-note":1,"default":3})", {"{}"}, {}},
  });
}

TEST(Schema, Values) {
  check({
      {R"({"enum":["愤怒","喜悦"]})",
       {"\"愤怒\"", "\"喜悦\""},
       {"\"愤\"", "\"\\u6124\\u6012\"", "愤怒"}},
      {R"({"enum":["\u6124\u6012"]})", {"\"愤怒\""}, {}},
      {R"({"enum":["a\"b\\c\n",1,2.5,null,true,[1,{"k":"v"}]]})",
       {R"("a\"b\\c\n")", "1", "2.5", "null", "true", R"([1,{"k":"v"}])", R"([1, {"k": "v"}])"},
       {"3", "[1]"}},
      {R"({"type":"string","enum":["a",1]})", {"\"a\""}, {"1"}},
      {R"({"const":{"a":[]}})", {R"({"a":[]})"}, {"{}"}},
      {R"({"enum":[1e400,-0.0,1e22,18446744073709551615]})",
       {"1e999", "-0", "1e+22", "18446744073709551615"},
       {"inf"}},
  });
}

TEST(Schema, Strings) {
  check({
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {"\"ab\"", "\"愤怒了\"", R"("\n\u00e9")", "\"😀😀\""},
       {"\"a\"", "\"abcd\"", "\"愤\""}},
      {R"({"type":"string","minLength":1})", {"\"a\"", "\"abcdef\""}, {"\"\""}},
      {R"({"type":"string","maxLength":0})", {"\"\""}, {"\"a\""}},
      {R"({"type":"string","pattern":"^[a-z]\"\\\\.$"})",
       {R"("a\"\\x")", R"("b\"\\愤")"},
       {R"("a")"}},
      {R"({"pattern":"[\\s]+"})", {R"(" \n\t")"}, {"\"\n\"", "\"\""}},
      {R"({"type":"string","format":"date"})",
       {"\"2024-02-28\""},
       {"\"2024-02-30\"", "\"2024-13-01\""}},
      {R"({"type":"string","format":"date-time"})",
       {"\"2024-02-28T23:59:59Z\""},
       {"\"2024-02-28\""}},
      {R"({"type":"string","format":"uuid"})",
       {"\"123e4567-e89b-12d3-a456-426614174000\""},
       {"\"1\""}},
      {R"({"type":"string","format":"email"})", {"\"a.b@example.com\""}, {"\"a@b\"", "\"@b.c\""}},
      {R"({"type":"string","format":"ipv4"})",
       {"\"127.0.0.1\"", "\"255.255.255.255\""},
       {"\"256.0.0.1\""}},
      {R"({"type":"string","format":"color"})", {"\"any\""}, {}},
  });
}

TEST(Schema, Numbers) {
  check({
      {R"({"type":"integer","minimum":3,"maximum":120})",
       {"3", "9", "10", "99", "100", "120"},
       {"2", "121", "03", "-3", "3.0", "1000"}},
      {R"({"type":"integer","minimum":-12,"maximum":5})",
       {"-12", "-9", "-1", "0", "5"},
       {"-13", "6", "-0", "-20", "10"}},
      {R"({"type":"integer","maximum":-5})", {"-5", "-100", "-99999"}, {"-4", "0", "5"}},
      {R"({"type":"integer","exclusiveMinimum":9})", {"10", "123456789012345678"}, {"9", "1"}},
      {R"({"type":"integer","minimum":0.5,"maximum":2.5})", {"1", "2"}, {"0", "3"}},
      {R"({"type":"number","minimum":0,"maximum":1})",
       {"0", "1", "0.5", "1.000", "0.99999999999999"},
       {"1.1", "1.0001", "-0.1", "2", "1e-1", "0."}},
      {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})",
       {"0.5", "0.00001"},
       {"0", "1", "0.0", "1.0"}},
      {R"({"type":"number","minimum":-1.25,"maximum":-0.5})",
       {"-1.25", "-1.2", "-0.5", "-1", "-0.75"},
       {"-1.26", "-0.4", "0", "-1.3"}},
      {R"({"type":"number","exclusiveMaximum":0})", {"-0.1", "-5"}, {"0", "-0", "-0.0", "1"}},
  });
}

TEST(Schema, Arrays) {
  check({
      {R"({"type":"array","items":{"type":"integer"}})",
       {"[]", "[1]", "[1, 2,3]"},
       {"[1,]", "[ 1]", "[\"a\"]"}},
      {R"({"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":3})",
       {"[true,false]", "[true, true, true]"},
       {"[true]", "[]", "[true,true,true,true]"}},
      {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"type":"array","maxItems":1})", {"[]", "[1]"}, {"[1,2]"}},
      {R"({"items":{"items":{"type":"null"}}})", {"[]", "[[],[null,null]]"}, {"[null]"}},
      {R"({"type":"array","items":{"type":"array","items":{"type":"integer"},"maxItems":1},"maxItems":2})",
       {"[[1],[2]]"},
       {"[[1,2]]", "[[1],[2],[3]]"}},
  });
}

TEST(Schema, Objects) {
  check({
      {R"({"type":"object","properties":{"名字":{"type":"string"},"n":{"type":"integer"}},
           "required":["名字","n"],"additionalProperties":false})",
       {R"({"名字":"小明","n":3})", R"({"名字": "a", "n": 3})"},
       {R"({"n":3,"名字":"a"})", R"({"名字":"a"})", R"({"名字":"a","n":3,"x":1})", "{}",
        R"({"名字":"a",})"}},
      {R"({"properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"required":["b"]})",
       {R"({"b":2})", R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({"a":1,"b":2,"c":3})"},
       {"{}", R"({"a":1})", R"({"a":1,"c":3})", R"({"c":3,"b":2})", R"({,"b":2})"}},
      {R"({"properties":{"a":{"const":1},"b":{"const":2}}})",
       {"{}", R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"},
       {R"({"a":1,})", R"({"x":1})"}},
      {R"({"type":"object"})", {"{}", R"({"x":[1]})"}, {"[]"}},
      {R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"x":1})"}},
      {R"({"type":"object","additionalProperties":{"type":"integer"}})",
       {"{}", R"({"x":1,"愤怒":2})"},
       {R"({"x":"1"})"}},
      {R"({"properties":{"ab":{"const":1},"ac":{"const":2},"愤":{"const":3}},
           "additionalProperties":{"type":"boolean"}})",
       {R"({"ab":1,"x":true})",
        R"({"a":true,"abc":false,"ad":true,"怒":true,"":true,"愤怒":true})"},
       {R"({"ab":true})", R"({"x":true,"ab":1})", R"({"\u0061b":true})", R"({"愤":true})"}},
      {R"({"required":["a"],"additionalProperties":{"type":"null"}})",
       {R"({"a":null})", R"({"a":null,"b":null})"},
       {"{}", R"({"a":1})", R"({"b":null})"}},
      {R"({"properties":{"a\"\\b":{"const":1}},"additionalProperties":true})",
       {R"({"a\"\\b":1})", R"({"z":1})"},
       {}},
  });
}

TEST(Schema, CombinedAndReferred) {
  check({
      {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})",
       {"1", "\"a\""},
       {"\"ab\"", "null"}},
      {R"({"allOf":[{"$ref":"#/$defs/a~1b"}],"$defs":{"a/b":{"const":1}}})", {"1"}, {"2"}},
      {R"({"$ref":"#/definitions/%E6%84%A4","definitions":{"愤":{"type":"null"}}})",
       {"null"},
       {"1"}},
      {R"({"oneOf":[{"type":"object","properties":{"t":{"const":"a"},"v":{"type":"integer"}},"required":["t","v"]},
                    {"type":"object","properties":{"t":{"enum":["b","c"]}},"required":["t"]}]})",
       {R"({"t":"a","v":1})", R"({"t":"c"})"},
       {R"({"t":"a"})", R"({"t":"b","v":1})"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"string"},{"enum":[1.5,null]}]})",
       {"1", "\"\"", "1.5", "null"},
       {"2.5"}},
      {R"({"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},
           "required":["v","next"],"additionalProperties":false})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
       {R"({"v":1})", R"({"v":1,"next":{}})"}},
      {R"({"$defs":{"tree":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}},
           "required":["kids"]}},"$ref":"#/$defs/tree"})",
       {R"({"kids":[]})", R"({"kids":[{"kids":[]},{"kids":[{"kids":[]}]}]})"},
       {R"({"kids":[{}]})"}},
  });
}

// Two open brackets a level: the sixteenth level's list may hold nothing, so that it can be ended.
TEST(Schema, RecursionStopsWhereItCanStillEnd) {
  const GrammarPtr grammar =
      schema_text_grammar(
          R"({"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#"}}},
                         "required":["kids"]})")
          .value_or_throw();
  std::string text;
  for (int i = 0; i < 15; ++i) text += R"({"kids":[)";
  EXPECT_TRUE(reads(grammar, text + R"({"kids":[])", false));
  EXPECT_FALSE(reads(grammar, text + R"({"kids":[{)", false));
  // Of three lists inside each other the second needs the third, so the 32nd is not entered.
  const GrammarPtr needy =
      schema_text_grammar(
          R"({"type":"array","items":{"type":"array","minItems":1,"items":{"type":"array",
                         "items":{"$ref":"#"}}}})")
          .value_or_throw();
  EXPECT_TRUE(reads(needy, std::string(29, '[') + "[]", false));
  EXPECT_FALSE(reads(needy, std::string(29, '[') + "]", false));
  EXPECT_TRUE(reads(needy, std::string(31, '[') + "]", false));
  EXPECT_FALSE(reads(needy, std::string(32, '['), false));
}

TEST(Schema, RefusesWithThePlaceAndTheReason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[1", "is not JSON"},
      {"3", "at #: a schema must be an object, true or false"},
      {"false", "at #: no value at all"},
      {R"({"type":"text"})", "at #/type: a type must be"},
      {R"({"type":[]})", "at #/type: a type must be"},
      {R"({"properties":{"a/b~":{"type":"integer","multipleOf":2}}})",
       "at #/properties/a~1b~0/multipleOf: this keyword is not supported"},
      {R"({"not":{}})", "at #/not: this keyword"},
      {R"({"if":{}})", "at #/if: this keyword"},
      {R"({"patternProperties":{}})", "at #/patternProperties: this keyword"},
      {R"({"type":"array","prefixItems":[]})", "at #/prefixItems: this keyword"},
      {R"({"maxlength":3})", "at #/maxlength: this keyword"},
      {R"({"type":"array","uniqueItems":true})", "at #/uniqueItems: only false"},
      {R"({"properties":3})", "at #/properties: it must be an object"},
      {R"({"properties":{"a":3}})", "at #/properties/a: a schema must be"},
      {R"({"required":"a"})", "at #/required: it must be a list of strings"},
      {R"({"required":["b"],"properties":{"a":{}},"additionalProperties":false})",
       "\"b\" is required, but"},
      {R"({"additionalProperties":3})", "at #/additionalProperties: it must be"},
      {R"({"items":[{}]})", "at #/items: a schema must be"},
      {R"({"minItems":-1})", "at #/minItems: it must be a whole number"},
      {R"({"minLength":1.5})", "at #/minLength: it must be a whole number"},
      {R"({"minLength":3,"maxLength":2})", "at #/maxLength: it is less than \"minLength\""},
      {R"({"minItems":2000000})", "at #/minItems: it must be below 1000000"},
      {R"x({"pattern":"a("})x", "at #/pattern: at character 2"},
      {R"x({"pattern":"(?=a)"})x", "at #/pattern: at character 3"},
      {R"({"pattern":"a","maxLength":3})", "at #/pattern: it stands beside a length"},
      {R"({"pattern":3})", "at #/pattern: it must be a string"},
      {R"({"minimum":"1"})", "at #/minimum: it must be a number"},
      {R"({"minimum":1e30})", "at #/minimum: a bound may have 18 digits"},
      {R"({"minimum":1,"exclusiveMinimum":1})", "at #/exclusiveMinimum: it stands beside"},
      {R"({"type":"number","exclusiveMinimum":true})",
       "at #/exclusiveMinimum: it must be a number"},
      {R"({"type":"integer","minimum":5,"maximum":4})", "no text at all"},
      {R"({"enum":[]})", "at #/enum: it must be a list"},
      {R"({"enum":[1],"type":"string"})", "at #/enum: no value of it has the type"},
      {R"({"enum":["a"],"minLength":1})", "at #/minLength: it stands beside \"enum\""},
      {R"({"anyOf":[]})", "at #/anyOf: it must be a list"},
      {R"({"anyOf":[{}],"type":"string"})", "at #/type: it stands beside \"anyOf\""},
      {R"({"allOf":[{},{}]})", "at #/allOf: more than one"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})",
       "at #/oneOf: a value may fulfil both schema 0 and schema 1"},
      {R"({"oneOf":[{"enum":[1]},{"const":1.0}]})", "at #/oneOf: a value may fulfil both"},
      // Ten ways a step, eight steps deep: given up, not computed.
      {R"({"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[)" +
           [] {
             std::string list;
             for (int i = 0; i < 10; ++i)
               list += (i == 0 ? "" : ",") + std::string(R"({"$ref":"#/$defs/a"})");
             return list;
           }() +
           "]}}}",
       "at #/oneOf: a value may fulfil both"},
      {R"({"$ref":"#/$defs/x"})", "at #/$ref: \"#/$defs/x\" names nothing"},
      {R"({"$ref":"https://example.com/a"})", "names nothing in the schema"},
      {R"({"$ref":3})", "at #/$ref: it must be a string"},
      {R"({"$ref":"#"})", "refers to itself"},
      {R"({"$defs":{"a":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/b"}]},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"})",
       "refers to itself"},
      {R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})", "no text at all"},
      {R"({"pattern":")" + std::string(4097, 'a') + "\"}", "has 4097 bytes"},
      {R"({"enum":[")" + std::string(300000, 'a') + "\"]}", "at most 262144 are allowed"},
      {R"({"enum":[")" + std::string(100000, 'a') + "\"]}", "more than 65536 states"},
  };
  for (const auto& [schema, reason] : cases) {
    const auto grammar = schema_text_grammar(schema);
    ASSERT_FALSE(grammar) << schema.substr(0, 200);
    EXPECT_NE(grammar.error().message.find(reason), std::string::npos)
        << schema.substr(0, 200) << ": " << grammar.error().message;
  }
  std::string many = R"({"properties":{)";
  for (int i = 0; i < 3000; ++i) {
    many += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":{"type":"null"})";
  }
  EXPECT_EQ(schema_text_grammar(many + "}}").error().code, ErrorCode::kLimit);
}

// A counter far from its limits counts as one state, and the mask of that state is the same.
TEST(Matcher, CountersFarFromTheirLimitsAreAlike) {
  const GrammarPtr grammar =
      schema_text_grammar(
          R"({"type":"array","items":{"type":"string","minLength":40,"maxLength":100}})")
          .value_or_throw();
  Matcher matcher(grammar);
  const auto read = [&](const std::string& text) {
    Matcher::State state = matcher.start();
    for (const char c : text) state = matcher.next(state, static_cast<std::uint8_t>(c));
    return state;
  };
  const auto alike = [&](std::size_t a, std::size_t b) {
    return matcher.alike(read("[\"" + std::string(a, 'x')), 8) ==
           matcher.alike(read("[\"" + std::string(b, 'x')), 8);
  };
  // A place counts its next character already, so each limit is near from nine characters on.
  EXPECT_TRUE(alike(0, 30));
  EXPECT_FALSE(alike(30, 31));
  EXPECT_FALSE(alike(35, 36));
  EXPECT_FALSE(alike(39, 40));
  EXPECT_TRUE(alike(40, 90));
  EXPECT_FALSE(alike(90, 91));
  EXPECT_FALSE(alike(99, 100));
}

TEST(Matcher, KeepsOneState) {
  const GrammarPtr grammar =
      schema_text_grammar(R"({"items":{"items":{"maxLength":3}}})").value_or_throw();
  Matcher matcher(grammar);
  Matcher::State state = matcher.start();
  for (const char c : std::string_view("[[\"a\"],[\"ab")) {
    state = matcher.next(state, static_cast<std::uint8_t>(c));
    state = matcher.keep_only(state);
    EXPECT_EQ(state, 0U);
  }
  for (const char c : std::string_view("c\"]]")) {
    state = matcher.next(state, static_cast<std::uint8_t>(c));
    ASSERT_NE(state, Matcher::kNone);
  }
  EXPECT_TRUE(matcher.accepts(state));
}

TEST(Matcher, StopsWorkThatGrows) {
  Matcher matcher(regex_grammar("(?:a|b)*a(?:a|b){300}").value_or_throw());
  matcher.allow_work(5000);
  Matcher::State state = matcher.start();
  for (int i = 0; i < 5000 && state != Matcher::kNone; ++i) {
    state = matcher.next(state, i * i % 7 < 4 ? 'a' : 'b');
  }
  EXPECT_EQ(state, Matcher::kNone);
  EXPECT_TRUE(matcher.is_exhausted());
}

// Each level has two schemas that may be either of the next level's, so there are 2^n_levels ways
// to the last one. `behind`: what a level puts around the next.
std::string two_ways(int n_levels, std::string_view before = "", std::string_view behind = "") {
  std::string text = R"({"$ref":"#/$defs/p0","$defs":{)";
  for (int i = 0; i < n_levels; ++i) {
    for (const char* name : {"p", "q"}) {
      text += "\"" + (name + std::to_string(i)) + R"(":{"anyOf":[)";
      for (const char* next : {"p", "q"}) {
        text += std::string(before) + R"({"$ref":"#/$defs/)" + next + std::to_string(i + 1) +
                "\"}" + std::string(behind) + (*next == 'p' ? "," : "]},");
      }
    }
  }
  const std::string n = std::to_string(n_levels);
  return text + "\"p" + n + R"(":{"const":1},"q)" + n + R"(":{"const":2}}})";
}

// A call that is the last thing of its rule leaves no frame behind, or each way would have its own.
TEST(Matcher, ManyWaysToTheSamePlaceAreOne) {
  const GrammarPtr grammar = schema_text_grammar(two_ways(40)).value_or_throw();
  Matcher matcher(grammar);
  matcher.allow_work(2000);
  const Matcher::State state = matcher.start();
  ASSERT_NE(state, Matcher::kNone);
  EXPECT_LT(matcher.size_bytes(), 100'000U);
  EXPECT_TRUE(reads(grammar, "1"));
  EXPECT_TRUE(reads(grammar, "2"));
  EXPECT_FALSE(reads(grammar, "3"));
}

// A rule of two calls, where the first one has something behind it: each way has its own frame.
GrammarPtr many_frames(int n_levels) {
  Builder builder;
  std::vector<RuleId> rules;
  for (int i = 0; i <= n_levels; ++i) rules.push_back(builder.add_rule());
  for (int i = 0; i < n_levels; ++i) {
    const Rule rule = builder.rule(rules[static_cast<std::size_t>(i)]);
    for (int way = 0; way < 2; ++way) {
      const NodeId back = builder.node_beside(rule.start);
      builder.call(rule.start, rules[static_cast<std::size_t>(i) + 1], back);
      builder.edge(back, 'x', 'x', rule.end);
    }
  }
  const Rule last = builder.rule(rules.back());
  builder.edge(last.start, 'a', 'a', last.end);
  return std::move(builder).finish().value_or_throw();
}

TEST(Matcher, StopsWithinOneClosure) {
  const GrammarPtr fine = many_frames(5);
  EXPECT_TRUE(reads(fine, "axxxxx"));
  const GrammarPtr grammar = many_frames(60);
  Matcher matcher(grammar);
  matcher.allow_work(10'000);
  EXPECT_EQ(matcher.start(), Matcher::kNone);
  EXPECT_TRUE(matcher.is_exhausted());
  EXPECT_EQ(matcher.work_left(), 0U);
  EXPECT_LT(matcher.size_bytes(), std::size_t{4} << 20);
  // With work enough, the memory stops it.
  matcher.allow_work(UINT64_MAX);
  EXPECT_EQ(matcher.start(), Matcher::kNone);
  EXPECT_TRUE(matcher.is_exhausted());
  EXPECT_LT(matcher.size_bytes(), 2 * Matcher::kMaxBytes);
}

// The same while bytes are read.
TEST(Matcher, StopsWhereEachByteDoublesTheFrames) {
  const auto grammar = schema_text_grammar(two_ways(30, R"({"type":"array","items":)", "}"));
  ASSERT_TRUE(grammar) << grammar.error().message;
  Matcher matcher(*grammar);
  matcher.allow_work(200'000);
  Matcher::State state = matcher.start();
  int n = 0;
  while (state != Matcher::kNone && n < 30) {
    state = matcher.next(state, '[');
    ++n;
  }
  EXPECT_EQ(state, Matcher::kNone);
  EXPECT_TRUE(matcher.is_exhausted());
}

// One place with very many edges or jumps is not one piece of work.
TEST(Matcher, CountsEdgesAndJumps) {
  for (const bool jumps : {false, true}) {
    Builder builder;
    const Rule rule = builder.rule(builder.add_rule());
    const NodeId begin = builder.node_beside(rule.start);
    const NodeId ways[] = {builder.node_beside(begin), builder.node_beside(begin)};
    builder.edge(rule.start, 'a', 'a', begin);
    for (int i = 0; i < 20'000; ++i) {
      const NodeId way = ways[i % 2];
      if (jumps) builder.jump(begin, way);
      if (!jumps) builder.edge(begin, 'b', 'b', way);
    }
    for (const NodeId way : ways) builder.edge(way, 'c', 'c', rule.end);
    const GrammarPtr grammar = std::move(builder).finish().value_or_throw();
    Matcher matcher(grammar);
    matcher.allow_work(10'000);
    Matcher::State state = matcher.next(matcher.start(), 'a');
    if (!jumps) state = matcher.next(state, 'b');
    EXPECT_EQ(state, Matcher::kNone);
    EXPECT_TRUE(matcher.is_exhausted());
    EXPECT_TRUE(reads(grammar, jumps ? "ac" : "abc"));
  }
}

TEST(Schema, WhatIsWrittenVeryOftenIsRefused) {
  std::string any;
  for (int i = 0; i < 60'000; ++i) any += i == 0 ? "{}" : ",{}";
  // Each is made or refused without a look at all others.
  (void)schema_text_grammar(R"({"enum":[)" + any + "]}");
  (void)schema_text_grammar(R"({"anyOf":[)" + any + "]}");
}

// Questions whether schemas exclude each other are counted by what they read.
TEST(Schema, OneOfStopsWhereItReadsTooMuch) {
  const auto refused = [](const std::string& schema) {
    const auto grammar = schema_text_grammar(schema);
    ASSERT_FALSE(grammar);
    EXPECT_NE(grammar.error().message.find("may fulfil both"), std::string::npos)
        << grammar.error().message;
  };
  const auto list_of = [](int n, const std::string& item) {
    std::string list;
    for (int i = 0; i < n; ++i) list += (i == 0 ? "" : ",") + item;
    return "[" + list + "]";
  };
  const std::string numbers = list_of(40'000, "1");
  // Long lists of values whose kinds are wanted.
  refused(R"({"oneOf":[{"type":"boolean"},{"anyOf":)" + list_of(50, R"({"$ref":"#/$defs/a"})") +
          R"(}],"$defs":{"a":{"enum":)" + numbers + "}}}");
  // Long values that differ at their ends.
  refused(R"({"oneOf":[{"anyOf":)" + list_of(20, R"({"$ref":"#/$defs/a"})") + R"(},{"anyOf":)" +
          list_of(20, R"({"$ref":"#/$defs/b"})") + R"(}],"$defs":{"a":{"const":[)" +
          numbers.substr(1, numbers.size() - 2) + R"(,2]},"b":{"const":[)" +
          numbers.substr(1, numbers.size() - 2) + ",3]}}}");
  // Long lists of required names.
  std::string names, properties;
  for (int i = 0; i < 2000; ++i) {
    const std::string name = (i == 0 ? "\"n" : ",\"n") + std::to_string(i) + "\"";
    names += name;
    properties += name + ":{\"type\":\"null\"}";
  }
  const std::string object =
      R"({"type":"object","properties":{)" + properties + R"(},"required":[)" + names + "]";
  const std::string with_kind = [&] {
    std::string text = object;
    text.insert(text.find(R"(},"required)"), R"(,"kind":{"const":1})");
    return text.insert(text.size() - 1, R"(,"kind")") + "}";
  }();
  std::string other_kind = with_kind;
  other_kind.replace(other_kind.find(R"("const":1)"), 9, R"("const":2)");
  refused(R"({"oneOf":[)" + with_kind + "," + other_kind + "]}");
  // Long references.
  const std::string name(50'000, 'x');
  refused(R"({"oneOf":[{"type":"null"},{"anyOf":)" + list_of(300, R"({"$ref":"#/$defs/m"})") +
          R"(}],"$defs":{"m":{"anyOf":[{"$ref":"#/$defs/)" + name + R"("}]},")" + name +
          R"(":{"type":"string"}}})");
  // What real schemas ask is answered.
  std::string kinds;
  for (int i = 0; i < 100; ++i) {
    kinds += (i == 0 ? "" : ",") +
             (R"({"type":"object","properties":{"kind":{"const":"k)" + std::to_string(i)) +
             R"("}},"required":["kind"]})";
  }
  EXPECT_TRUE(schema_text_grammar(R"({"oneOf":[)" + kinds + "]}"));
}

}  // namespace
}  // namespace munia::grammar
