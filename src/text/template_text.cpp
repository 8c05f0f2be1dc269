// Walking, cutting and splitting marked text.
#include "text/template_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "base/utf8.h"

namespace munia::text::tmpl {

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

namespace {
bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::size_t char_begin_before(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && is_continuation(text[begin])) --begin;
  return begin;
}

template <class Drop>
std::pair<std::size_t, std::size_t> strip_range(std::string_view text, bool left, bool right,
                                                Drop drop) {
  std::size_t begin = 0, end = text.size();
  while (left && begin < end) {
    auto n = static_cast<std::size_t>(decode_utf8(text, begin).length);
    if (!drop(text.substr(begin, n))) break;
    begin += n;
  }
  while (right && end > begin) {
    std::size_t b = char_begin_before(text, end);
    if (!drop(text.substr(b, end - b))) break;
    end = b;
  }
  return {begin, end};
}

bool space_text(std::string_view c) { return is_space(decode_utf8(c, 0).code_point); }
}  // namespace

std::string_view strip_bytes(std::string_view text, bool left, bool right) {
  auto [begin, end] = strip_range(text, left, right, space_text);
  return text.substr(begin, end - begin);
}

std::size_t find_bytes(std::string_view text, std::string_view part, std::size_t from) {
  if (part.empty()) return from;
  if (from >= text.size()) return kNpos;
  auto hit = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return hit ? static_cast<std::size_t>(static_cast<const char*>(hit) - text.data()) : kNpos;
}

std::size_t count_chars(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

std::size_t char_offset(std::string_view text, std::size_t n) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_continuation(text[i])) continue;
    if (n == 0) return i;
    --n;
  }
  return text.size();
}

std::vector<std::size_t> char_offsets(std::string_view text) {
  std::vector<std::size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (std::size_t i = 0; i < text.size(); ++i)
    if (!is_continuation(text[i])) offsets.push_back(i);
  offsets.push_back(text.size());
  return offsets;
}

MarkedText slice_bytes(const MarkedText& text, std::size_t begin, std::size_t end) {
  return text.substr(begin, end - begin);
}
void append_slice(MarkedText& out, const MarkedText& text, std::size_t begin, std::size_t end) {
  out.bytes.append(text.bytes, begin, end - begin);
  out.trusted.append(text.trusted, begin, end - begin);
}
void append_user(MarkedText& out, std::string_view text) {
  out.bytes += text;
  out.trusted.append(text.size(), '\0');
}

MarkedText strip(const MarkedText& text, const std::string* chars, bool left, bool right) {
  auto [begin, end] =
      chars ? strip_range(text.bytes, left, right,
                          [&](std::string_view c) { return chars->find(c) != std::string::npos; })
            : strip_range(text.bytes, left, right, space_text);
  return slice_bytes(text, begin, end);
}

