// Token bytes in, whole UTF-8 characters out: an incomplete tail is held back, a byte that can
// never become valid turns into one U+FFFD, and the joined output equals decoding all bytes at
// once.
#pragma once

#include <string>
#include <string_view>

namespace munia::text {

class StreamDecoder {
 public:
  /// Adds bytes; returns the text that is now certain (perhaps empty).
  std::string push(std::string_view bytes);
  /// The held tail at the end of the stream: U+FFFD for what never became whole, or empty.
  std::string finish();

 private:
  std::string tail_;  // at most 3 bytes
};

}  // namespace munia::text
