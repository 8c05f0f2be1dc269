// Stop strings over streamed text: holds back what may be the beginning of a stop string, drops the
// stop string itself and everything behind it, flushes the rest at the end. Works on whole UTF-8
// pieces (as StreamDecoder gives them).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace munia::decode {

class StopMatcher {
 public:
  /// Empty strings, and strings that are not valid UTF-8 (so never occur), are ignored.
  explicit StopMatcher(std::vector<std::string> stops);
  /// Adds text; returns what can be shown now. After a match `stopped()` is true and nothing more
  /// comes out. The stop string that is complete first wins, of those that end together the
  /// longest; so the result does not depend on how the text was cut into pieces.
  std::string push(std::string_view text);
  /// The held text at the end of a stream that met no stop string.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<std::size_t> fallback;  // [i]: longest proper prefix of text that ends text[0..i]
    std::size_t n_matched = 0;          // longest prefix of text that ends the pushed text
  };
  static bool advance(Pattern& pattern, char byte);

  std::vector<Pattern> patterns_;
  std::string held_;  // as long as the largest n_matched
  bool stopped_ = false;
};

}  // namespace munia::decode
