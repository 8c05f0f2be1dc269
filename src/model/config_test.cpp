// Configurations of every architecture: what the readers take from Hugging Face's and GGUF's keys,
// and that what is not computed is refused by name. Each case is one change to a right file.
#include "model/config.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <variant>

#include "model/architecture.h"
#include "model/rope.h"

namespace munia::model {
namespace {

namespace json = boost::json;

// ---- Hugging Face
// --------------------------------------------------------------------------------

/// A config.json that is right; `changes` are merged over it, null and all.
Result<ModelConfig> read_hf(const std::string& changes) {
  json::object config = json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 400, "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu"})")
                            .as_object();
  const json::value parsed = json::parse(changes);
  for (const auto& change : parsed.as_object()) {
    config[change.key()] = change.value();
  }
  const std::filesystem::path dir =
      std::filesystem::path(testing::TempDir()) /
      ("munia_config_" +
       std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
  std::filesystem::create_directories(dir);
  std::ofstream(dir / "config.json") << json::serialize(config);
  Result<ModelConfig> result = config_from_directory(dir.string());
  std::filesystem::remove_all(dir);
  return result;
}

ModelConfig hf(const std::string& changes) { return read_hf(changes).value_or_throw(); }

struct Refusal {
  std::string changes;
  ErrorCode code;
  std::vector<std::string> words;  // that the message holds
};

template <class Read>
void expect_refusals(const std::vector<Refusal>& refusals, const Read& read) {
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.changes);
    const Result<ModelConfig> result = read(refusal.changes);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, refusal.code) << result.error().message;
    for (const std::string& word : refusal.words) {
      EXPECT_NE(result.error().message.find(word), std::string::npos)
          << "\"" << word << "\" is not in: " << result.error().message;
    }
    EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
  }
}

TEST(ConfigOfDirectories, ArchitecturesAreFoundByClassOrType) {
  EXPECT_EQ(hf("{}").architecture, "llama");
  EXPECT_EQ(hf(R"({"architectures": ["Qwen3ForCausalLM"]})").architecture, "qwen3");
  EXPECT_EQ(hf(R"({"architectures": ["MistralForCausalLM"]})").architecture, "mistral");
  EXPECT_EQ(hf(R"({"architectures": null, "model_type": "qwen2"})").architecture, "qwen2");
}

TEST(ConfigOfDirectories, HeadsHaveASizeOfTheirOwn) {
  EXPECT_EQ(hf("{}").head_dim, 16);
  EXPECT_EQ(hf(R"({"head_dim": 48})").head_dim, 48);
  EXPECT_EQ(hf(R"({"head_dim": null})").head_dim, 16);
  EXPECT_EQ(hf(R"({"architectures": ["Qwen3ForCausalLM"]})").head_dim, 128);
  EXPECT_EQ(hf(R"({"architectures": ["Qwen3ForCausalLM"], "head_dim": 32})").head_dim, 32);
}

