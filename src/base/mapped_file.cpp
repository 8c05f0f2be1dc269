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
  if (info.st_size > 0) {
    const auto size = static_cast<std::size_t>(info.st_size);
    void* mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    const int code = errno;
    close(fd);
    if (mapping == MAP_FAILED) return system_error(path, code);
    file.data_ = static_cast<const std::byte*>(mapping);
    file.size_bytes_ = size;
  } else {
    close(fd);
  }
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_bytes_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

void MappedFile::drop(std::span<const std::byte> part) const {
  if (part.data() < data_ || part.data() + part.size() > data_ + size_bytes_) return;
  constexpr std::uintptr_t kPage = 4096;
  const auto begin = (reinterpret_cast<std::uintptr_t>(part.data()) + kPage - 1) / kPage * kPage;
  const auto end = reinterpret_cast<std::uintptr_t>(part.data() + part.size()) / kPage * kPage;
  // Advice only: a refusal costs memory, never correctness.
  if (end > begin) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
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