namespace {
std::vector<MarkedText> split_on(const MarkedText& text, const std::string& separator, long limit,
                                 bool from_right) {
  std::vector<MarkedText> parts;
  const std::string& s = text.bytes;
  if (!from_right) {
    std::size_t begin = 0;
    while (limit != 0) {
      auto hit = find_bytes(s, separator, begin);
      if (hit == kNpos) break;
      parts.push_back(slice_bytes(text, begin, hit));
      begin = hit + separator.size();
      --limit;
    }
    parts.push_back(slice_bytes(text, begin, s.size()));
    return parts;
  }
  std::size_t end = s.size();
  while (limit != 0 && end >= separator.size()) {
    auto hit = s.rfind(separator, end - separator.size());
    if (hit == kNpos) break;
    parts.push_back(slice_bytes(text, hit + separator.size(), end));
    end = hit;
    --limit;
  }
  parts.push_back(slice_bytes(text, 0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<MarkedText> split_space(const MarkedText& text, long limit, bool from_right) {
  std::vector<MarkedText> parts;
  std::string_view s = text.bytes;
  std::size_t begin = 0, end = s.size();
  while (true) {  // [begin, end) is what is left
    auto range = strip_range(s.substr(begin, end - begin), !from_right, from_right, space_text);
    end = begin + range.second;
    begin += range.first;
    if (begin >= end) break;
    if (limit == 0) {  // the rest, as it is
      parts.push_back(slice_bytes(text, begin, end));
      break;
    }
    auto not_space = [](std::string_view c) { return !space_text(c); };
    auto word = strip_range(s.substr(begin, end - begin), !from_right, from_right, not_space);
    if (!from_right) {
      parts.push_back(slice_bytes(text, begin, begin + word.first));
      begin += word.first;
    } else {
      parts.push_back(slice_bytes(text, begin + word.second, end));
      end = begin + word.second;
    }
    --limit;
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}
}  // namespace

std::vector<MarkedText> split(const MarkedText& text, const std::string* separator, long limit,
                              bool from_right) {
  return separator ? split_on(text, *separator, limit, from_right)
                   : split_space(text, limit, from_right);
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends) {
  std::vector<MarkedText> lines;
  const std::string& s = text.bytes;
  std::size_t begin = 0, p = 0;
  while (p < s.size()) {
    auto c = decode_utf8(s, p);
    std::size_t next = p + static_cast<std::size_t>(c.length);
    char32_t cp = c.code_point;
    bool is_end = (cp >= 0x0A && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 ||
                  cp == 0x2028 || cp == 0x2029;
    if (is_end) {
      if (cp == '\r' && next < s.size() && s[next] == '\n') ++next;
      lines.push_back(slice_bytes(text, begin, keep_ends ? next : p));
      begin = next;
    }
    p = next;
  }
  if (begin < s.size()) lines.push_back(slice_bytes(text, begin, s.size()));
  return lines;
}

MarkedText replace(const MarkedText& text, std::string_view from, const MarkedText& to,
                   long limit) {
  MarkedText out;
  const std::string& s = text.bytes;
  if (from.empty()) {  // between all characters
    auto offsets = char_offsets(s);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      if (limit != 0) {
        out.append(to);
        --limit;
      }
      if (i + 1 < offsets.size()) append_slice(out, text, offsets[i], offsets[i + 1]);
    }
    return out;
  }
  std::size_t begin = 0;
  while (limit != 0) {
    auto hit = find_bytes(s, from, begin);
    if (hit == kNpos) break;
    append_slice(out, text, begin, hit);
    out.append(to);
    begin = hit + from.size();
    --limit;
  }
  append_slice(out, text, begin, s.size());
  return out;
}

namespace {
utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}
bool is_letter(char32_t c) {
  auto g = category(c);
  return g >= UTF8PROC_CATEGORY_LU && g <= UTF8PROC_CATEGORY_LO;
}
bool printable(char32_t c) {
  if (c == ' ') return true;
  auto g = category(c);
  return g != UTF8PROC_CATEGORY_CN && g < UTF8PROC_CATEGORY_ZS;
}
}  // namespace

bool all_of_class(std::string_view text, CharClass wanted) {
  if (text.empty()) return false;
  for (std::size_t p = 0; p < text.size();) {
    auto c = decode_utf8(text, p);
    p += static_cast<std::size_t>(c.length);
    char32_t cp = c.code_point;
    auto g = category(cp);
    bool decimal = g == UTF8PROC_CATEGORY_ND;
    bool digit = decimal || is_digit_char(cp);
    bool numeric =
        digit || g == UTF8PROC_CATEGORY_NL || g == UTF8PROC_CATEGORY_NO || is_numeric_char(cp);
    bool ok = false;
    switch (wanted) {
      case CharClass::kAlpha:
        ok = is_letter(cp);
        break;
      case CharClass::kDecimal:
        ok = decimal;
        break;
      case CharClass::kDigit:
        ok = digit;
        break;
      case CharClass::kNumeric:
        ok = numeric;
        break;
      case CharClass::kAlnum:
        ok = numeric || is_letter(cp);
        break;
      case CharClass::kSpace:
        ok = is_space(cp);
        break;
    }
    if (!ok) return false;
  }
  return true;
}

MarkedText repr(const MarkedText& text) {
  const std::string& s = text.bytes;
  bool double_quotes = s.find('\'') != kNpos && s.find('"') == kNpos;
  char quote = double_quotes ? '"' : '\'';
  MarkedText out;
  append_user(out, std::string(1, quote));
  auto hex = [](char32_t c, int width) {
    std::string digits;
    for (int i = width - 1; i >= 0; --i) digits.push_back("0123456789abcdef"[(c >> (4 * i)) & 15]);
    return digits;
  };
  for (std::size_t p = 0; p < s.size();) {
    auto c = decode_utf8(s, p);
    std::size_t next = p + static_cast<std::size_t>(c.length);
    char32_t cp = c.code_point;
    if (cp == static_cast<char32_t>(quote) || cp == '\\') {
      append_user(out, "\\");
      append_slice(out, text, p, next);
    } else if (cp == '\n' || cp == '\r' || cp == '\t') {
      append_user(out, cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t");
    } else if (!printable(cp)) {
      append_user(out, cp < 0x100     ? "\\x" + hex(cp, 2)
                       : cp < 0x10000 ? "\\u" + hex(cp, 4)
                                      : "\\U" + hex(cp, 8));
    } else {
      append_slice(out, text, p, next);
    }
    p = next;
  }
  append_user(out, std::string(1, quote));
  return out;
}

}  // namespace munia::text::tmpl
