#include "table/converted_source.h"

#include <iconv.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

namespace munia::table {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 16;

class GzipSource : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> packed) : packed_(std::move(packed)) {
    is_ready_ = inflateInit2(&stream_, kGzipOnly) == Z_OK;
  }
  ~GzipSource() override {
    if (is_ready_) inflateEnd(&stream_);
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  Result<std::size_t> read(std::span<char> buffer) override {
    if (!is_ready_) return Error{ErrorCode::kLimit, "no memory to unpack " + name()};
    stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream_.avail_out = static_cast<uInt>(std::min(buffer.size(), kPieceBytes));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      if (stream_.avail_in == 0) {
        auto n = packed_->read(piece_);
        if (!n) return n.error();
        if (*n == 0) {
          if (in_member_) return damaged("cut off");
          return std::size_t{0};
        }
        stream_.next_in = reinterpret_cast<Bytef*>(piece_.data());
        stream_.avail_in = static_cast<uInt>(*n);
      }
      in_member_ = true;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        in_member_ = false;
        if (inflateReset(&stream_) != Z_OK) return damaged("damaged");
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return damaged("damaged, or not gzip");
      }
    }
    return static_cast<std::size_t>(wanted - stream_.avail_out);
  }
  const std::string& name() const override { return packed_->name(); }
  std::uint64_t bytes_read() const override { return packed_->bytes_read(); }

 private:
  static constexpr int kGzipOnly = 15 + 16;  // the largest window; no zlib or raw streams

  Error damaged(const char* what) const {
    return {ErrorCode::kInvalidData, name() + " is " + what + " after byte " +
                                         std::to_string(packed_->bytes_read() - stream_.avail_in) +
                                         "; unpack it with gzip to see what is left of it"};
  }

  std::unique_ptr<ByteSource> packed_;
  std::array<char, kPieceBytes> piece_;
  z_stream stream_ = {};
  bool is_ready_ = false;
  bool in_member_ = false;
};

class Gb18030Source : public ByteSource {
 public:
  explicit Gb18030Source(std::unique_ptr<ByteSource> source)
      : source_(std::move(source)), handle_(iconv_open("UTF-8", "GB18030")) {}
  ~Gb18030Source() override {
    if (is_usable()) iconv_close(handle_);
  }
  Gb18030Source(const Gb18030Source&) = delete;
  Gb18030Source& operator=(const Gb18030Source&) = delete;
  bool is_usable() const { return handle_ != reinterpret_cast<iconv_t>(-1); }

  Result<std::size_t> read(std::span<char> buffer) override {
    char* to = buffer.data();
    std::size_t to_left = buffer.size();
    const auto skip_wrong_byte = [&] {
      ++begin_;
      *to++ = kWrongByte;
      --to_left;
    };
    while (to_left == buffer.size()) {
      if (needs_more_) {
        // A character may be cut between two pieces: its beginning moves to the front.
        std::copy_n(piece_.data() + begin_, size_ - begin_, piece_.data());
        size_ -= begin_;
        begin_ = 0;
        auto n = source_->read(std::span(piece_).subspan(size_));
        if (!n) return n.error();
        size_ += *n;
        if (*n == 0) {
          if (size_ == 0) return std::size_t{0};
          skip_wrong_byte();  // a character that the end cut off
          continue;
        }
        needs_more_ = false;
      }
      char* from = piece_.data() + begin_;
      std::size_t from_left = size_ - begin_;
      const std::size_t result = iconv(handle_, &from, &from_left, &to, &to_left);
      const bool failed = result == static_cast<std::size_t>(-1);
      begin_ = size_ - from_left;
      needs_more_ = !failed || errno == EINVAL;
      if (failed && errno == EILSEQ && to_left > 0) skip_wrong_byte();
    }
    return buffer.size() - to_left;
  }
  const std::string& name() const override { return source_->name(); }
  std::uint64_t bytes_read() const override { return source_->bytes_read(); }

 private:
  static constexpr char kWrongByte = '\xFF';  // never part of UTF-8

  std::unique_ptr<ByteSource> source_;
  iconv_t handle_;
  std::array<char, kPieceBytes> piece_;
  std::size_t begin_ = 0;  // of what is not converted yet
  std::size_t size_ = 0;   // of what was read
  bool needs_more_ = true;
};

}  // namespace

bool is_gzip_path(std::string_view path) {
  constexpr std::string_view kEnding = ".gz";
  if (path.size() < kEnding.size()) return false;
  path.remove_prefix(path.size() - kEnding.size());
  return path[0] == '.' && (path[1] | 0x20) == 'g' && (path[2] | 0x20) == 'z';
}

std::unique_ptr<ByteSource> unpack_gzip(std::unique_ptr<ByteSource> packed) {
  return std::make_unique<GzipSource>(std::move(packed));
}

Result<std::unique_ptr<ByteSource>> convert_gb18030(std::unique_ptr<ByteSource> source) {
  auto converted = std::make_unique<Gb18030Source>(std::move(source));
  if (!converted->is_usable()) {
    return Error{ErrorCode::kUnsupported,
                 "this system's iconv has no GB18030 converter; convert the input to UTF-8 first"};
  }
  return std::unique_ptr<ByteSource>(std::move(converted));
}

}  // namespace munia::table
