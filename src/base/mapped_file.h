// A file mapped read-only, whole. Moves, never copies. Its pages are the page cache's own, shared
// by all processes that map the file. It stays open: a file that is replaced (renamed over)
// meanwhile goes on being this one. A file that is cut short in place is not guarded against:
// reading the lost pages ends the process (SIGBUS), as with every mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"

namespace munia {

class MappedFile {
 public:
  MappedFile() = default;
  /// Maps `path`. kNotFound when it does not exist, kIo when it cannot be read (a directory, no
  /// permission): the message names the path and the system's reason. An empty file gives no bytes.
  static Result<MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  /// Tells the kernel that `part` will not be read again, so its pages need not stay resident.
  /// Bytes that are not this mapping's are left alone.
  void drop(std::span<const std::byte> part) const;
  /// Asks the kernel to read `part` into the page cache, without waiting for it.
  void read_ahead(std::span<const std::byte> part) const;
  /// Copies bytes from `offset` on without touching the mapping, so no page of it becomes resident.
  Status read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  void advise(std::span<const std::byte> part, int advice) const;
  const std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  int fd_ = -1;
  std::string path_;  // for messages
};

/// The whole of a small text file (config, template). kLimit above `max_bytes`.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes);

}  // namespace munia
