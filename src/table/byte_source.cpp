#include "table/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace munia::table {
namespace {

Error system_error(const std::string& name, int code) {
  return {code == ENOENT || code == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo,
          "cannot read " + name + ": " + std::strerror(code)};
}

class FileSource : public ByteSource {
 public:
  FileSource(int fd, bool owned, std::string name)
      : fd_(fd), owned_(owned), name_(std::move(name)) {}
  ~FileSource() override {
    if (owned_) close(fd_);
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  Result<std::size_t> read(std::span<char> buffer) override {
    ssize_t n = 0;
    do {
      n = ::read(fd_, buffer.data(), buffer.size());
    } while (n < 0 && errno == EINTR);
    if (n < 0) return system_error(name_, errno);
    bytes_read_ += static_cast<std::uint64_t>(n);
    return static_cast<std::size_t>(n);
  }
  const std::string& name() const override { return name_; }
  std::uint64_t bytes_read() const override { return bytes_read_; }

 private:
  int fd_;
  bool owned_;
  std::string name_;
  std::uint64_t bytes_read_ = 0;
};

class StringSource : public ByteSource {
 public:
  StringSource(std::string text, std::string name)
      : text_(std::move(text)), name_(std::move(name)) {}

  Result<std::size_t> read(std::span<char> buffer) override {
    const std::size_t n = std::min(buffer.size(), text_.size() - pos_);
    std::copy_n(text_.data() + pos_, n, buffer.data());
    pos_ += n;
    return n;
  }
  const std::string& name() const override { return name_; }
  std::uint64_t bytes_read() const override { return pos_; }

 private:
  std::string text_;
  std::string name_;
  std::size_t pos_ = 0;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_source(const std::string& path) {
  if (path == "-") {
    return std::unique_ptr<ByteSource>(
        std::make_unique<FileSource>(STDIN_FILENO, false, "standard input"));
  }
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return system_error(path, errno);
  auto source = std::make_unique<FileSource>(fd, true, path);
  struct stat info {};
  if (fstat(fd, &info) != 0) return system_error(path, errno);
  if (S_ISDIR(info.st_mode)) return system_error(path, EISDIR);
  return std::unique_ptr<ByteSource>(std::move(source));
}

std::unique_ptr<ByteSource> source_of_string(std::string text, std::string name) {
  return std::make_unique<StringSource>(std::move(text), std::move(name));
}

}  // namespace munia::table
