// For tests and the fuzzer: a source that gives few bytes at a time.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "table/byte_source.h"

namespace munia::table {

/// Gives at most `step` bytes a call.
class SlowSource : public ByteSource {
 public:
  SlowSource(std::string text, std::size_t step, std::string name)
      : source_(source_of_string(std::move(text), std::move(name))), step_(step) {}
  Result<std::size_t> read(std::span<char> buffer) override {
    return source_->read(buffer.first(std::min(buffer.size(), step_)));
  }
  const std::string& name() const override { return source_->name(); }
  std::uint64_t bytes_read() const override { return source_->bytes_read(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::size_t step_;
};

}  // namespace munia::table
