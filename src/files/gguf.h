// GGUF v2 and v3: metadata and tensors of one mapped file. Bytes are untrusted: every count,
// offset and length is checked before it is used, multiplied or allocated.
// Source of the format: the GGUF specification of the ggml project (docs/gguf.md there).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "files/tensor_file.h"

namespace munia::files {

/// A metadata value. Integers of every width are held as int64 (uint64 above its range is an
/// error), floats as double, arrays flat and of one kind (nested arrays are refused).
using GgufValue = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<std::string>>;

class GgufFile {
 public:
  /// Maps and checks `path`. Errors name the path, what is wrong and where (byte offset).
  static Result<std::unique_ptr<GgufFile>> open(const std::string& path);
  /// The same over bytes that the caller keeps alive (tests, fuzzers); `name` is for messages.
  static Result<std::unique_ptr<GgufFile>> parse(std::span<const std::byte> bytes,
                                                 std::string name);

  const std::string& path() const { return path_; }
  const std::vector<TensorView>& tensors() const { return tensors_; }
  /// nullptr when the file has no such tensor.
  const TensorView* find_tensor(std::string_view name) const;
  /// Tells that a tensor's bytes will not be read again (MappedFile::drop).
  void drop(const TensorView& tensor) const { file_.drop(tensor.bytes); }

  const std::unordered_map<std::string, GgufValue>& metadata() const { return metadata_; }
  /// nullptr when the key is absent.
  const GgufValue* find(std::string_view key) const;
  /// Typed access: the default (or an Error without one) when absent, an Error when another kind.
  Result<std::int64_t> get_int(std::string_view key) const;
  Result<std::int64_t> get_int(std::string_view key, std::int64_t fallback) const;
  Result<double> get_float(std::string_view key) const;
  Result<double> get_float(std::string_view key, double fallback) const;
  Result<bool> get_bool(std::string_view key, bool fallback) const;
  Result<std::string> get_string(std::string_view key) const;
  Result<std::string> get_string(std::string_view key, std::string_view fallback) const;
  /// nullptr when absent; an Error when another kind.
  Result<const std::vector<std::string>*> get_strings(std::string_view key) const;
  Result<const std::vector<std::int64_t>*> get_ints(std::string_view key) const;

 private:
  std::string path_;
  MappedFile file_;
  std::unordered_map<std::string, GgufValue> metadata_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string, std::size_t> tensor_index_;
};

}  // namespace munia::files