TEST(ConfigOfDirectories, TheContextEndsWithTheWindowOfAttention) {
  const std::string mistral = R"({"architectures": ["MistralForCausalLM"])";
  EXPECT_EQ(hf(mistral + R"(, "sliding_window": 512})").context_length, 512);
  EXPECT_EQ(hf(mistral + R"(, "sliding_window": 9000})").context_length, 8192);
  EXPECT_EQ(hf(mistral + R"(, "sliding_window": null})").context_length, 8192);
  EXPECT_EQ(hf(mistral + "}").context_length, 4096);  // MistralConfig's default
  for (const std::string name : {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    const std::string qwen = R"({"architectures": [")" + name + R"("], "sliding_window": 1000)";
    EXPECT_EQ(hf(qwen + "}").context_length, 8192);
    EXPECT_EQ(hf(qwen + R"(, "use_sliding_window": false})").context_length, 8192);
    EXPECT_EQ(hf(qwen + R"(, "use_sliding_window": true})").context_length, 1000);
  }
  EXPECT_EQ(hf(R"({"sliding_window": 512})").context_length, 8192);  // means nothing to Llama
}

TEST(ConfigOfDirectories, RopeScaling) {
  EXPECT_TRUE(hf("{}").rope_inv_freq.empty());
  EXPECT_TRUE(hf(R"({"rope_scaling": {"type": "default"}})").rope_inv_freq.empty());
  EXPECT_EQ(hf(R"({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}})").rope_theta,
            5e5F);
  std::vector<float> linear = inverse_frequencies(16, 10000.0F);
  scale_linear(4.0, linear);
  EXPECT_EQ(hf(R"({"rope_scaling": {"type": "linear", "factor": 4.0}})").rope_inv_freq, linear);

  std::vector<float> expected = inverse_frequencies(16, 500000.0F);
  scale_llama3({8.0, 1.0, 4.0, 8192.0}, expected);
  EXPECT_NE(expected, inverse_frequencies(16, 500000.0F));
  const std::string factors = R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0)";
  const std::string original = R"("original_max_position_embeddings": 8192)";
  const std::string old_place = R"({"max_position_embeddings": 131072, "rope_theta": 500000.0,
    "rope_scaling": {"rope_type": "llama3", )";
  const std::string new_place = R"({"max_position_embeddings": 131072, "rope_parameters":
    {"rope_type": "llama3", "rope_theta": 500000.0, )";
  EXPECT_EQ(hf(old_place + factors + ", " + original + "}}").rope_inv_freq, expected);
  EXPECT_EQ(hf(new_place + factors + ", " + original + "}}").rope_inv_freq, expected);
  EXPECT_EQ(hf(new_place + factors + "}, " + original + "}").rope_inv_freq, expected);
  // Nowhere: the whole context.
  scale_llama3({8.0, 1.0, 4.0, 131072.0}, expected = inverse_frequencies(16, 500000.0F));
  EXPECT_EQ(hf(new_place + factors + "}}").rope_inv_freq, expected);
}

TEST(ConfigOfDirectories, WhatIsNotComputedIsRefused) {
  const std::string llama3 = R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0,
    "low_freq_factor": 1.0, "high_freq_factor": )";
  constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;
  constexpr ErrorCode kInvalid = ErrorCode::kInvalidData;
  expect_refusals(
      {
          {R"({"architectures": ["GemmaForCausalLM"]})",
           kUnsupported,
           {"\"GemmaForCausalLM\"", "qwen2 (Qwen2ForCausalLM)", "qwen3 (Qwen3ForCausalLM)",
            "llama (LlamaForCausalLM)", "mistral (MistralForCausalLM)"}},
          {R"({"architectures": ["a\nb"]})", kUnsupported, {"\"a\\x0ab\""}},
          {R"({"architectures": [], "model_type": "smollm3"})", kUnsupported, {"\"smollm3\""}},
          {R"({"rope_scaling": {"type": "yarn", "factor": 4.0}})",
           kUnsupported,
           {"\"yarn\"", "default, linear and llama3"}},
          {R"({"rope_scaling": {"type": "linear"}})", kInvalid, {"\"factor\" is missing"}},
          {R"({"rope_scaling": {"type": "linear", "factor": 0}})", kInvalid, {"\"factor\""}},
          {R"({"rope_scaling": {"type": "linear", "factor": "4"}})", kInvalid, {"not a number"}},
          {R"({"rope_scaling": {"type": "linear", "factor": 1e300}})", kInvalid, {"frequency 0."}},
          {R"({"rope_scaling": {"type": "linear", "factor": 1e-3}})", kInvalid, {"frequency 999."}},
          {R"({"rope_scaling": ["linear"]})", kInvalid, {"not an object"}},
          {llama3 + "1.0}}", kInvalid, {"\"high_freq_factor\" is not above"}},
          {llama3 + "null}}", kInvalid, {"\"high_freq_factor\" is missing"}},
          {R"({"partial_rotary_factor": 0.5})", kUnsupported, {"partial_rotary_factor"}},
          {R"({"rope_theta": 0.5})", kInvalid, {"rope base 0.5"}},
          {R"({"architectures": ["MistralForCausalLM"], "sliding_window": 0})",
           kInvalid,
           {"window is 0"}},
          {R"({"architectures": ["Qwen2ForCausalLM"], "use_sliding_window": true})",
           kInvalid,
           {"\"sliding_window\" is missing"}},
          {R"({"hidden_act": "gelu"})", kUnsupported, {"\"gelu\"", "silu"}},
          {R"({"head_dim": 24})", kInvalid, {"head size 24", "16"}},
          {R"({"num_key_value_heads": 3})", kInvalid, {"4 heads", "3 KV heads"}},
          {R"({"num_attention_heads": 0})", kInvalid, {"number of heads is 0"}},
          {R"({"attention_bias": 1})", kInvalid, {"\"attention_bias\""}},
      },
      read_hf);
}

