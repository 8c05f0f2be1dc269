// CSV and TSV out, quoted as RFC 4180 says where it must be; lines end with LF. What is written
// reads back as the same fields.
#pragma once

#include <ostream>
#include <span>
#include <string>

#include "base/error.h"

namespace munia::table {

/// Adds one row with its line end to `out`.
void append_csv_row(std::string& out, std::span<const std::string> fields, char separator = ',');

/// Writes rows to a stream that the caller keeps; kIo when the stream refuses (disk full).
class CsvWriter {
 public:
  explicit CsvWriter(std::ostream& out, char separator = ',') : out_(out), separator_(separator) {}

  Status write(std::span<const std::string> fields);
  /// Whole rows reach the system: what is killed after it can be resumed.
  Status flush();

 private:
  std::ostream& out_;
  char separator_;
  std::string row_;
};

}  // namespace munia::table
