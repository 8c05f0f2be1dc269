// Where the bytes of a table come from: a file, standard input, a string. Read in order, once.
// A source that converts another encoding to UTF-8 can wrap one of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace munia::table {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills the front of `buffer` and returns how much; 0 only at the end.
  virtual Result<std::size_t> read(std::span<char> buffer) = 0;
  /// For messages: the path, or "standard input".
  virtual const std::string& name() const = 0;
  /// How much of the file was read so far, before any conversion: for progress.
  virtual std::uint64_t bytes_read() const = 0;
};

/// `path` "-" is standard input. kNotFound when there is no such file, kIo when it can't be read.
Result<std::unique_ptr<ByteSource>> open_source(const std::string& path);

std::unique_ptr<ByteSource> source_of_string(std::string text, std::string name);

}  // namespace munia::table
