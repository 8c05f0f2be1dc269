#include "table/row_input.h"

#include "base/utf8.h"

namespace munia::table {

bool RowInput::fill() {
  if (at_end_) return false;
  auto n = source_->read(buffer_);
  pos_ = 0;
  size_ = n ? *n : 0;
  at_end_ = size_ == 0;
  if (!n) failure_ = n.error();
  return !at_end_;
}

Status RowInput::begin() {
  // The source may give few bytes at a time; the mark needs three.
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  while (size_ < kMark.size() && !at_end_) {
    const auto n = source_->read(std::span(buffer_).subspan(size_));
    if (!n) return n.error();
    size_ += *n;
    at_end_ = *n == 0;
  }
  const std::string_view text(buffer_.data(), size_);
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return Error{ErrorCode::kInvalidData, name() + " is in UTF-16; save it as UTF-8"};
  }
  if (text.starts_with(kMark)) pos_ = kMark.size();
  return {};
}

void RowInput::begin_row() {
  // A very long row should not keep its memory for all the rows after it.
  if (raw_.capacity() > (1U << 20)) raw_ = std::string();
  raw_.clear();
  row_line_ = line_;
  too_long_ = false;
}

bool RowInput::read_line() {
  begin_row();
  if (peek() == kEnd) return false;
  int c = get();
  for (; c != kEnd && c != '\n' && c != '\r'; c = get()) keep(c);
  if (c == '\r' && peek() == '\n') (void)get();
  return !failure_.has_value();
}

Status RowInput::check_row() const {
  if (too_long_) {
    return error_in_row(ErrorCode::kLimit, "the row has more than the " +
                                               std::to_string(max_row_bytes_) +
                                               " bytes allowed (is a closing quote missing?)");
  }
  if (const auto nul = raw_.find('\0'); nul != std::string::npos) {
    return error_at(nul, "a NUL byte; the file is damaged or not text in UTF-8");
  }
  if (const auto invalid = find_invalid_utf8(raw_)) {
    return error_at(*invalid, "not UTF-8; convert the file to UTF-8 or name its encoding");
  }
  return {};
}

Error RowInput::error_at(std::size_t offset, std::string_view what) const {
  std::uint64_t line = row_line_;
  std::uint64_t column = 1;
  for (std::size_t i = 0; i < offset && i < raw_.size(); ++i) {
    const char c = raw_[i];
    const bool ends_line =
        c == '\n' || (c == '\r' && (i + 1 == raw_.size() || raw_[i + 1] != '\n'));
    if (ends_line) {
      ++line;
      column = 1;
    } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
      ++column;  // columns count characters, not bytes
    }
  }
  std::string text(name());
  text.append(", line ").append(std::to_string(line));
  text.append(", column ").append(std::to_string(column)).append(": ").append(what);
  return {ErrorCode::kInvalidData, std::move(text)};
}

Error RowInput::error_in_row(ErrorCode code, std::string_view what) const {
  std::string text(name());
  text.append(", line ").append(std::to_string(row_line_)).append(": ").append(what);
  return {code, std::move(text)};
}

}  // namespace munia::table
