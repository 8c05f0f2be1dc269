// What the readers of all formats share: bytes one by one from a buffered source, line numbers,
// and the checks and messages of a row.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "table/byte_source.h"

namespace munia::table {

class RowInput {
 public:
  static constexpr int kEnd = -1;  // the end, or the source has failed: see failure()

  RowInput(std::unique_ptr<ByteSource> source, std::size_t max_row_bytes)
      : source_(std::move(source)), max_row_bytes_(max_row_bytes) {}

  /// Skips a UTF-8 byte order mark; refuses those of UTF-16.
  Status begin();

  int peek() {
    if (pos_ == size_ && !fill()) return kEnd;
    return static_cast<unsigned char>(buffer_[pos_]);
  }
  /// The next byte. Counts lines: LF, CR LF and a lone CR end one.
  int get() {
    const int c = peek();
    if (c == kEnd) return kEnd;
    ++pos_;
    if (c == '\n' && !after_cr_) ++line_;
    if (c == '\r') ++line_;
    after_cr_ = c == '\r';
    return c;
  }

  /// Begins a row here.
  void begin_row();
  /// Adds a byte to raw(), or notes that the row is too long.
  void keep(int c) {
    if (raw_.size() < max_row_bytes_) {
      raw_ += static_cast<char>(c);
    } else {
      too_long_ = true;
    }
  }
  bool too_long() const { return too_long_; }
  const std::string& raw() const { return raw_; }
  std::uint64_t row_line() const { return row_line_; }

  /// The row's bytes up to the line's end go to raw(). False at the end of the source.
  bool read_line();

  /// Why the row as a whole can't be used: too long, a NUL byte, not UTF-8.
  Status check_row() const;
  /// kInvalidData at the byte `offset` of raw(): "NAME, line 3, column 7: WHAT".
  Error error_at(std::size_t offset, std::string_view what) const;
  /// The same without a column.
  Error error_in_row(ErrorCode code, std::string_view what) const;

  const std::optional<Error>& failure() const { return failure_; }
  const std::string& name() const { return source_->name(); }
  std::uint64_t bytes_read() const { return source_->bytes_read(); }

 private:
  bool fill();

  std::unique_ptr<ByteSource> source_;
  std::size_t max_row_bytes_;
  std::array<char, 1U << 16> buffer_;
  std::size_t pos_ = 0;
  std::size_t size_ = 0;
  std::uint64_t line_ = 1;
  bool after_cr_ = false;
  bool at_end_ = false;
  std::optional<Error> failure_;
  std::string raw_;
  std::uint64_t row_line_ = 1;
  bool too_long_ = false;
};

}  // namespace munia::table
