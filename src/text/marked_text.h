// Text that remembers, byte by byte, who wrote it: the model's template (trusted: may form special
// tokens) or the user (plain data: never a special token). The template engine produces it and
// keeps the marks through concatenation, trimming, replacing and slicing; the tokenizer reads them.
#pragma once

#include <string>
#include <string_view>

namespace munia::text {

struct MarkedText {
  std::string bytes;    // UTF-8
  std::string trusted;  // same length: '\1' where the template wrote the byte, '\0' elsewhere

  static MarkedText from_template(std::string_view text) {
    return {std::string(text), std::string(text.size(), '\1')};
  }
  static MarkedText from_user(std::string_view text) {
    return {std::string(text), std::string(text.size(), '\0')};
  }
  void append(const MarkedText& other) {
    bytes += other.bytes;
    trusted += other.trusted;
  }
  MarkedText substr(std::size_t begin, std::size_t count) const {
    return {bytes.substr(begin, count), trusted.substr(begin, count)};
  }
};

}  // namespace munia::text