TEST(ConfigOfDirectories, BiasesAreWhatTheFileSays) {
  EXPECT_FALSE(hf("{}").attention_bias || hf("{}").mlp_bias);
  EXPECT_TRUE(hf(R"({"attention_bias": true})").attention_bias);
  EXPECT_TRUE(hf(R"({"mlp_bias": true})").mlp_bias);
}

// ---- GGUF
// ----------------------------------------------------------------------------------------

using Value = std::variant<std::string, std::uint32_t, float>;
using Keys = std::map<std::string, Value>;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(std::string& out, const std::string& text) {
  put(out, std::uint64_t{text.size()});
  out += text;
}

/// A GGUF file of these keys, an embedding of 8 rows and, where there are any, rope factors.
std::string gguf_bytes(const Keys& keys, const std::vector<float>& factors) {
  std::string out = "GGUF";
  put(out, std::uint32_t{3});
  put(out, std::uint64_t{factors.empty() ? 1U : 2U});
  put(out, std::uint64_t{keys.size()});
  for (const auto& [key, value] : keys) {
    put_text(out, key);
    if (const auto* text = std::get_if<std::string>(&value)) {
      put(out, std::uint32_t{8});
      put_text(out, *text);
    } else if (const auto* number = std::get_if<std::uint32_t>(&value)) {
      put(out, std::uint32_t{4});
      put(out, *number);
    } else {
      put(out, std::uint32_t{6});
      put(out, std::get<float>(value));
    }
  }
  put_text(out, "token_embd.weight");
  put(out, std::uint32_t{2});
  put(out, std::uint64_t{64});
  put(out, std::uint64_t{8});
  put(out, std::uint32_t{0});
  put(out, std::uint64_t{0});
  if (!factors.empty()) {
    put_text(out, "rope_freqs.weight");
    put(out, std::uint32_t{1});
    put(out, std::uint64_t{factors.size()});
    put(out, std::uint32_t{0});
    put(out, std::uint64_t{64 * 8 * sizeof(float)});
  }
  out.resize((out.size() + 31) / 32 * 32, '\0');
  out.resize(out.size() + 64 * 8 * sizeof(float), '\0');
  for (const float factor : factors) put(out, factor);
  out.resize((out.size() + 31) / 32 * 32, '\0');
  return out;
}

/// Keys of a right file; those of `changes` take their place, "ARCH." standing for the prefix.
Result<ModelConfig> read_gguf(const std::string& architecture, const Keys& changes,
                              const std::vector<float>& factors = {}) {
  const std::string p = architecture + ".";
  Keys keys = {
      {"general.architecture", architecture}, {p + "block_count", 2U},
      {p + "context_length", 8192U},          {p + "embedding_length", 64U},
      {p + "feed_forward_length", 96U},       {p + "attention.head_count", 4U},
      {p + "attention.head_count_kv", 2U},    {p + "attention.layer_norm_rms_epsilon", 1e-5F},
  };
  for (const auto& [key, value] : changes) keys[p + key] = value;
  const std::string bytes = gguf_bytes(keys, factors);
  const auto file =
      files::GgufFile::parse(std::as_bytes(std::span(bytes)), "test.gguf").value_or_throw();
  return config_from_gguf(*file);
}

