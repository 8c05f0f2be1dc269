// UTF-8 by Unicode's table 3-7 (well-formed byte sequences): the first byte gives the length and
// the range of the second byte; all further bytes are 80..BF. A broken sequence is consumed up to
// the longest prefix that could still have become a character ("maximal subpart", Unicode 3.9),
// which is also how Python and Rust count their U+FFFD.
#include "base/utf8.h"

#include "base/error.h"

namespace munia {
namespace {

struct LeadByte {
  int length;         // of the whole character; 0: no character begins with this byte
  unsigned char low;  // allowed range of the second byte
  unsigned char high;
  unsigned char mask;  // payload bits of the first byte
};

constexpr LeadByte classify(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0, 0x7F};
  if (byte < 0xC2) return {0, 0, 0, 0};  // a continuation byte, or an overlong form
  if (byte < 0xE0) return {2, 0x80, 0xBF, 0x1F};
  if (byte == 0xE0) return {3, 0xA0, 0xBF, 0x0F};  // below A0: overlong
  if (byte == 0xED) return {3, 0x80, 0x9F, 0x0F};  // above 9F: surrogates
  if (byte < 0xF0) return {3, 0x80, 0xBF, 0x0F};
  if (byte == 0xF0) return {4, 0x90, 0xBF, 0x07};  // below 90: overlong
  if (byte < 0xF4) return {4, 0x80, 0xBF, 0x07};
  if (byte == 0xF4) return {4, 0x80, 0x8F, 0x07};  // above 8F: beyond U+10FFFF
  return {0, 0, 0, 0};
}

}  // namespace

Utf8Char decode_utf8(std::string_view text, std::size_t offset) {
  MUNIA_CHECK(offset < text.size());
  const auto first = static_cast<unsigned char>(text[offset]);
  const LeadByte lead = classify(first);
  if (lead.length == 0) return {0xFFFD, 1, false, false};
  auto code_point = static_cast<char32_t>(first & lead.mask);
  unsigned char low = lead.low;
  unsigned char high = lead.high;
  for (int i = 1; i < lead.length; ++i) {
    const std::size_t position = offset + static_cast<std::size_t>(i);
    if (position >= text.size()) return {0xFFFD, i, false, true};
    const auto byte = static_cast<unsigned char>(text[position]);
    if (byte < low || byte > high) return {0xFFFD, i, false, false};
    code_point = (code_point << 6) | (byte & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {code_point, lead.length, true, false};
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    const Utf8Char c = decode_utf8(text, offset);
    if (!c.valid) return offset;
    offset += static_cast<std::size_t>(c.length);
  }
  return std::nullopt;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto byte = [&out](char32_t value) { out.push_back(static_cast<char>(value)); };
  if (code_point < 0x80) {
    byte(code_point);
  } else if (code_point < 0x800) {
    byte(0xC0 | (code_point >> 6));
    byte(0x80 | (code_point & 0x3F));
  } else if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) {
    out.append(kReplacementCharacter);  // not a character: keeps the output well-formed
  } else if (code_point < 0x10000) {
    byte(0xE0 | (code_point >> 12));
    byte(0x80 | ((code_point >> 6) & 0x3F));
    byte(0x80 | (code_point & 0x3F));
  } else {
    byte(0xF0 | (code_point >> 18));
    byte(0x80 | ((code_point >> 12) & 0x3F));
    byte(0x80 | ((code_point >> 6) & 0x3F));
    byte(0x80 | (code_point & 0x3F));
  }
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t offset = 0;
  while (offset < text.size()) {
    const Utf8Char c = decode_utf8(text, offset);
    const auto length = static_cast<std::size_t>(c.length);
    out.append(c.valid ? text.substr(offset, length) : kReplacementCharacter);
    offset += length;
  }
  return out;
}

bool is_blank(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char character = decode_utf8(text, at);
    const char32_t c = character.code_point;
    const bool is_space =
        character.valid && (c == U' ' || (c >= U'\t' && c <= U'\r') || c == 0xA0 || c == 0x3000);
    if (!is_space) return false;
    at += static_cast<std::size_t>(character.length);
  }
  return true;
}

}  // namespace munia
