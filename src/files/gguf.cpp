#include "files/gguf.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "files/describe.h"
#include "files/ggml_types.h"
#include "files/gguf_cursor.h"
#include "files/gguf_value.h"

namespace munia::files {
namespace {

// Limits that no real model comes near; they bound memory and time on a hostile file.
constexpr std::uint64_t kMaxKeys = 100'000;
constexpr std::uint64_t kMaxTensors = 100'000;
constexpr std::uint64_t kMaxKeyBytes = 65'535;           // by the specification
constexpr std::uint64_t kMaxTensorNameBytes = 64;        // by the specification
constexpr std::uint64_t kMaxDims = 4;                    // by the specification
constexpr std::uint64_t kMaxTensorBytes = 1ULL << 44;    // also of a tensor's offset
constexpr std::uint64_t kMinKeyBytesInFile = 8 + 4 + 1;  // length, type, smallest value
constexpr std::uint64_t kMinTensorBytesInFile = 8 + 4 + 8 + 4 + 8;
constexpr std::uint64_t kDefaultAlignment = 32;

struct TensorInfo {
  std::string name;
  std::vector<std::int64_t> shape;  // slowest first
  std::uint32_t type_id = 0;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;  // 0: not known
};

struct Contents {
  std::unordered_map<std::string, GgufValue> metadata;
  std::vector<TensorView> tensors;
  std::unordered_map<std::string, std::size_t> tensor_index;
};

/// Reads one file from front to back.
class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, const std::string& name) : in_(bytes, name) {}

  Result<Contents> parse() {
    MUNIA_RETURN_IF_ERROR(read_header());
    for (std::uint64_t i = 0; i < n_keys_; ++i) MUNIA_RETURN_IF_ERROR(read_key_value(i));
    MUNIA_RETURN_IF_ERROR(read_alignment());
    infos_.reserve(n_tensors_);
    for (std::uint64_t i = 0; i < n_tensors_; ++i) MUNIA_RETURN_IF_ERROR(read_tensor_info(i));
    MUNIA_RETURN_IF_ERROR(place_tensors());
    return std::move(contents_);
  }

 private:
  Status read_header() {
    in_.set_where("the header");
    const std::string_view text(reinterpret_cast<const char*>(in_.bytes().data()),
                                in_.bytes().size());
    if (!text.starts_with("GGUF")) {
      if (text.starts_with("FUGG")) return big_endian();
      if (!text.empty() && std::string_view("GGUF").starts_with(text)) return in_.cut_off(24);
      return in_.invalid("this is not a GGUF file: " + looks_like(in_.bytes()));
    }
    in_.skip(4);
    MUNIA_ASSIGN_OR_RETURN(const auto version, in_.read_number<std::uint32_t>());
    // A small number written on a big-endian machine has its low half empty.
    if (version != 0 && (version & 0xFFFF) == 0) return big_endian();
    if (version != 2 && version != 3) {
      return in_.unsupported("GGUF version " + std::to_string(version) +
                             " is not supported, only 2 and 3; convert the model anew");
    }
    MUNIA_ASSIGN_OR_RETURN(n_tensors_, in_.read_number<std::uint64_t>());
    MUNIA_ASSIGN_OR_RETURN(n_keys_, in_.read_number<std::uint64_t>());
    if (n_tensors_ > kMaxTensors) {
      return in_.over_limit("the header claims " + std::to_string(n_tensors_) +
                            " tensors, more than the " + std::to_string(kMaxTensors) +
                            " allowed; the file is damaged");
    }
    if (n_keys_ > kMaxKeys) {
      return in_.over_limit("the header claims " + std::to_string(n_keys_) +
                            " metadata keys, more than the " + std::to_string(kMaxKeys) +
                            " allowed; the file is damaged");
    }
    const std::uint64_t needed = n_tensors_ * kMinTensorBytesInFile + n_keys_ * kMinKeyBytesInFile;
    if (needed > in_.remaining()) {
      in_.set_where(std::to_string(n_keys_) + " metadata keys and " + std::to_string(n_tensors_) +
                    " tensors");
      return in_.cut_off(in_.pos() + needed);
    }
    return {};
  }

  Error big_endian() const {
    return in_.unsupported(
        "this GGUF file has big-endian byte order, which munia does not read; "
        "convert the model for little-endian machines");
  }

  Status read_key_value(std::uint64_t index) {
    in_.set_where("the name of metadata key " + std::to_string(index));
    const std::uint64_t begin = in_.pos();
    MUNIA_ASSIGN_OR_RETURN(const auto key, in_.read_name(kMaxKeyBytes));
    in_.set_where("metadata key " + in_quotes(key));
    MUNIA_ASSIGN_OR_RETURN(const auto type, in_.read_number<std::uint32_t>());
    GgufValue value;
    MUNIA_RETURN_IF_ERROR(read_gguf_value(in_, type, n_array_values_, value));
    if (!contents_.metadata.emplace(key, std::move(value)).second) {
      return in_.invalid(in_.where() + " stands twice in the file (again at byte " +
                         std::to_string(begin) + ")");
    }
    return {};
  }

