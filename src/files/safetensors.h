// safetensors: one file, or the shards that model.safetensors.index.json names. Bytes are
// untrusted; header, offsets, shapes and overlaps are checked before a view is handed out.
// Source of the format: the safetensors project's README ("Format").
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "files/tensor_file.h"

namespace munia::files {

class Safetensors {
 public:
  /// Opens `dir`/model.safetensors, or all shards of `dir`/model.safetensors.index.json (every
  /// tensor of the index must be in its shard). Errors name the file and what is wrong.
  static Result<std::unique_ptr<Safetensors>> open_directory(const std::string& dir);
  /// One file over bytes that the caller keeps alive (tests, fuzzers); `name` is for messages.
  static Result<std::unique_ptr<Safetensors>> parse(std::span<const std::byte> bytes,
                                                    std::string name);

  const std::vector<TensorView>& tensors() const { return tensors_; }
  /// nullptr when no shard has such a tensor.
  const TensorView* find_tensor(std::string_view name) const;
  /// Tells that a tensor's bytes will not be read again (MappedFile::drop).
  void drop(const TensorView& tensor) const {
    for (const MappedFile& file : files_) file.drop(tensor.bytes);
  }

 private:
  std::vector<MappedFile> files_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string, std::size_t> tensor_index_;
};

}  // namespace munia::files
