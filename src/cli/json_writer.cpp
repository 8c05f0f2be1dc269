#include "cli/json_writer.h"

#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>

namespace munia::cli {
namespace {

template <class Float>
std::string shortest(Float number) {
  if (!std::isfinite(number)) return "null";
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, number);
  return {digits, end.ptr};
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
  return raw(boost::json::serialize(boost::json::string_view(text.data(), text.size())));
}

JsonWriter& JsonWriter::value(double number) { return raw(shortest(number)); }
JsonWriter& JsonWriter::value(float number) { return raw(shortest(number)); }

JsonWriter& JsonWriter::ids(std::span<const std::int32_t> ids) {
  begin_array();
  for (const std::int32_t id : ids) value(id);
  return end_array();
}

}  // namespace munia::cli
