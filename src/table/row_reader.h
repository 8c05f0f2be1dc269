// Rows of text for bulk work: CSV and TSV (RFC 4180), JSON Lines by field, plain text a line. Read
// as a stream: memory is bounded by the largest row allowed, not by the file. Bytes are untrusted.
// A wrong row is an Error that says where and why; the next call goes on with the row after it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "table/byte_source.h"

namespace munia::table {

enum class Format { kText, kCsv, kTsv, kJsonLines };

/// By the ending: .txt, .csv, .tsv or .tab, .jsonl or .ndjson, each also with .gz behind it;
/// kInvalidArgument for another.
Result<Format> format_of_path(std::string_view path);

struct Row {
  std::uint64_t line = 0;  // where the row begins, from 1
  std::vector<std::string> fields;
};

struct ReadOptions {
  bool has_header = true;                // CSV and TSV: the first row names the columns
  std::vector<std::string> json_fields;  // JSON Lines: the fields of a row, in this order
  std::size_t max_row_bytes = 32U << 20;
  std::size_t max_columns = 10'000;
};

class RowReader {
 public:
  virtual ~RowReader() = default;

  /// The next row, or nothing at the end. A row that can't be used is an Error (kInvalidData, or
  /// kLimit above max_row_bytes); after it `can_continue()` tells whether next() may be called.
  virtual Result<std::optional<Row>> next() = 0;

  /// False once the source itself has failed: next() would only repeat that error.
  virtual bool can_continue() const = 0;
  /// The bytes of the row that next() returned or refused last, without its line end; for a row
  /// above max_row_bytes its beginning.
  virtual const std::string& raw() const = 0;
  /// The names of the columns: the header of CSV and TSV, `json_fields`, or "text". Empty when a
  /// CSV has none.
  virtual const std::vector<std::string>& header() const = 0;
  /// How much of the file was read so far: for progress.
  virtual std::uint64_t bytes_read() const = 0;
};

/// Begins to read: skips a byte order mark, reads the header. Errors: an empty CSV, a wrong header,
/// UTF-16, a source that can't be read.
Result<std::unique_ptr<RowReader>> open_rows(std::unique_ptr<ByteSource> source, Format format,
                                             ReadOptions options = {});

/// Where column `name` is. An Error when the header lacks it (naming what there is) or has it more
/// than once.
Result<std::size_t> find_column(const std::vector<std::string>& header, std::string_view name);

}  // namespace munia::table
