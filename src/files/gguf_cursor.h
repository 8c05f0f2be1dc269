// The place in a GGUF file up to which it was read. Every read is checked against the file's end;
// every error names the file and what was being read.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace munia::files {

class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> bytes, std::string_view name)
      : bytes_(bytes), name_(name) {}

  std::span<const std::byte> bytes() const { return bytes_; }
  std::uint64_t pos() const { return pos_; }
  std::uint64_t remaining() const { return bytes_.size() - pos_; }
  /// What is being read, for messages: "metadata key \"general.name\"".
  const std::string& where() const { return where_; }
  void set_where(std::string where) { where_ = std::move(where); }

  void skip(std::uint64_t n_bytes) { pos_ += n_bytes; }  // n_bytes <= remaining()

  template <class T>
  Result<T> read_number() {
    if (remaining() < sizeof(T)) return cut_off(pos_ + sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + pos_, sizeof value);
    pos_ += sizeof value;
    return value;
  }
  /// A string of at most `max_bytes`, borrowed from the file.
  Result<std::string_view> read_string(std::uint64_t max_bytes);
  /// A string that names something: not empty, UTF-8.
  Result<std::string_view> read_name(std::uint64_t max_bytes);

  Error invalid(const std::string& what) const;      // kInvalidData
  Error unsupported(const std::string& what) const;  // kUnsupported
  Error over_limit(const std::string& what) const;   // kLimit
  Error cut_off(std::uint64_t needed_bytes, std::string_view at_least = "at least ") const;

 private:
  std::span<const std::byte> bytes_;
  std::string_view name_;
  std::string where_;
  std::uint64_t pos_ = 0;
};

}  // namespace munia::files
