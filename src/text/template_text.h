// String operations of the template engine on marked text: by code points, as Python's str, and
// each byte of a result keeps the mark of the byte it came from.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/marked_text.h"

namespace munia::text::tmpl {

inline constexpr std::size_t kNpos = std::string::npos;

/// Python's str.isspace for one code point.
bool is_space(char32_t c);
/// Strips whitespace.
std::string_view strip_bytes(std::string_view text, bool left, bool right);

/// Like find, but never slower than linear.
std::size_t find_bytes(std::string_view text, std::string_view part, std::size_t from = 0);

std::size_t count_chars(std::string_view text);
/// Byte offset of the n-th code point (the size if there are fewer).
std::size_t char_offset(std::string_view text, std::size_t n);
std::vector<std::size_t> char_offsets(std::string_view text);  // one more than characters

MarkedText slice_bytes(const MarkedText& text, std::size_t begin, std::size_t end);
void append_slice(MarkedText& out, const MarkedText& text, std::size_t begin, std::size_t end);
void append_user(MarkedText& out, std::string_view text);

/// Strips whitespace, or the characters of *chars.
MarkedText strip(const MarkedText& text, const std::string* chars, bool left, bool right);
/// str.split / rsplit; no separator: runs of whitespace. `limit` < 0: no limit.
std::vector<MarkedText> split(const MarkedText& text, const std::string* separator, long limit,
                              bool from_right);
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends);
MarkedText replace(const MarkedText& text, std::string_view from, const MarkedText& to, long limit);

enum class Case { kUpper, kLower, kTitle, kCapitalize, kSwap };
MarkedText change_case(const MarkedText& text, Case how);

/// str.isalpha and so on: every character satisfies it, and there is one.
enum class CharClass { kAlpha, kDigit, kDecimal, kNumeric, kAlnum, kSpace };
bool all_of_class(std::string_view text, CharClass wanted);
/// str.isupper / islower.
bool is_cased(std::string_view text, bool upper);
bool is_digit_char(char32_t c);    // beyond category Nd
bool is_numeric_char(char32_t c);  // beyond categories Nd, Nl, No

/// Python's repr of a string; structure and escapes count as the user's.
MarkedText repr(const MarkedText& text);

}  // namespace munia::text::tmpl
