// Stop strings over streamed text: holds back what may be the beginning of a stop string, drops the
// stop string itself and everything behind it, flushes the rest at the end. Works on whole UTF-8
// pieces (as StreamDecoder gives them).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace munia::decode {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);  // empty strings are ignored
  /// Adds text; returns what can be shown now. After a match `stopped()` is true and nothing more
  /// comes out.
  std::string push(std::string_view text);
  /// The held text at the end of a stream that met no stop string.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace munia::decode
