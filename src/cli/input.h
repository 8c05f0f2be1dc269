// Input that people and scripts hand over: lines of standard input or a file, arguments, JSON
// Lines. Everything is checked to be UTF-8 (or converted from GB18030), a byte-order mark and CRLF
// are taken off, and a line that is too long, binary or broken ends in one sentence with its line
// number and byte offset (exit status 4).
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/lang.h"

namespace munia::cli {

inline constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;

enum class Encoding { kUtf8, kGb18030 };

class LineReader {
 public:
  LineReader(int fd, Encoding encoding, Lang lang) : fd_(fd), encoding_(encoding), lang_(lang) {}

  /// The next line without its line end; nothing at the end of the input.
  std::optional<std::string> next();
  /// The next line that holds more than white space, for JSON Lines.
  std::optional<std::string> next_filled();
  /// True when next() will not wait: a line (or the end, or more bytes) is there already.
  bool ready() const;
  /// Of the line that was returned last, from 1.
  std::int64_t line_number() const { return line_number_; }
  /// "line 3: " for messages.
  std::string where() const;

 private:
  std::optional<std::string> next_raw();
  void check(const std::string& line) const;

  int fd_;
  Encoding encoding_;
  Lang lang_;
  std::string buffer_;
  std::size_t begin_ = 0;    // of the unread part of buffer_
  std::size_t scanned_ = 0;  // no newline before this place
  bool at_end_ = false;
  std::int64_t line_number_ = 0;
  std::uint64_t line_offset_ = 0;  // of the last line in the input
  std::uint64_t next_offset_ = 0;
};

/// The lines of a file that hold more than white space; fails with status 3 where it cannot be
/// opened, with 4 where there are none.
std::vector<std::string> read_texts(const std::string& path, Encoding encoding, Lang lang);

/// A text from the command line, as UTF-8; fails with status 4 when it is not.
std::string argument_text(const std::string& text, std::size_t index, Encoding encoding, Lang lang);

/// One JSON value with a depth limit; fails with status 4, `where` before the message.
boost::json::value parse_json(std::string_view text, const std::string& where, Lang lang);
/// The same, and it must be an object.
boost::json::object parse_json_object(std::string_view text, const std::string& where, Lang lang);

}  // namespace munia::cli
