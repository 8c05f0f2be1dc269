// Little-endian numbers and texts in a run of bytes: what the packed file's header and the packed
// tokenizer are written with. A reader never passes its end: a read beyond it gives zeros and
// clears ok(), which the caller asks once, before it believes anything.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace munia::files {

static_assert(std::endian::native == std::endian::little, "packed files are little-endian");

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  T number() {
    static_assert(std::is_integral_v<T>);
    T value{};
    const std::span<const std::byte> bytes = take(sizeof(T));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string_view text() { return text(number<std::uint16_t>()); }
  std::string_view text(std::uint64_t size_bytes) {
    const std::span<const std::byte> bytes = take(size_bytes);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  /// `size_bytes` bytes; none (and not ok) if fewer are left.
  std::span<const std::byte> take(std::uint64_t size_bytes) {
    if (size_bytes > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::span<const std::byte> bytes = rest_.first(size_bytes);
    rest_ = rest_.subspan(size_bytes);
    return bytes;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }
  std::size_t n_left() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

class ByteWriter {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_integral_v<T>);
    out_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void text(std::string_view text) {  // at most 65,535 bytes
    number(static_cast<std::uint16_t>(text.size()));
    out_.append(text);
  }
  void raw(std::string_view bytes) { out_.append(bytes); }
  std::string take() { return std::move(out_); }
  std::size_t size() const { return out_.size(); }

 private:
  std::string out_;
};

}  // namespace munia::files
