// Sampler::distribution against transformers (tests/data/sampler/SOURCE.md).
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "decode/sampler.h"

namespace munia::decode {
namespace {

namespace json = boost::json;

std::vector<std::int32_t> ids_of(const json::value& value) {
  return json::value_to<std::vector<std::int32_t>>(value);
}

SamplingParams params_of(const json::object& object) {
  SamplingParams params;
  const auto number = [&object](const char* name) { return object.at(name).to_number<float>(); };
  params.temperature = number("temperature");
  params.top_k = object.at("top_k").to_number<std::int64_t>();
  params.top_p = number("top_p");
  params.min_p = number("min_p");
  params.repetition_penalty = number("repetition_penalty");
  params.presence_penalty = number("presence_penalty");
  params.frequency_penalty = number("frequency_penalty");
  for (const json::value& entry : object.at("logit_bias").as_array()) {
    params.logit_bias.emplace_back(entry.as_array()[0].to_number<std::int32_t>(),
                                   entry.as_array()[1].to_number<float>());
  }
  return params;
}

TEST(SamplerGolden, DistributionsEqualTransformers) {
  const std::string path = std::string(MUNIA_SOURCE_DIR) + "/tests/data/sampler/cases.json";
  const auto text = read_file(path, 1 << 20);
  ASSERT_TRUE(text.ok()) << text.error().message;
  const json::value cases = json::parse(*text);
  ASSERT_GE(cases.as_array().size(), 30U);
  int index = 0;
  for (const json::value& value : cases.as_array()) {
    SCOPED_TRACE("case " + std::to_string(index++));
    const json::object& object = value.as_object();
    const SamplingParams params = params_of(object.at("params").as_object());
    std::vector<float> logits;
    for (const json::value& logit : object.at("logits").as_array()) {
      logits.push_back(logit.is_null() ? -std::numeric_limits<float>::infinity()
                                       : logit.to_number<float>());
    }
    const auto vocab_size = static_cast<std::int64_t>(logits.size());
    ASSERT_TRUE(validate(params, vocab_size).ok());
    Sampler sampler(params, ids_of(object.at("prompt")), vocab_size);
    for (const std::int32_t id : ids_of(object.at("generated"))) sampler.accept(id);
    const std::vector<double> probabilities = sampler.distribution(logits);
    const auto expected = json::value_to<std::vector<double>>(object.at("probabilities"));
    ASSERT_EQ(probabilities.size(), expected.size());
    double sum = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // float32 with fewer than 2^6 terms against double; which tokens stay must agree exactly.
      EXPECT_NEAR(probabilities[i], expected[i], 1e-6) << "token " << i;
      EXPECT_EQ(probabilities[i] == 0, expected[i] == 0) << "token " << i;
      sum += probabilities[i];
    }
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

}  // namespace
}  // namespace munia::decode
