// UTF-8: checking and walking. Strict: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace munia {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

struct Utf8Char {
  char32_t code_point;  // meaningful when valid
  int length;           // bytes consumed, >= 1; for an invalid one the maximal broken prefix
  bool valid;
  bool incomplete;  // not valid, but more bytes could make it so (only at the end of text)
};

/// Decodes the character at text[offset], offset < text.size().
Utf8Char decode_utf8(std::string_view text, std::size_t offset);
/// Byte offset of the first invalid byte, or nothing.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);
void append_utf8(std::string& out, char32_t code_point);
/// Replaces each maximal broken prefix by one U+FFFD, as Rust's and Python's decoders do.
std::string replace_invalid_utf8(std::string_view text);
/// True when a text holds nothing but white space: that of ASCII, the no-break space, and the wide
/// space that Chinese text has (U+3000).
bool is_blank(std::string_view text);

}  // namespace munia
