// Rows out: every column of the input, and what was found out about the row behind them. What is
// written reads back as the same fields.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "table/row_reader.h"

namespace munia::table {

/// Nothing is an empty field in CSV and null in JSON.
using AddedValue = std::variant<std::monostate, std::string, double>;

class RowWriter {
 public:
  virtual ~RowWriter() = default;
  /// What stands before the first row, with its line end; empty where the format has none.
  virtual std::string header() const = 0;
  /// Adds to `out` one row with its line end. `raw` is what RowReader::raw() said of it; `added`
  /// has a value for each of the added names. kInvalidData when a JSON object has such a name
  /// already.
  virtual Status append(std::string& out, const Row& row, const std::string& raw,
                        std::span<const AddedValue> added) const = 0;
};

/// For rows that a reader of format `from` with these columns gives. `to` is CSV, TSV or JSON
/// Lines; from JSON Lines to JSON Lines whole objects are kept, not only the fields that were read.
/// Errors: an added name that is a column already (kInvalidData), plain text as `to`
/// (kInvalidArgument).
Result<std::unique_ptr<RowWriter>> make_row_writer(Format from, Format to,
                                                   std::vector<std::string> columns,
                                                   std::vector<std::string> added_names);

}  // namespace munia::table
