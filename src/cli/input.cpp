#include "cli/input.h"

#include <fcntl.h>
#include <iconv.h>
#include <poll.h>
#include <unistd.h>

#include <boost/json/parser.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/utf8.h"
#include "cli/exit_status.h"

namespace munia::cli {
namespace {

constexpr std::string_view kBom = "\xEF\xBB\xBF";

class Converter {
 public:
  Converter() : handle_(iconv_open("UTF-8", "GB18030")) {}
  ~Converter() {
    if (usable()) iconv_close(handle_);
  }
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;
  bool usable() const { return handle_ != reinterpret_cast<iconv_t>(-1); }

  /// Appends the converted text; the offset of the first byte that is not GB18030, or nothing.
  std::optional<std::size_t> convert(std::string_view text, std::string& out) {
    iconv(handle_, nullptr, nullptr, nullptr, nullptr);
    char* in = const_cast<char*>(text.data());  // iconv's signature; it does not write to it
    std::size_t in_left = text.size();
    char chunk[4096];
    while (in_left > 0) {
      char* to = chunk;
      std::size_t to_left = sizeof chunk;
      const std::size_t result = iconv(handle_, &in, &in_left, &to, &to_left);
      out.append(chunk, sizeof chunk - to_left);
      if (result == static_cast<std::size_t>(-1) && errno != E2BIG) return text.size() - in_left;
    }
    return std::nullopt;
  }

 private:
  iconv_t handle_;
};

std::string from_gb18030(std::string_view text, const std::string& where, Lang lang) {
  Converter converter;
  if (!converter.usable()) {
    fail(ExitStatus::kFailed,
         lang.tr("this system's iconv has no GB18030 converter; convert the input to UTF-8 first",
                 "本系统的 iconv 不支持 GB18030，请先把输入转换成 UTF-8"));
  }
  std::string out;
  if (const auto bad = converter.convert(text, out)) {
    fail(ExitStatus::kBadInput,
         where + lang.tr("byte {} is not GB18030 text", "第 {} 字节不是 GB18030 编码的文本", *bad));
  }
  return out;
}

}  // namespace

std::string LineReader::where() const { return lang_.tr("line {}: ", "第 {} 行：", line_number_); }

bool LineReader::ready() const {
  if (at_end_ || buffer_.find('\n', scanned_) != std::string::npos) return true;
  pollfd waiting{fd_, POLLIN, 0};
  return poll(&waiting, 1, 0) > 0;
}

std::optional<std::string> LineReader::next_raw() {
  for (;;) {
    const void* newline = scanned_ < buffer_.size() ? std::memchr(buffer_.data() + scanned_, '\n',
                                                                  buffer_.size() - scanned_)
                                                    : nullptr;
    std::size_t length = 0;
    if (newline != nullptr) {
      length =
          static_cast<std::size_t>(static_cast<const char*>(newline) - buffer_.data()) - begin_;
    } else {
      scanned_ = buffer_.size();
      length = buffer_.size() - begin_;
    }
    const bool whole = newline != nullptr || at_end_;
    if (length > kMaxLineBytes) {
      ++line_number_;
      fail(ExitStatus::kBadInput, where() + lang_.tr("longer than {} bytes, the limit of a line",
                                                     "超过一行的上限 {} 字节", kMaxLineBytes));
    }
    if (whole) {
      if (newline == nullptr && length == 0) return std::nullopt;
      ++line_number_;
      line_offset_ = next_offset_;
      std::string line = buffer_.substr(begin_, length);
      const std::size_t consumed = length + (newline != nullptr ? 1 : 0);
      begin_ += consumed;
      next_offset_ += consumed;
      scanned_ = begin_;
      return line;
    }
    buffer_.erase(0, begin_);
    scanned_ -= begin_;
    begin_ = 0;
    char chunk[65536];
    const ssize_t n = ::read(fd_, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      fail(ExitStatus::kBadInput,
           lang_.tr("cannot read the input: {}", "无法读取输入：{}", std::strerror(errno)));
    }
    if (n == 0) at_end_ = true;
    buffer_.append(chunk, static_cast<std::size_t>(n));
  }
}

void LineReader::check(const std::string& line) const {
  const std::size_t nul = line.find('\0');
  if (nul != std::string::npos) {
    fail(
        ExitStatus::kBadInput,
        where() + lang_.tr("byte {} of the line (byte {} of the input) is a NUL: the input looks "
                           "like binary data, not text",
                           "本行第 {} 字节（输入的第 {} 字节）是 NUL：输入像是二进制数据，不是文本",
                           nul, line_offset_ + nul));
  }
  if (encoding_ != Encoding::kUtf8) return;
  if (const auto bad = find_invalid_utf8(line)) {
    fail(ExitStatus::kBadInput,
         where() +
             lang_.tr("byte {} of the line (byte {} of the input) is not UTF-8; a file in "
                      "GB18030 or GBK needs --encoding gb18030",
                      "本行第 {} 字节（输入的第 {} 字节）不是 UTF-8；GB18030 或 GBK 编码的文件请加 "
                      "--encoding gb18030",
                      *bad, line_offset_ + *bad));
  }
}

std::optional<std::string> LineReader::next() {
  std::optional<std::string> line = next_raw();
  if (!line) return std::nullopt;
  check(*line);
  if (line_number_ == 1 && line->starts_with(kBom)) line->erase(0, kBom.size());
  if (line->ends_with('\r')) line->pop_back();
  if (encoding_ == Encoding::kGb18030) line = from_gb18030(*line, where(), lang_);
  return line;
}

std::optional<std::string> LineReader::next_filled() {
  for (;;) {
    std::optional<std::string> line = next();
    if (!line || !is_blank(*line)) return line;
  }
}

std::vector<std::string> read_texts(const std::string& path, Encoding encoding, Lang lang) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    fail(ExitStatus::kCannotLoad, path + ": " + std::strerror(errno));
  }
  LineReader reader(fd, encoding, lang);
  std::vector<std::string> texts;
  while (std::optional<std::string> line = reader.next_filled()) texts.push_back(*std::move(line));
  ::close(fd);
  if (texts.empty()) {
    fail(ExitStatus::kBadInput, lang.tr("{}: there is no text in it", "{}：文件里没有文本", path));
  }
  return texts;
}

