#include "table/csv_writer.h"

#include <string_view>

namespace munia::table {
namespace {

bool needs_quotes(std::string_view field, char separator) {
  // A leading byte order mark would be skipped by readers if it came first in the file.
  return field.find_first_of("\"\r\n") != std::string_view::npos ||
         field.find(separator) != std::string_view::npos || field.starts_with("\xEF\xBB\xBF");
}

void append_field(std::string& out, std::string_view field, char separator) {
  if (!needs_quotes(field, separator)) {
    out += field;
    return;
  }
  out += '"';
  for (const char c : field) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

}  // namespace

void append_csv_row(std::string& out, std::span<const std::string> fields, char separator) {
  // One empty field alone would be a blank line, which readers skip.
  if (fields.size() == 1 && fields[0].empty()) out += "\"\"";
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) out += separator;
    append_field(out, fields[i], separator);
  }
  out += '\n';
}

Status CsvWriter::write(std::span<const std::string> fields) {
  row_.clear();
  append_csv_row(row_, fields, separator_);
  out_.write(row_.data(), static_cast<std::streamsize>(row_.size()));
  if (!out_) return Error{ErrorCode::kIo, "cannot write a row of the output (is the disk full?)"};
  return {};
}

Status CsvWriter::flush() {
  out_.flush();
  if (!out_) return Error{ErrorCode::kIo, "cannot write the output (is the disk full?)"};
  return {};
}

}  // namespace munia::table
