#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace munia {
namespace {

Error system_error(const std::string& path, int code) {
  return Error{code == ENOENT || code == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo,
               "cannot read " + path + ": " + std::strerror(code)};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return system_error(path, errno);
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    const int code = errno;
    close(fd);
    return system_error(path, code);
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return Error{ErrorCode::kIo, "cannot read " + path + ": it is not a regular file"};
  }
  MappedFile file;
  file.fd_ = fd;
  file.path_ = path;
  if (info.st_size > 0) {
    const auto size = static_cast<std::size_t>(info.st_size);
    void* mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapping == MAP_FAILED) return system_error(path, errno);
    file.data_ = static_cast<const std::byte*>(mapping);
    file.size_bytes_ = size;
  }
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_bytes_);
  if (fd_ >= 0) close(fd_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

void MappedFile::advise(std::span<const std::byte> part, int advice) const {
  if (part.data() < data_ || part.data() + part.size() > data_ + size_bytes_) return;
  // Of 16 or 64 KiB on some ARM systems, which refuse addresses between them.
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(part.data() + part.size()) / page * page;
  // Advice only: a refusal costs memory or time, never correctness.
  if (end > begin) (void)madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

void MappedFile::drop(std::span<const std::byte> part) const { advise(part, MADV_DONTNEED); }

void MappedFile::read_ahead(std::span<const std::byte> part) const { advise(part, MADV_WILLNEED); }

Status MappedFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(path_, errno);
    if (n == 0) {
      return Error{ErrorCode::kIo,
                   "cannot read " + path_ + ": it became shorter while it was read"};
    }
    offset += static_cast<std::uint64_t>(n);
    out = out.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  MUNIA_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  if (bytes.size() > max_bytes) {
    return Error{ErrorCode::kLimit, path + " has " + std::to_string(bytes.size()) +
                                        " bytes; at most " + std::to_string(max_bytes) +
                                        " are allowed for such a file"};
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace munia
