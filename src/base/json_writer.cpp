#include "base/json_writer.h"

#include <charconv>
#include <cmath>

namespace munia {
namespace {

template <class Float>
std::string shortest(Float number) {
  if (!std::isfinite(number)) return "null";
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, number);
  return {digits, end.ptr};
}

void append_escaped(std::string& out, char c) {
  constexpr const char* kHex = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    default:
      break;
  }
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x20) {
    out += c;
  } else {
    out += "\\u00";
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
}

}  // namespace

void JsonWriter::separate() {
  if (need_comma_) out_ += ',';
  need_comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view text) {
  separate();
  out_ += text;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  value(name);
  out_ += ':';
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  out_ += '"';
  for (const char c : text) append_escaped(out_, c);
  out_ += '"';
  return *this;
}

JsonWriter& JsonWriter::json(std::string_view text) { return raw(text); }

JsonWriter& JsonWriter::value(double number) { return raw(shortest(number)); }
JsonWriter& JsonWriter::value(float number) { return raw(shortest(number)); }

JsonWriter& JsonWriter::ids(std::span<const std::int32_t> ids) {
  begin_array();
  for (const std::int32_t id : ids) value(id);
  return end_array();
}

}  // namespace munia
