#include "table/line_reader.h"

#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <utility>

namespace munia::table {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 64;

std::string number_text(double value) {
  char buffer[32];
  const auto end = std::to_chars(std::begin(buffer), std::end(buffer), value).ptr;
  return std::string(buffer, end);
}

/// A scalar as text; nothing for null, objects, arrays and numbers out of range.
std::optional<std::string> scalar_text(const json::value& value) {
  switch (value.kind()) {
    case json::kind::string:
      return std::string(value.get_string().data(), value.get_string().size());
    case json::kind::int64:
      return std::to_string(value.get_int64());
    case json::kind::uint64:
      return std::to_string(value.get_uint64());
    case json::kind::double_:
      if (!std::isfinite(value.get_double())) return std::nullopt;
      return number_text(value.get_double());
    case json::kind::bool_:
      return value.get_bool() ? "true" : "false";
    default:
      return std::nullopt;
  }
}

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

}  // namespace

Result<std::optional<Row>> TextReader::next() {
  if (!input_.read_line()) {
    if (input_.failure()) return *input_.failure();
    return std::optional<Row>();
  }
  MUNIA_RETURN_IF_ERROR(input_.check_row());
  return std::optional<Row>(Row{input_.row_line(), {input_.raw()}});
}

Result<std::optional<Row>> JsonLinesReader::next() {
  do {
    if (!input_.read_line()) {
      if (input_.failure()) return *input_.failure();
      return std::optional<Row>();
    }
  } while (is_blank(input_.raw()) && !input_.too_long());
  MUNIA_RETURN_IF_ERROR(input_.check_row());
  const auto wrong = [&](const std::string& what) {
    return input_.error_in_row(ErrorCode::kInvalidData, what);
  };
  json::stream_parser parser({}, {kMaxDepth, false, false, false});
  json::error_code code;
  const std::string& line = input_.raw();
  const std::size_t consumed = parser.write_some(line.data(), line.size(), code);
  if (!code && consumed < line.size()) code = json::make_error_code(json::error::extra_data);
  if (!code) parser.finish(code);
  if (code) return input_.error_at(consumed, "not valid JSON: " + code.message());
  const json::value value = parser.release();
  const json::object* object = value.if_object();
  if (object == nullptr) return wrong("not a JSON object");
  Row row{input_.row_line(), {}};
  row.fields.reserve(header_.size());
  for (const std::string& name : header_) {
    const json::value* field = object->if_contains(name);
    if (field == nullptr) return wrong("the object has no field \"" + name + "\"");
    auto text = scalar_text(*field);
    if (!text) return wrong("field \"" + name + "\" is not a string, number or truth value");
    if (text->find('\0') != std::string::npos) {
      return wrong("field \"" + name + "\" has a NUL character (\\u0000)");
    }
    row.fields.push_back(*std::move(text));
  }
  return std::optional<Row>(std::move(row));
}

}  // namespace munia::table
