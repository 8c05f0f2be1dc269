// Changing the case of marked text, as Python's str does: full mappings (ß becomes SS), the final
// sigma, title case by words. A character that becomes several gives its mark to all of them.
#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "base/utf8.h"
#include "text/template_case_table.h"
#include "text/template_text.h"

namespace munia::text::tmpl {

namespace {

utf8proc_int32_t signed_cp(char32_t c) { return static_cast<utf8proc_int32_t>(c); }

template <std::size_t n>
const char* expansion(const CaseExpansion (&table)[n], char32_t c) {
  auto it = std::lower_bound(std::begin(table), std::end(table), c,
                             [](const CaseExpansion& row, char32_t cp) { return row.from < cp; });
  return it != std::end(table) && it->from == c ? it->to : nullptr;
}

template <std::size_t n>
bool in_ranges(const CharRange (&ranges)[n], char32_t c) {
  auto it = std::lower_bound(std::begin(ranges), std::end(ranges), c,
                             [](const CharRange& r, char32_t cp) { return r.last < cp; });
  return it != std::end(ranges) && it->first <= c;
}
bool upper_char(char32_t c) {
  return utf8proc_category(signed_cp(c)) == UTF8PROC_CATEGORY_LU || in_ranges(kOtherUpper, c);
}
bool lower_char(char32_t c) {
  return utf8proc_category(signed_cp(c)) == UTF8PROC_CATEGORY_LL || in_ranges(kOtherLower, c);
}

enum class Map { kUpper, kLower, kTitle };

bool cased(char32_t c) {
  auto g = utf8proc_category(signed_cp(c));
  return g == UTF8PROC_CATEGORY_LU || g == UTF8PROC_CATEGORY_LL || g == UTF8PROC_CATEGORY_LT ||
         utf8proc_toupper(signed_cp(c)) != signed_cp(c) ||
         utf8proc_tolower(signed_cp(c)) != signed_cp(c);
}
bool case_ignorable(char32_t c) {
  switch (utf8proc_category(signed_cp(c))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2018 || c == 0x2019;
  }
}

/// Is the sigma at [begin, end) the last letter of a word?
bool final_sigma(std::string_view s, std::size_t begin, std::size_t end) {
  bool before = false;
  for (std::size_t p = begin; p > 0;) {
    do --p;
    while (p > 0 && (static_cast<unsigned char>(s[p]) & 0xC0) == 0x80);
    char32_t c = decode_utf8(s, p).code_point;
    if (case_ignorable(c)) continue;
    before = cased(c);
    break;
  }
  if (!before) return false;
  for (std::size_t p = end; p < s.size();) {
    auto c = decode_utf8(s, p);
    p += static_cast<std::size_t>(c.length);
    if (case_ignorable(c.code_point)) continue;
    return !cased(c.code_point);
  }
  return true;
}

void append_mapped(MarkedText& out, const MarkedText& text, std::size_t begin, std::size_t end,
                   char32_t c, Map how) {
  char mark = text.trusted[begin];
  const char* wide = how == Map::kUpper   ? expansion(kUpperExpansions, c)
                     : how == Map::kLower ? expansion(kLowerExpansions, c)
                                          : expansion(kTitleExpansions, c);
  std::string mapped;
  if (wide) {
    mapped = wide;
  } else if (how == Map::kLower && c == 0x3A3) {
    append_utf8(mapped, final_sigma(text.bytes, begin, end) ? 0x3C2 : 0x3C3);
  } else {
    auto cp = signed_cp(c);
    cp = how == Map::kUpper   ? utf8proc_toupper(cp)
         : how == Map::kLower ? utf8proc_tolower(cp)
                              : utf8proc_totitle(cp);
    append_utf8(mapped, static_cast<char32_t>(cp));
  }
  out.bytes += mapped;
  out.trusted.append(mapped.size(), mark);
}

}  // namespace

MarkedText change_case(const MarkedText& text, Case how) {
  MarkedText out;
  out.bytes.reserve(text.bytes.size());
  out.trusted.reserve(text.bytes.size());
  bool in_word = false;
  const std::string& s = text.bytes;
  for (std::size_t p = 0; p < s.size();) {
    auto c = decode_utf8(s, p);
    std::size_t next = p + static_cast<std::size_t>(c.length);
    char32_t cp = c.code_point;
    Map map = Map::kLower;
    switch (how) {
      case Case::kUpper:
        map = Map::kUpper;
        break;
      case Case::kLower:
        break;
      case Case::kTitle:
        map = in_word ? Map::kLower : Map::kTitle;
        in_word = cased(cp);
        break;
      case Case::kCapitalize:
        map = p == 0 ? Map::kTitle : Map::kLower;
        break;
      case Case::kSwap:
        if (!upper_char(cp) && !lower_char(cp)) {
          append_slice(out, text, p, next);
          p = next;
          continue;
        }
        map = upper_char(cp) ? Map::kLower : Map::kUpper;
        break;
    }
    append_mapped(out, text, p, next, cp, map);
    p = next;
  }
  return out;
}

bool is_digit_char(char32_t c) { return in_ranges(kOtherDigits, c); }
bool is_numeric_char(char32_t c) { return in_ranges(kOtherNumeric, c); }

bool is_cased(std::string_view text, bool upper) {
  bool any = false;
  for (std::size_t p = 0; p < text.size();) {
    auto c = decode_utf8(text, p);
    p += static_cast<std::size_t>(c.length);
    if (utf8proc_category(signed_cp(c.code_point)) == UTF8PROC_CATEGORY_LT) return false;
    bool is_upper = upper_char(c.code_point);
    bool is_lower = lower_char(c.code_point);
    if (upper ? is_lower : is_upper) return false;
    any = any || is_upper || is_lower;
  }
  return any;
}

}  // namespace munia::text::tmpl
