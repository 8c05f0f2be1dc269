#include "files/gguf_cursor.h"

#include <bit>

#include "base/utf8.h"
#include "files/describe.h"

namespace munia::files {
namespace {

static_assert(std::endian::native == std::endian::little, "the reader copies little-endian values");

constexpr std::uint64_t kMaxMetadataBytes = 512U << 20;  // where the last string must end

Error make_error(ErrorCode code, std::string_view name, std::string_view what) {
  return {code, std::string(name).append(": ").append(what)};
}

}  // namespace

Result<std::string_view> GgufCursor::read_string(std::uint64_t max_bytes) {
  const std::uint64_t begin = pos_;
  MUNIA_ASSIGN_OR_RETURN(const auto length, read_number<std::uint64_t>());
  if (length > max_bytes) {
    return invalid(where_ + " has a string of " + std::to_string(length) + " bytes at byte " +
                   std::to_string(begin) + ", more than the " + std::to_string(max_bytes) +
                   " allowed there; the file is damaged");
  }
  if (length > remaining()) return cut_off(pos_ + length);
  if (pos_ + length > kMaxMetadataBytes) {
    return over_limit("the metadata goes on after " + std::to_string(kMaxMetadataBytes) +
                      " bytes, the most that is read");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + pos_), length);
  pos_ += length;
  return text;
}

Result<std::string_view> GgufCursor::read_name(std::uint64_t max_bytes) {
  const std::uint64_t begin = pos_;
  MUNIA_ASSIGN_OR_RETURN(const auto name, read_string(max_bytes));
  if (!name.empty() && !find_invalid_utf8(name)) return name;
  return invalid(where_ + " is " + (name.empty() ? "empty" : "not UTF-8: " + in_quotes(name)) +
                 " (at byte " + std::to_string(begin) + ")");
}

Error GgufCursor::invalid(const std::string& what) const {
  return make_error(ErrorCode::kInvalidData, name_, what);
}
Error GgufCursor::unsupported(const std::string& what) const {
  return make_error(ErrorCode::kUnsupported, name_, what);
}
Error GgufCursor::over_limit(const std::string& what) const {
  return make_error(ErrorCode::kLimit, name_, what);
}

Error GgufCursor::cut_off(std::uint64_t needed_bytes, std::string_view at_least) const {
  std::string text(name_);
  text.append(" is cut off: it has ").append(std::to_string(bytes_.size()));
  text.append(" bytes and should have ").append(at_least).append(std::to_string(needed_bytes));
  text.append(", for ").append(where_).append("; fetch the file again");
  return {ErrorCode::kInvalidData, std::move(text)};
}

}  // namespace munia::files
