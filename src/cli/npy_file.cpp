#include "cli/npy_file.h"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

namespace munia::cli {

static_assert(std::endian::native == std::endian::little, "the header below says '<f4'");

NpyFile::NpyFile(std::string path, std::int64_t n_rows, std::int64_t n_cols)
    : path_(std::move(path)), temporary_(path_ + ".partial-" + std::to_string(getpid())) {
  file_ = std::fopen(temporary_.c_str(), "wb");
  if (file_ == nullptr) {
    error_ = errno;
    return;
  }
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                       std::to_string(n_rows) + ", " + std::to_string(n_cols) + "), }";
  // Magic, version and length take 10 bytes; the data begins at a multiple of 64.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  const unsigned char start[10] = {0x93,
                                   'N',
                                   'U',
                                   'M',
                                   'P',
                                   'Y',
                                   1,
                                   0,
                                   static_cast<unsigned char>(header.size() & 0xFF),
                                   static_cast<unsigned char>(header.size() >> 8)};
  write(start, sizeof start);
  write(header.data(), header.size());
}

NpyFile::~NpyFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::remove(temporary_.c_str());
}

void NpyFile::write(const void* bytes, std::size_t size_bytes) {
  if (error_ != 0 || file_ == nullptr) return;
  if (std::fwrite(bytes, 1, size_bytes, file_) != size_bytes) error_ = errno;
}

void NpyFile::append(std::span<const float> row) { write(row.data(), row.size_bytes()); }

Status NpyFile::commit() {
  if (file_ != nullptr) {
    if (std::fclose(file_) != 0 && error_ == 0) error_ = errno;
    file_ = nullptr;
    if (error_ == 0 && std::rename(temporary_.c_str(), path_.c_str()) != 0) error_ = errno;
    if (error_ != 0) std::remove(temporary_.c_str());
  }
  if (error_ == 0) return {};
  return Error{ErrorCode::kIo, "cannot write " + path_ + ": " + std::strerror(error_)};
}

}  // namespace munia::cli
