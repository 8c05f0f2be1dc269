#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace munia {
namespace {

// Writes "\xE2\x82|A" style readable results: U+FFFD as '?', the rest as it is.
std::string shown(std::string_view text) {
  std::string out;
  const std::string replaced = replace_invalid_utf8(text);
  for (std::size_t i = 0; i < replaced.size();) {
    if (replaced.compare(i, 3, kReplacementCharacter) == 0) {
      out += '?';
      i += 3;
    } else {
      out += replaced[i++];
    }
  }
  return out;
}

// The Unicode Standard, section 3.9, "U+FFFD substitution of maximal subparts".
TEST(Utf8, ReplacesMaximalSubpartsAsUnicodesTables) {
  // Table 3-8: non-shortest forms.
  EXPECT_EQ(shown("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), "????????A");
  // Table 3-9: surrogates.
  EXPECT_EQ(shown("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), "????????A");
  // Table 3-10: other ill-formed sequences.
  EXPECT_EQ(shown("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), "?????A??B");
  // Table 3-11: truncated sequences.
  EXPECT_EQ(shown("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "????A");
  // The example of the same section.
  EXPECT_EQ(shown("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"), "a???b?c??d");
}

TEST(Utf8, KeepsWellFormedText) {
  for (const char* text :
       {"", "a", "今天的实验终于成功了，太棒了！", "é", "e\u0301", "👨‍👩‍👧", "𠮷霓",
        "\xEF\xBF\xBD", "\xF4\x8F\xBF\xBF", "\xED\x9F\xBF", "\xEE\x80\x80"}) {
    EXPECT_EQ(replace_invalid_utf8(text), text);
    EXPECT_FALSE(find_invalid_utf8(text).has_value());
  }
  const std::string_view zero("a\0b", 3);
  EXPECT_EQ(replace_invalid_utf8(zero), zero);
}

TEST(Utf8, RoundTripsEveryCodePoint) {
  for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, code_point);
    const Utf8Char c = decode_utf8(text, 0);
    ASSERT_TRUE(c.valid) << static_cast<unsigned>(code_point);
    ASSERT_EQ(c.code_point, code_point);
    ASSERT_EQ(static_cast<std::size_t>(c.length), text.size());
  }
  for (const char32_t bad : {char32_t{0xD800}, char32_t{0xDFFF}, char32_t{0x110000}}) {
    std::string text;
    append_utf8(text, bad);
    EXPECT_EQ(text, kReplacementCharacter);
  }
}

// Counts the valid sequences of every length: any over- or under-acceptance shows as a wrong sum.
TEST(Utf8, AcceptsExactlyTheWellFormedSequences) {
  std::int64_t n_valid[5] = {};
  std::string text(4, '\0');
  for (int b0 = 0; b0 < 256; ++b0) {
    for (int b1 = 0; b1 < 256; ++b1) {
      text[0] = static_cast<char>(b0);
      text[1] = static_cast<char>(b1);
      for (int b2 = 0; b2 < 256; ++b2) {
        text[2] = static_cast<char>(b2);
        text[3] = '\x80';
        const Utf8Char c = decode_utf8(text, 0);
        ASSERT_GE(c.length, 1);
        ASSERT_LE(c.length, 4);
        ASSERT_FALSE(c.incomplete);
        if (c.valid) ++n_valid[c.length];
      }
    }
  }
  EXPECT_EQ(n_valid[1], 128 * 65536);
  EXPECT_EQ(n_valid[2], (0x800 - 0x80) * 256);
  EXPECT_EQ(n_valid[3], 0x10000 - 0x800 - 0x800);
  EXPECT_EQ(n_valid[4], (0x110000 - 0x10000) / 64);  // the last byte is fixed
}

TEST(Utf8, TellsIncompleteFromBroken) {
  const std::string crane = "\xF0\x9F\x95\x8A";
  for (std::size_t cut = 1; cut < crane.size(); ++cut) {
    const Utf8Char c = decode_utf8(std::string_view(crane).substr(0, cut), 0);
    EXPECT_FALSE(c.valid);
    EXPECT_TRUE(c.incomplete);
    EXPECT_EQ(static_cast<std::size_t>(c.length), cut);
    const Utf8Char followed = decode_utf8(crane.substr(0, cut) + "x", 0);
    EXPECT_FALSE(followed.valid);
    EXPECT_FALSE(followed.incomplete);
    EXPECT_EQ(static_cast<std::size_t>(followed.length), cut);
  }
  EXPECT_FALSE(decode_utf8("\xE0\x80", 0).incomplete);  // overlong: no byte can mend it
  EXPECT_FALSE(decode_utf8("\xFF", 0).incomplete);
  EXPECT_FALSE(decode_utf8("\x80", 0).incomplete);
}

TEST(Utf8, Blank) {
  for (const char* text : {"", " ", "\t\r\n\v\f", "　", "\xC2\xA0 　"}) {
    EXPECT_TRUE(is_blank(text)) << text;
  }
  for (const char* text : {"a", " 好 ", "　.", "\xFF", "\xE3\x80"})
    EXPECT_FALSE(is_blank(text)) << text;
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(find_invalid_utf8("好\xFF\xFE"), 3U);
  EXPECT_EQ(find_invalid_utf8("ab\xE5\xA5"), 2U);
  EXPECT_EQ(find_invalid_utf8("\x80"), 0U);
}

}  // namespace
}  // namespace munia
