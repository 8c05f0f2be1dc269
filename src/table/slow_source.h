// For tests and the fuzzer: a source that gives few bytes at a time.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "table/byte_source.h"

namespace munia::table {

/// Gives at most `step` bytes a call.
class SlowSource : public ByteSource {
 public:
  SlowSource(std::string text, std::size_t step, std::string name)
      : text_(std::move(text)), step_(step), name_(std::move(name)) {}
  Result<std::size_t> read(std::span<char> buffer) override {
    const std::size_t n = std::min({buffer.size(), step_, text_.size() - pos_});
    std::copy_n(text_.data() + pos_, n, buffer.data());
    pos_ += n;
    return n;
  }
  const std::string& name() const override { return name_; }
  std::uint64_t bytes_read() const override { return pos_; }

 private:
  std::string text_;
  std::size_t step_;
  std::string name_;
  std::size_t pos_ = 0;
};

}  // namespace munia::table
