// The packed form of a tokenizer: the same ids as from its own files, and damage is refused or
// harmless, wherever it is.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "text/tokenizer.h"

namespace munia::text {
namespace {

namespace json = boost::json;

const std::string kData = std::string(MUNIA_SOURCE_DIR) + "/tests/data/tokenizer/";

std::string read(const std::string& name) {
  return read_file(kData + name, 1 << 20).value_or_throw();
}

Result<std::unique_ptr<Tokenizer>> unpack(const std::string& packed) {
  return Tokenizer::from_packed(std::as_bytes(std::span(packed.data(), packed.size())), "p");
}

std::vector<std::string> texts() {
  return json::value_to<std::vector<std::string>>(json::parse(read("texts.json")));
}

class PackedTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(PackedTokenizer, IsTheSameTokenizer) {
  const auto source = Tokenizer::from_json(read(std::string(GetParam()) + ".json"), "f");
  ASSERT_TRUE(source.ok());
  const std::string packed = (*source)->pack();
  const auto made = unpack(packed);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const Tokenizer& a = **source;
  const Tokenizer& b = **made;
  EXPECT_EQ(b.pack(), packed);
  ASSERT_EQ(a.vocab_size(), b.vocab_size());
  EXPECT_EQ(a.eos_token(), b.eos_token());
  EXPECT_EQ(a.bos_token(), b.bos_token());
  EXPECT_EQ(a.adds_bos(), b.adds_bos());
  for (TokenId id = 0; id < a.vocab_size(); ++id) {
    ASSERT_EQ(a.token_bytes(id), b.token_bytes(id)) << id;
    ASSERT_EQ(a.is_special(id), b.is_special(id)) << id;
    ASSERT_EQ(a.find(a.token_bytes(id)), b.find(a.token_bytes(id))) << id;
  }
  for (const std::string& text : texts()) {
    ASSERT_EQ(*a.encode(text), *b.encode(text)) << text;
    ASSERT_EQ(*a.encode_with_special(text), *b.encode_with_special(text)) << text;
    ASSERT_EQ(*a.encode(MarkedText::from_template(text)),
              *b.encode(MarkedText::from_template(text)))
        << text;
  }
}

TEST_P(PackedTokenizer, EveryTruncationIsRefused) {
  const std::string packed =
      (*Tokenizer::from_json(read(std::string(GetParam()) + ".json"), "f"))->pack();
  for (std::size_t size = 0; size < packed.size(); size += 1 + packed.size() / 500) {
    const auto made = unpack(packed.substr(0, size));
    ASSERT_FALSE(made.ok()) << size;
    ASSERT_NE(made.error().message.find("p: the packed tokenizer"), std::string::npos)
        << made.error().message;
  }
  EXPECT_FALSE(unpack(packed + "x").ok());
  std::string newer = packed;
  newer[0] = 2;
  EXPECT_NE(unpack(newer).error().message.find("version 2"), std::string::npos);
}

TEST_P(PackedTokenizer, AFlippedByteIsRefusedOrHarmless) {
  const std::string packed =
      (*Tokenizer::from_json(read(std::string(GetParam()) + ".json"), "f"))->pack();
  const std::vector<std::string> all = texts();
  for (std::size_t i = 0; i < packed.size(); i += 1 + packed.size() / 1000) {
    std::string damaged = packed;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x91);
    const auto made = unpack(damaged);
    if (!made) continue;
    for (std::size_t t = 0; t < all.size(); t += 10) {
      const auto ids = (*made)->encode_with_special(all[t]);
      ASSERT_TRUE(ids.ok());
      for (const TokenId id : *ids) {
        ASSERT_TRUE(id >= 0 && id < (*made)->vocab_size());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PackedTokenizer,
                         testing::Values("qwen2", "smollm2", "llama3", "gpt2"));

}  // namespace
}  // namespace munia::text