  Status read_alignment() {
    const auto found = contents_.metadata.find("general.alignment");
    if (found == contents_.metadata.end()) return {};
    const auto* value = std::get_if<std::int64_t>(&found->second);
    if (value == nullptr || *value < 8 || *value > (std::int64_t{1} << 30) ||
        !std::has_single_bit(static_cast<std::uint64_t>(*value))) {
      return in_.invalid("general.alignment is " +
                         (value == nullptr ? "not an integer" : std::to_string(*value)) +
                         "; it must be a power of two, 8 to 2^30");
    }
    alignment_ = static_cast<std::uint64_t>(*value);
    return {};
  }

  Status read_tensor_info(std::uint64_t index) {
    in_.set_where("the name of tensor " + std::to_string(index));
    const std::uint64_t begin = in_.pos();
    TensorInfo info;
    MUNIA_ASSIGN_OR_RETURN(info.name, in_.read_name(kMaxTensorNameBytes));
    in_.set_where("tensor " + in_quotes(info.name));
    if (!contents_.tensor_index.emplace(info.name, index).second) {
      return in_.invalid(in_.where() + " stands twice in the file (again at byte " +
                         std::to_string(begin) + ")");
    }
    MUNIA_ASSIGN_OR_RETURN(const auto n_dims, in_.read_number<std::uint32_t>());
    if (n_dims < 1 || n_dims > kMaxDims) {
      return in_.invalid(in_.where() + " has " + std::to_string(n_dims) + " dimensions; 1 to " +
                         std::to_string(kMaxDims) + " are allowed");
    }
    info.shape.resize(n_dims);
    std::uint64_t n_values = 1;
    for (std::uint32_t d = 0; d < n_dims; ++d) {
      MUNIA_ASSIGN_OR_RETURN(const auto extent, in_.read_number<std::uint64_t>());
      if (extent == 0 || extent > kMaxTensorBytes / n_values) {
        return in_.invalid(in_.where() + " has the impossible extent " + std::to_string(extent) +
                           " in dimension " + std::to_string(d) + "; the file is damaged");
      }
      n_values *= extent;
      // The file has the fastest dimension first.
      info.shape[n_dims - 1 - d] = static_cast<std::int64_t>(extent);
    }
    MUNIA_ASSIGN_OR_RETURN(info.type_id, in_.read_number<std::uint32_t>());
    MUNIA_ASSIGN_OR_RETURN(info.offset, in_.read_number<std::uint64_t>());
    if (info.offset % alignment_ != 0 || info.offset > kMaxTensorBytes) {
      return in_.invalid(in_.where() + " has the data offset " + std::to_string(info.offset) +
                         "; it must be a multiple of the alignment " + std::to_string(alignment_) +
                         " and at most 2^44");
    }
    MUNIA_RETURN_IF_ERROR(set_size(info, n_values));
    infos_.push_back(std::move(info));
    return {};
  }

  Status set_size(TensorInfo& info, std::uint64_t n_values) const {
    const GgmlType* type = find_ggml_type(info.type_id);
    if (type == nullptr || type->block_bytes == 0) return {};
    const auto n_cols = static_cast<std::uint64_t>(info.shape.back());
    if (n_cols % type->block_values != 0) {
      return in_.invalid(in_.where() + " of type " + std::string(type->name) + " has rows of " +
                         std::to_string(n_cols) + " values, not a multiple of its block of " +
                         std::to_string(type->block_values));
    }
    const std::uint64_t n_blocks = n_values / type->block_values;
    if (n_blocks > kMaxTensorBytes / type->block_bytes) {
      return in_.invalid(in_.where() + " would have more than 2^44 bytes; the file is damaged");
    }
    info.size_bytes = n_blocks * type->block_bytes;
    return {};
  }

  /// Where the data of all tensors lies: inside the file, each alone.
  Status place_tensors() {
    if (infos_.empty()) return {};
    const std::uint64_t data_begin = (in_.pos() + alignment_ - 1) / alignment_ * alignment_;
    std::uint64_t file_end = 0;
    for (const TensorInfo& info : infos_) {
      file_end = std::max(file_end, data_begin + info.offset + info.size_bytes);
    }
    if (file_end > in_.bytes().size()) {
      in_.set_where("the data of its " + std::to_string(infos_.size()) + " tensors");
      return in_.cut_off(file_end, "");
    }
    MUNIA_RETURN_IF_ERROR(check_overlaps());
    contents_.tensors.reserve(infos_.size());
    for (TensorInfo& info : infos_) {
      const GgmlType* type = find_ggml_type(info.type_id);
      contents_.tensors.push_back({std::move(info.name),
                                   type == nullptr ? TensorType::kOther : type->type,
                                   ggml_type_name(info.type_id), std::move(info.shape),
                                   in_.bytes().subspan(data_begin + info.offset, info.size_bytes)});
    }
    return {};
  }