std::string argument_text(const std::string& text, std::size_t index, Encoding encoding,
                          Lang lang) {
  const std::string where = lang.tr("text {}: ", "第 {} 个文本：", index + 1);
  if (encoding == Encoding::kGb18030) return from_gb18030(text, where, lang);
  if (const auto bad = find_invalid_utf8(text)) {
    fail(ExitStatus::kBadInput,
         where + lang.tr("byte {} is not UTF-8", "第 {} 字节不是 UTF-8", *bad));
  }
  return text;
}

boost::json::value parse_json(std::string_view text, const std::string& where, Lang lang) {
  boost::json::parse_options options;
  options.max_depth = 64;
  boost::json::parser parser({}, options);
  boost::json::error_code error;
  const std::size_t used = parser.write_some(text.data(), text.size(), error);
  if (!error && used < text.size()) error = boost::json::error::extra_data;
  if (error) {
    fail(ExitStatus::kBadInput,
         where + lang.tr("not valid JSON at byte {}: {}", "第 {} 字节处不是合法的 JSON：{}", used,
                         error.message()));
  }
  return parser.release();
}

boost::json::object parse_json_object(std::string_view text, const std::string& where, Lang lang) {
  boost::json::value value = parse_json(text, where, lang);
  if (!value.is_object()) {
    fail(ExitStatus::kBadInput,
         where + lang.tr("a JSON object is expected", "这里应当是一个 JSON 对象"));
  }
  return std::move(value.as_object());
}

}  // namespace munia::cli
