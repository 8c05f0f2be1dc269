// A float32 matrix as NumPy's .npy file, row by row. Written beside its place and renamed when
// whole, so a run that ends early leaves nothing that looks complete.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include "base/error.h"

namespace munia::cli {

class NpyFile {
 public:
  /// Begins `path` for a matrix [n_rows, n_cols]. A failure to open is told by commit().
  NpyFile(std::string path, std::int64_t n_rows, std::int64_t n_cols);
  ~NpyFile();
  NpyFile(const NpyFile&) = delete;
  NpyFile& operator=(const NpyFile&) = delete;

  void append(std::span<const float> row);  // [n_cols]
  /// Error when anything could not be written.
  Status commit();

 private:
  void write(const void* bytes, std::size_t size_bytes);
  std::string path_;
  std::string temporary_;
  std::FILE* file_ = nullptr;
  int error_ = 0;
};

}  // namespace munia::cli