ModelConfig gguf(const Keys& changes, const std::vector<float>& factors = {}) {
  return read_gguf("llama", changes, factors).value_or_throw();
}

TEST(ConfigOfGguf, Architectures) {
  for (const std::string name : {"qwen2", "qwen3", "llama"}) {
    EXPECT_EQ(read_gguf(name, {}).value_or_throw().architecture, name);
  }
  // Converters write Mistral as "llama": a file of this name would be of another making.
  for (const std::string name : {"mistral", "gemma", "", "Qwen2ForCausalLM"}) {
    const Result<ModelConfig> result = read_gguf(name, {});
    ASSERT_FALSE(result) << name;
    EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(result.error().message.find("\"" + name + "\""), std::string::npos);
    EXPECT_NE(result.error().message.find("qwen3"), std::string::npos);
  }
}

TEST(ConfigOfGguf, HeadsWindowAndRope) {
  EXPECT_EQ(gguf({}).head_dim, 16);
  EXPECT_EQ(gguf({{"attention.key_length", 32U}, {"attention.value_length", 32U}}).head_dim, 32);
  EXPECT_EQ(gguf({{"attention.sliding_window", 500U}}).context_length, 500);
  EXPECT_EQ(gguf({{"rope.freq_base", 5e5F}}).rope_theta, 5e5F);
  EXPECT_TRUE(gguf({{"rope.scaling.type", "none"}}).rope_inv_freq.empty());
  EXPECT_TRUE(gguf({{"rope.scaling.factor", 0.0F}}).rope_inv_freq.empty());

  std::vector<float> linear = inverse_frequencies(16, 10000.0F);
  scale_linear(2.5, linear);
  for (const Keys& keys : std::vector<Keys>{
           {{"rope.scaling.type", "linear"}, {"rope.scaling.factor", 2.5F}},
           {{"rope.scaling.factor", 2.5F}},
           {{"rope.scale_linear", 2.5F}},
       }) {
    EXPECT_EQ(gguf(keys).rope_inv_freq, linear) << keys.begin()->first;
  }
  EXPECT_TRUE(
      gguf({{"rope.scaling.type", "none"}, {"rope.scaling.factor", 2.5F}}).rope_inv_freq.empty());

  const std::vector<float> factors = {1, 1, 1, 2, 3.5F, 8, 8, 8};
  const std::vector<float> found = gguf({}, factors).rope_inv_freq;
  const std::vector<float> plain = inverse_frequencies(16, 10000.0F);
  ASSERT_EQ(found.size(), factors.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], plain[i] / factors[i]);
}

TEST(ConfigOfGguf, WhatIsNotComputedIsRefused) {
  struct Case {
    Keys changes;
    std::vector<float> factors;
    ErrorCode code;
    std::string word;
  };
  for (const Case& c : std::vector<Case>{
           {{{"rope.scaling.type", "yarn"}}, {}, ErrorCode::kUnsupported, "\"yarn\""},
           {{{"rope.dimension_count", 8U}}, {}, ErrorCode::kUnsupported, "rotating 8 of 16"},
           {{{"attention.value_length", 32U}}, {}, ErrorCode::kUnsupported, "values of 32"},
           {{{"expert_count", 8U}}, {}, ErrorCode::kUnsupported, "8 experts"},
           {{{"rope.scaling.factor", -1.0F}}, {}, ErrorCode::kInvalidData, "frequency"},
           {{}, {1, 1, 1}, ErrorCode::kInvalidData, "8 numbers"},
           {{}, {1, 1, 1, 1, 1, 1, 1, 0}, ErrorCode::kInvalidData, "frequency inf"},
           {{}, {1, 1, 1, 1, 1, 1, 1, -1}, ErrorCode::kInvalidData, "frequency -"},
       }) {
    const Result<ModelConfig> result = read_gguf("llama", c.changes, c.factors);
    ASSERT_FALSE(result) << c.word;
    EXPECT_EQ(result.error().code, c.code) << result.error().message;
    EXPECT_NE(result.error().message.find(c.word), std::string::npos) << result.error().message;
  }
}

}  // namespace
}  // namespace munia::model
