#include "server/body_reader.h"

#include <gtest/gtest.h>

#include "server/answers.h"

namespace munia::server {
namespace {

std::string param_of(const BodyReader& body) { return body.error() ? body.error()->param : "-"; }

TEST(BodyReader, ReadsTypedFields) {
  BodyReader body(R"({"s":"好","b":true,"i":3,"j":4.0,"n":0.5,"l":["a","b"],"t":[1,2],"z":null})");
  EXPECT_EQ(body.string("s"), "好");
  EXPECT_EQ(body.boolean("b"), true);
  EXPECT_EQ(body.integer("i", 1, 3), 3);
  EXPECT_EQ(body.integer("j", 0, 9), 4);
  EXPECT_EQ(body.number("n", 0, 1), 0.5);
  EXPECT_EQ(body.strings("l"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(body.strings("s"), (std::vector<std::string>{"好"}));
  EXPECT_EQ(body.ids("t", 3), (std::vector<std::int32_t>{1, 2}));
  EXPECT_FALSE(body.has("z"));
  EXPECT_EQ(body.string("z"), std::nullopt);
  EXPECT_EQ(body.string("none"), std::nullopt);
  EXPECT_TRUE(body.ok());
}

TEST(BodyReader, KeepsTheFirstMistake) {
  BodyReader body(R"({"a":1,"b":"x"})");
  EXPECT_EQ(body.string("a"), std::nullopt);
  EXPECT_EQ(body.integer("b", 0, 1), std::nullopt);
  EXPECT_EQ(param_of(body), "a");
  EXPECT_EQ(body.error()->message, "\"a\" must be a string");
}

TEST(BodyReader, RefusesWrongTypesAndRanges) {
  const auto refused = [](const char* json, const auto& read) {
    BodyReader body(json);
    read(body);
    return param_of(body) == "a";
  };
  for (const char* json :
       {R"({"a":0})", R"({"a":11})", R"({"a":1.5})", R"({"a":"1"})", R"({"a":[1]})",
        R"({"a":1e300})", R"({"a":99999999999999999999})", R"({"a":true})"}) {
    EXPECT_TRUE(refused(json, [](BodyReader& b) { (void)b.integer("a", 1, 10); })) << json;
  }
  for (const char* json : {R"({"a":1e999})", R"({"a":-0.1})", R"({"a":"0"})", R"({"a":2})"}) {
    EXPECT_TRUE(refused(json, [](BodyReader& b) { (void)b.number("a", 0, 1); })) << json;
  }
  for (const char* json : {R"({"a":[1,"b"]})", R"({"a":{}})", R"({"a":3})"}) {
    EXPECT_TRUE(refused(json, [](BodyReader& b) { (void)b.strings("a"); })) << json;
  }
  for (const char* json : {R"({"a":[-1]})", R"({"a":[9]})", R"({"a":["1"]})", R"({"a":1})"}) {
    EXPECT_TRUE(refused(json, [](BodyReader& b) { (void)b.ids("a", 9); })) << json;
  }
  EXPECT_TRUE(refused("{}", [](BodyReader& b) { (void)b.required_string("a"); }));
}

TEST(BodyReader, RefusesWhatIsNotAnObject) {
  for (const std::string& json :
       {std::string(), std::string("["), std::string("[]"), std::string("1"), std::string("{} {}"),
        std::string("{\"a\":\"\xff\"}"), std::string(100, '['), std::string("\xEF\xBB\xBF{}")}) {
    BodyReader body(json);
    ASSERT_FALSE(body.ok()) << json;
    EXPECT_EQ(body.error()->code, "invalid_json");
    EXPECT_EQ(body.string("a"), std::nullopt);
  }
}

TEST(BodyReader, DepthHasALimit) {
  const auto deep = [](int n) {
    return "{\"a\":" + std::string(static_cast<std::size_t>(n), '[') +
           std::string(static_cast<std::size_t>(n), ']') + "}";
  };
  EXPECT_TRUE(BodyReader(deep(63)).ok());
  EXPECT_FALSE(BodyReader(deep(64)).ok());
}

TEST(Stops, AreFewAndShort) {
  const auto json = [](std::size_t n, std::size_t size) {
    std::string list;
    for (std::size_t i = 0; i < n; ++i) {
      list += (i == 0 ? "\"" : ",\"") + std::string(size, 'x') + "\"";
    }
    return "{\"stop\":[" + list + "]}";
  };
  const auto status = [](const std::string& text) {
    BodyReader body(text);
    (void)read_stops(body);
    return body.ok() ? 200 : body.error()->status;
  };
  EXPECT_EQ(status("{}"), 200);
  EXPECT_EQ(status(json(16, 1024)), 200);
  EXPECT_EQ(status(json(17, 1)), 400);
  EXPECT_EQ(status(json(1, 1025)), 400);
}

TEST(Template, OnlyTheServerSetsSpecialTokens) {
  BodyReader body(
      R"({"messages":[],"chat_template_kwargs":{"bos_token":"<|x|>","enable_thinking":false}})");
  const boost::json::object context = render_context(body);
  EXPECT_TRUE(body.ok());
  EXPECT_FALSE(context.contains("bos_token"));
  EXPECT_TRUE(context.contains("enable_thinking"));
}

TEST(Sampling, FieldsReplaceDefaults) {
  BodyReader body(R"({"temperature":0.5,"top_k":7,"seed":9,"repetition_penalty":1.2})");
  decode::SamplingParams sampling;
  sampling.top_p = 0.9F;
  read_sampling(body, sampling);
  ASSERT_TRUE(body.ok());
  EXPECT_FLOAT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.seed, 9U);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty, 1.2F);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.9F);
}

TEST(Sampling, MinusOneIsOffOrAny) {
  BodyReader body(R"({"top_k":-1,"seed":-1})");
  decode::SamplingParams sampling;
  sampling.top_k = 5;
  read_sampling(body, sampling);
  EXPECT_TRUE(body.ok());
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.seed, 0U) << "greedy: nothing is drawn";
}

TEST(Sampling, WrongValuesAreRefused) {
  for (const char* json : {R"({"temperature":-1})", R"({"top_p":0})", R"({"min_p":1})",
                           R"({"seed":-2})", R"({"top_k":-2})", R"({"presence_penalty":3})"}) {
    BodyReader body(json);
    decode::SamplingParams sampling;
    read_sampling(body, sampling);
    EXPECT_FALSE(body.ok()) << json;
  }
}

}  // namespace
}  // namespace munia::server
