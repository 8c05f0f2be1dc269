// Only runs of characters that can change are given to utf8proc, each with the character before it
// if they could be joined. Which these are comes from the reference (unicode_tables.cpp), so a
// mark that the reference does not know never reaches utf8proc, which knows more of them.
#include "text/normalize.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode.h"

namespace munia::text {
namespace {

// Offset of the first character at or after `offset` that NFC might touch; text.size() if none.
std::size_t find_unsafe(std::string_view text, std::size_t offset) {
  while (offset < text.size()) {
    if (static_cast<unsigned char>(text[offset]) < 0x80) {
      ++offset;
      continue;
    }
    const TextChar c = decode_valid(text, offset);
    if (char_class(c.code_point) & kNfcUnsafe) return offset;
    offset = c.end;
  }
  return offset;
}

int combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// NFC of one run. utf8proc would order the marks by swapping neighbours, which takes quadratic time
// on a long run; so they are decomposed and sorted here, and only composed there.
void compose_run(std::string_view run, std::vector<utf8proc_int32_t>& buffer, std::string& out) {
  buffer.clear();
  for (std::size_t i = 0; i < run.size();) {
    const TextChar c = decode_valid(run, i);
    i = c.end;
    utf8proc_int32_t parts[8];  // a canonical decomposition has at most 4
    int boundary = 0;
    const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code_point), parts, 8,
                                           UTF8PROC_DECOMPOSE, &boundary);
    MUNIA_CHECK(n >= 0 && n <= 8);
    buffer.insert(buffer.end(), parts, parts + n);
  }
  for (auto begin = buffer.begin(); begin != buffer.end();) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    auto end = begin + 1;
    bool sorted = true;
    while (end != buffer.end() && combining_class(*end) != 0) {
      sorted = sorted && combining_class(end[-1]) <= combining_class(*end);
      ++end;
    }
    if (!sorted) {
      std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
        return combining_class(a) < combining_class(b);
      });
    }
    begin = end;
  }
  const auto n =
      utf8proc_normalize_utf32(buffer.data(), static_cast<utf8proc_ssize_t>(buffer.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  MUNIA_CHECK(n >= 0);
  for (utf8proc_ssize_t i = 0; i < n; ++i) append_utf8(out, static_cast<char32_t>(buffer[i]));
}

}  // namespace

bool is_surely_nfc(std::string_view text) { return find_unsafe(text, 0) == text.size(); }

void normalize_nfc(std::string_view text, std::string_view trusted, std::string& out,
                   std::string& out_trusted) {
  std::vector<utf8proc_int32_t> buffer;
  const auto copy = [&](std::size_t begin, std::size_t end) {
    out.append(text.substr(begin, end - begin));
    if (!trusted.empty()) out_trusted.append(trusted.substr(begin, end - begin));
  };
  std::size_t done = 0;
  while (done < text.size()) {
    const std::size_t unsafe = find_unsafe(text, done);
    if (unsafe == text.size()) {
      copy(done, unsafe);
      break;
    }
    std::size_t begin = unsafe;
    if (unsafe > done) {
      std::size_t before = unsafe - 1;
      while ((static_cast<unsigned char>(text[before]) & 0xC0) == 0x80) --before;
      if (char_class(decode_valid(text, before).code_point) & kNfcBase) begin = before;
    }
    std::size_t end = unsafe;
    while (end < text.size()) {
      const TextChar c = decode_valid(text, end);
      if (!(char_class(c.code_point) & kNfcUnsafe)) break;
      end = c.end;
    }
    copy(done, begin);
    const std::size_t size_before = out.size();
    compose_run(text.substr(begin, end - begin), buffer, out);
    if (!trusted.empty()) {
      const bool all = trusted.substr(begin, end - begin).find('\0') == std::string_view::npos;
      out_trusted.append(out.size() - size_before, all ? '\1' : '\0');
    }
    done = end;
  }
}

}  // namespace munia::text
