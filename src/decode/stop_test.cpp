// demands.md row 19: stop text neither leaks, nor is lost, nor is sent twice, however it is cut.
#include "decode/stop.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/utf8.h"
#include "decode/random.h"

namespace munia::decode {
namespace {

struct Outcome {
  std::string text;
  bool stopped;
  bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << '"' << outcome.text << '"' << (outcome.stopped ? " stopped" : " ended");
}

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  std::string text;
  for (const std::string& piece : pieces) {
    const std::string shown = matcher.push(piece);
    EXPECT_FALSE(find_invalid_utf8(shown).has_value()) << "a cut inside a character";
    text += shown;
  }
  text += matcher.finish();
  return {text, matcher.stopped()};
}

// Looks at every end position in turn, and at each for the longest stop string that ends there.
Outcome naive(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (!stop.empty() && stop.size() <= end &&
          text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

TEST(Stop, DropsAStopStringSpreadOverPieces) {
  EXPECT_EQ(run({"\nUser:"}, {"Hi", "\n", "Us", "er", ": more", "again"}), (Outcome{"Hi", true}));
  EXPECT_EQ(run({"\n", "Alice:"}, {"Bob says Al", "ice", ":", " x"}), (Outcome{"Bob says ", true}));
  EXPECT_EQ(run({"\n", "Alice:"}, {"one\ntwo Alice:"}), (Outcome{"one", true}));
  EXPECT_EQ(run({"。"}, {"你", "好", "。", "再见"}), (Outcome{"你好", true}));
}

TEST(Stop, FlushesAPartialMatchThatNeverCompletes) {
  EXPECT_EQ(run({"\nUser:"}, {"Hi\nUse", "ful"}), (Outcome{"Hi\nUseful", false}));
  EXPECT_EQ(run({"\nUser:"}, {"Hi", "\nUser"}), (Outcome{"Hi\nUser", false}));
  EXPECT_EQ(run({"aab"}, {"a", "a", "a", "a", "b"}), (Outcome{"aa", true}));
  EXPECT_EQ(run({"好吗"}, {"你", "好", "好", "的"}), (Outcome{"你好好的", false}));
}

TEST(Stop, HoldsOnlyWhatMayBegin) {
  StopMatcher matcher({"\nUser:", "END"});
  EXPECT_EQ(matcher.push("Hello"), "Hello");
  EXPECT_EQ(matcher.push(" E"), " ");
  EXPECT_EQ(matcher.push("N"), "");
  EXPECT_EQ(matcher.push("O\nU"), "ENO");
  EXPECT_EQ(matcher.push("x"), "\nUx");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(Stop, GivesNothingAfterAMatch) {
  StopMatcher matcher({"x"});
  EXPECT_EQ(matcher.push("axb"), "a");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("c"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(Stop, WithoutStopStringsPassesAllAtOnce) {
  for (const std::vector<std::string>& stops :
       {std::vector<std::string>{}, {""}, {"\xFF"}, {"\xBF"}}) {
    StopMatcher matcher(stops);
    EXPECT_EQ(matcher.push("好a"), "好a");
    EXPECT_FALSE(matcher.stopped());
  }
}

// Stop strings that come together: the one complete first, then the longest.
TEST(Stop, TheFirstCompleteWins) {
  EXPECT_EQ(run({"abc", "b"}, {"xabc"}), (Outcome{"xa", true}));
  EXPECT_EQ(run({"bc", "abc"}, {"xabc"}), (Outcome{"x", true}));
  EXPECT_EQ(run({"ab", "abc"}, {"xabc"}), (Outcome{"x", true}));
}

// Every way to cut a text between its characters gives the naive search's answer.
TEST(Stop, EverySplitEqualsANaiveSearch) {
  const std::vector<std::vector<std::string>> stop_sets = {
      {"\nUser:"},    {"ab", "ba"}, {"aab"}, {"é", "èé"}, {"。", "，，"}, {"🕊️b", "b🕊️"},
      {"abab", "baa"}};
  const std::vector<std::string> texts = {"a\nUser:b", "aabab",           "aaaab", "èèéa",
                                          "，。，，",  "🕊️🕊️b", "",      "a",
                                          "\nUse\nU",  "ababbaa"};
  for (const auto& stops : stop_sets) {
    for (const std::string& text : texts) {
      std::vector<std::string> characters;
      for (std::size_t i = 0; i < text.size();) {
        const auto length = static_cast<std::size_t>(decode_utf8(text, i).length);
        characters.push_back(text.substr(i, length));
        i += length;
      }
      const Outcome expected = naive(stops, text);
      const std::size_t n_gaps = characters.empty() ? 0 : characters.size() - 1;
      for (std::size_t cuts = 0; cuts < (std::size_t{1} << n_gaps); ++cuts) {
        std::vector<std::string> pieces(1);
        for (std::size_t i = 0; i < characters.size(); ++i) {
          pieces.back() += characters[i];
          if (i < n_gaps && ((cuts >> i) & 1) != 0) pieces.emplace_back();
        }
        ASSERT_EQ(run(stops, pieces), expected) << text << " cuts " << cuts;
      }
    }
  }
}

TEST(Stop, RandomTextsEqualANaiveSearch) {
  Xoshiro256 random(19);
  const auto below = [&random](std::uint64_t n) { return random.next() % n; };
  const std::vector<std::string> alphabet = {"a", "b", "\n", "é", "好", "𠮷"};
  const auto random_pieces = [&](std::uint64_t n_pieces, std::uint64_t max_length) {
    std::vector<std::string> pieces;
    for (std::uint64_t i = 0; i < n_pieces; ++i) {
      std::string piece;
      for (std::uint64_t k = below(max_length + 1); k > 0; --k) {
        piece += alphabet[below(2) == 0 ? below(2) : below(alphabet.size())];
      }
      pieces.push_back(piece);
    }
    return pieces;
  };
  int n_stopped = 0;
  for (int repeat = 0; repeat < 20000; ++repeat) {
    const auto stops = random_pieces(1 + below(4), 5);
    const auto pieces = random_pieces(below(12), 3);
    std::string text;
    for (const std::string& piece : pieces) text += piece;
    const Outcome expected = naive(stops, text);
    n_stopped += expected.stopped ? 1 : 0;
    ASSERT_EQ(run(stops, pieces), expected)
        << testing::PrintToString(stops) << ' ' << testing::PrintToString(pieces);
  }
  EXPECT_GT(n_stopped, 2000);  // both outcomes were really tried
  EXPECT_LT(n_stopped, 18000);
}

// Long repetitive stop strings must not make the work grow with their product.
TEST(Stop, StaysLinearForHostileStops) {
  const std::string stop = std::string(200000, 'a') + "b";
  StopMatcher matcher({stop, stop + "c", std::string(100000, 'a') + "d"});
  std::string text;
  for (int i = 0; i < 20; ++i) text += matcher.push(std::string(20000, 'a') + "e");
  text += matcher.finish();
  EXPECT_EQ(text.size(), 20U * 20001U);
}

}  // namespace
}  // namespace munia::decode