  Status check_overlaps() const {
    std::vector<const TensorInfo*> by_offset;
    by_offset.reserve(infos_.size());
    for (const TensorInfo& info : infos_) by_offset.push_back(&info);
    std::sort(by_offset.begin(), by_offset.end(), [](const TensorInfo* a, const TensorInfo* b) {
      return std::pair(a->offset, a->size_bytes) < std::pair(b->offset, b->size_bytes);
    });
    for (std::size_t i = 1; i < by_offset.size(); ++i) {
      const TensorInfo& before = *by_offset[i - 1];
      if (before.offset + before.size_bytes > by_offset[i]->offset) {
        return in_.invalid("the data of tensors " + in_quotes(before.name) + " and " +
                           in_quotes(by_offset[i]->name) + " overlap; the file is damaged");
      }
    }
    return {};
  }

  GgufCursor in_;
  std::uint64_t n_tensors_ = 0;
  std::uint64_t n_keys_ = 0;
  std::uint64_t n_array_values_ = 0;
  std::uint64_t alignment_ = kDefaultAlignment;
  std::vector<TensorInfo> infos_;
  Contents contents_;
};

constexpr const char* kKindNames[] = {"an integer",           "a float",
                                      "a truth value",        "a string",
                                      "an array of integers", "an array of floats",
                                      "an array of strings"};

Error wrong_kind(const std::string& path, std::string_view key, const GgufValue& value,
                 std::size_t wanted) {
  return {ErrorCode::kInvalidData, path + ": metadata key " + in_quotes(key) + " is " +
                                       kKindNames[value.index()] + "; it must be " +
                                       kKindNames[wanted]};
}

/// The value of a key as T; nullptr when absent, an Error when of another kind.
template <class T>
Result<const T*> find_as(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return static_cast<const T*>(nullptr);
  const T* typed = std::get_if<T>(value);
  if (typed == nullptr) return wrong_kind(file.path(), key, *value, GgufValue(T()).index());
  return typed;
}

template <class T>
Result<T> get_or_error(const GgufFile& file, std::string_view key) {
  MUNIA_ASSIGN_OR_RETURN(const T* value, find_as<T>(file, key));
  if (value == nullptr) {
    return Error{ErrorCode::kInvalidData,
                 file.path() + ": metadata key " + in_quotes(key) + " is missing"};
  }
  return *value;
}

template <class T>
Result<T> get_or_fallback(const GgufFile& file, std::string_view key, T fallback) {
  MUNIA_ASSIGN_OR_RETURN(const T* value, find_as<T>(file, key));
  return value == nullptr ? std::move(fallback) : *value;
}

}  // namespace

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::string& path) {
  MUNIA_ASSIGN_OR_RETURN(auto mapped, MappedFile::open(path));
  MUNIA_ASSIGN_OR_RETURN(auto file, parse(mapped.bytes(), path));
  file->file_ = std::move(mapped);
  return file;
}

Result<std::unique_ptr<GgufFile>> GgufFile::parse(std::span<const std::byte> bytes,
                                                  std::string name) {
  MUNIA_ASSIGN_OR_RETURN(auto contents, GgufParser(bytes, name).parse());
  auto file = std::make_unique<GgufFile>();
  file->path_ = std::move(name);
  file->metadata_ = std::move(contents.metadata);
  file->tensors_ = std::move(contents.tensors);
  file->tensor_index_ = std::move(contents.tensor_index);
  return file;
}

const TensorView* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(std::string(name));
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = metadata_.find(std::string(key));
  return found == metadata_.end() ? nullptr : &found->second;
}

Result<std::int64_t> GgufFile::get_int(std::string_view key) const {
  return get_or_error<std::int64_t>(*this, key);
}
Result<std::int64_t> GgufFile::get_int(std::string_view key, std::int64_t fallback) const {
  return get_or_fallback(*this, key, fallback);
}
Result<double> GgufFile::get_float(std::string_view key) const {
  return get_or_error<double>(*this, key);
}
Result<double> GgufFile::get_float(std::string_view key, double fallback) const {
  return get_or_fallback(*this, key, fallback);
}
Result<bool> GgufFile::get_bool(std::string_view key, bool fallback) const {
  return get_or_fallback(*this, key, fallback);
}
Result<std::string> GgufFile::get_string(std::string_view key) const {
  return get_or_error<std::string>(*this, key);
}
Result<std::string> GgufFile::get_string(std::string_view key, std::string_view fallback) const {
  return get_or_fallback(*this, key, std::string(fallback));
}
Result<const std::vector<std::string>*> GgufFile::get_strings(std::string_view key) const {
  return find_as<std::vector<std::string>>(*this, key);
}
Result<const std::vector<std::int64_t>*> GgufFile::get_ints(std::string_view key) const {
  return find_as<std::vector<std::int64_t>>(*this, key);
}

}  // namespace munia::files
