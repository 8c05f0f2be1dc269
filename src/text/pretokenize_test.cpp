// The scanners and NFC against the pieces that Hugging Face cuts (tests/data/tokenizer/SOURCE.md).
#include "text/pretokenize.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "text/normalize.h"
#include "text/unicode.h"

namespace munia::text {
namespace {

namespace json = boost::json;

json::value read(const std::string& name) {
  const std::string path = std::string(MUNIA_SOURCE_DIR) + "/tests/data/tokenizer/" + name;
  return json::parse(read_file(path, 1 << 20).value_or_throw());
}

void cut(const std::vector<SplitStep>& steps, std::size_t step, std::string_view text,
         std::vector<std::size_t>& sizes) {
  if (step == steps.size()) {
    sizes.push_back(text.size());
    return;
  }
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = piece_end(steps[step], text, begin);
    ASSERT_GT(end, begin);
    ASSERT_LE(end, text.size());
    cut(steps, step + 1, text.substr(begin, end - begin), sizes);
    begin = end;
  }
}

TEST(Pretokenize, PiecesEqualTheReference) {
  struct Case {
    std::string name;
    std::vector<SplitStep> steps;
    bool nfc;
  };
  const Case cases[] = {{"qwen2", {SplitStep::kQwen2}, true},
                        {"qwen35", {SplitStep::kQwen35}, true},
                        {"llama3", {SplitStep::kLlama3}, false},
                        {"smollm2", {SplitStep::kDigits, SplitStep::kGpt2}, false},
                        {"gpt2", {SplitStep::kGpt2}, false}};
  const auto texts = json::value_to<std::vector<std::string>>(read("texts.json"));
  for (const Case& c : cases) {
    const json::value golden = read(c.name + ".ids.json");
    const json::array& pieces = golden.at("pieces").as_array();
    ASSERT_EQ(pieces.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::string text = texts[i];
      if (c.nfc) {
        std::string normalized;
        std::string unused;
        normalize_nfc(text, {}, normalized, unused);
        if (is_surely_nfc(text)) {
          EXPECT_EQ(normalized, text);
        }
        text = normalized;
      }
      std::vector<std::size_t> sizes;
      cut(c.steps, 0, text, sizes);
      EXPECT_EQ(sizes, json::value_to<std::vector<std::size_t>>(pieces[i]))
          << c.name << ": " << texts[i];
    }
  }
}

TEST(Pretokenize, UnknownExpressionsAreNotGuessed) {
  EXPECT_EQ(split_step_of_regex(""), std::nullopt);
  EXPECT_EQ(split_step_of_regex("\\s+"), std::nullopt);
  EXPECT_EQ(split_step_of_regex("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+"), std::nullopt);
}

TEST(Normalize, MarksOfTrustFollowTheText) {
  std::string out;
  std::string trusted;
  //            a   e U+0301  b   o U+0308
  normalize_nfc("ae\u0301bo\u0308", std::string_view("\1\1\1\1\0\0\0\0", 8), out, trusted);
  EXPECT_EQ(out, "a\u00e9b\u00f6");
  EXPECT_EQ(trusted, std::string("\1\1\1\0\0\0", 6));
  out.clear();
  trusted.clear();
  normalize_nfc("e\u0301", std::string_view("\1\0\0", 3), out, trusted);
  EXPECT_EQ(trusted, std::string(2, '\0'));  // joined with a user's mark: no longer trusted
}

TEST(Unicode, RangesAreSortedAndFound) {
  for (std::size_t i = 0; i < kClassRangesCount; ++i) {
    const ClassRange& range = kClassRanges[i];
    ASSERT_LE(range.first, range.last);
    if (i > 0) {
      ASSERT_GT(range.first, kClassRanges[i - 1].last);
    }
    ASSERT_EQ(char_class(range.first), range.bits);
    ASSERT_EQ(char_class(range.last), range.bits);
  }
  EXPECT_EQ(char_class(0x10FFFF), 0);
  EXPECT_EQ(char_class(0x110000), 0);
  EXPECT_EQ(char_class(U'中') & (kLetter | kNumber), kLetter);
  EXPECT_EQ(char_class(0x10D4A) & kLetter, kLetter);  // new in Unicode 16
}

}  // namespace
}  // namespace munia::text
