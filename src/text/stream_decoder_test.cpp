// The stream decoder: whatever way the bytes come, the joined output is that of the whole.
#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/utf8.h"

namespace munia::text {
namespace {

// Splits `bytes` after each position whose bit is set in `cuts`.
std::string decode_in_parts(const std::string& bytes, std::uint64_t cuts, bool& whole_characters) {
  StreamDecoder decoder;
  std::string out;
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= bytes.size(); ++i) {
    if (i < bytes.size() && (cuts >> (i - 1) & 1) == 0) continue;
    const std::string part = decoder.push(std::string_view(bytes).substr(begin, i - begin));
    whole_characters = whole_characters && !find_invalid_utf8(part);
    out += part;
    begin = i;
  }
  return out + decoder.finish();
}

const std::vector<std::string> kCases = {
    "",
    "plain",
    "霓",
    "𠮷",
    "é霓",
    "a𠮷b",
    "👨\u200d👩\u200d👧",
    "🏳️\u200d🌈",
    "🇩🇪",
    "\xFF",
    "a\xFF\xFE"
    "b",
    "\x80\x80",
    "\xC0\xAF",          // overlong
    "\xED\xA0\x80",      // a surrogate
    "\xF4\x90\x80\x80",  // above U+10FFFF
    "\xF5\x80",
    "霓\xE9\x9C",  // tails cut off
    "\xF0\xA0\xAE",
    "\xF0\xA0",
    "\xF0",
    "\xF0\x80\x80",
    "\xE9\x9C\xE9\x9C\x93",  // a broken character, then a whole one
    "\xF0\xA0\xAE"
    "a\xC3",
    "\xEF\xBF\xBD",  // U+FFFD itself
};

TEST(StreamDecoder, EverySplitGivesTheTextOfTheWhole) {
  std::size_t n_splits = 0;
  for (const std::string& bytes : kCases) {
    const std::string whole = replace_invalid_utf8(bytes);
    ASSERT_LE(bytes.size(), 20u);
    const std::uint64_t n_cuts = bytes.empty() ? 1 : std::uint64_t{1} << (bytes.size() - 1);
    for (std::uint64_t cuts = 0; cuts < n_cuts; ++cuts) {
      bool whole_characters = true;
      ASSERT_EQ(decode_in_parts(bytes, cuts, whole_characters), whole) << "cuts " << cuts;
      ASSERT_TRUE(whole_characters) << whole << ", cuts " << cuts;
      ++n_splits;
    }
  }
  EXPECT_GT(n_splits, 100'000u);
}

TEST(StreamDecoder, HoldsBackOnlyWhatMayBecomeWhole) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.push("a\xE9"), "a");
  EXPECT_EQ(decoder.push("\x9C"), "");
  EXPECT_EQ(decoder.push("\x93z"), "霓z");
  EXPECT_EQ(decoder.push("\xF0\x28"), "\uFFFD(");  // cannot become whole: not held
  EXPECT_EQ(decoder.push("\xE2\x82"), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(decoder.push("ok"), "ok");
}

}  // namespace
}  // namespace munia::text
