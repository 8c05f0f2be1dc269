#include "files/safetensors.h"

#include <algorithm>
#include <bit>
#include <boost/json.hpp>
#include <cstring>
#include <map>
#include <utility>

#include "files/describe.h"
#include "files/safetensors_header.h"

namespace munia::files {
namespace {

static_assert(std::endian::native == std::endian::little, "the readers copy little-endian values");

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as the reference implementation has it
constexpr std::size_t kMaxIndexBytes = 32U << 20;
constexpr std::uint64_t kMaxTensorBytes = 1ULL << 44;
constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";

struct Dtype {
  std::string_view name;
  std::uint32_t bits;
  TensorType type;
};

constexpr Dtype kDtypes[] = {
    {"F32", 32, TensorType::kF32},      {"F16", 16, TensorType::kF16},
    {"BF16", 16, TensorType::kBf16},    {"BOOL", 8, TensorType::kOther},
    {"U8", 8, TensorType::kOther},      {"I8", 8, TensorType::kOther},
    {"U16", 16, TensorType::kOther},    {"I16", 16, TensorType::kOther},
    {"U32", 32, TensorType::kOther},    {"I32", 32, TensorType::kOther},
    {"U64", 64, TensorType::kOther},    {"I64", 64, TensorType::kOther},
    {"F64", 64, TensorType::kOther},    {"C64", 64, TensorType::kOther},
    {"F8_E4M3", 8, TensorType::kOther}, {"F8_E5M2", 8, TensorType::kOther},
    {"F8_E8M0", 8, TensorType::kOther}, {"F6_E2M3", 6, TensorType::kOther},
    {"F6_E3M2", 6, TensorType::kOther}, {"F4", 4, TensorType::kOther},
};

/// What one or several files together hold.
struct Contents {
  std::vector<TensorView> tensors;
  std::unordered_map<std::string, std::size_t> index;
  std::vector<std::size_t> file_begins;  // the first tensor of each file
};

/// Reads one file and adds its tensors.
class FileParser {
 public:
  FileParser(std::span<const std::byte> bytes, const std::string& name, Contents& contents)
      : bytes_(bytes), name_(name), contents_(contents) {}

  Status parse() {
    std::uint64_t header_bytes = 0;
    if (bytes_.size() < sizeof header_bytes + 2) {
      if (bytes_.size() >= 4) MUNIA_RETURN_IF_ERROR(refuse_other_kinds());
      return cut_off(sizeof header_bytes + 2, "at least ");
    }
    MUNIA_RETURN_IF_ERROR(refuse_other_kinds());
    std::memcpy(&header_bytes, bytes_.data(), sizeof header_bytes);
    if (header_bytes > kMaxHeaderBytes) {
      return Error{ErrorCode::kLimit, name_ + ": the header claims " +
                                          std::to_string(header_bytes) + " bytes, more than the " +
                                          std::to_string(kMaxHeaderBytes) + " allowed"};
    }
    const std::uint64_t data_begin = sizeof header_bytes + header_bytes;
    if (data_begin > bytes_.size()) return cut_off(data_begin, "at least ");
    auto entries = parse_safetensors_header(
        {reinterpret_cast<const char*>(bytes_.data()) + sizeof header_bytes, header_bytes});
    if (!entries) return Error{entries.error().code, name_ + ": " + entries.error().message};
    for (const SafetensorsEntry& entry : *entries) MUNIA_RETURN_IF_ERROR(check_entry(entry));
    MUNIA_RETURN_IF_ERROR(check_layout(*entries, data_begin));
    contents_.file_begins.push_back(contents_.tensors.size());
    for (SafetensorsEntry& entry : *entries) MUNIA_RETURN_IF_ERROR(add(entry, data_begin));
    return {};
  }

 private:
  Error invalid(const std::string& what) const {
    return {ErrorCode::kInvalidData, name_ + ": " + what};
  }
  Error cut_off(std::uint64_t needed_bytes, const char* at_least) const {
    return {ErrorCode::kInvalidData, name_ + " is cut off: it has " +
                                         std::to_string(bytes_.size()) + " bytes and should have " +
                                         at_least + std::to_string(needed_bytes) +
                                         "; fetch the file again"};
  }

  /// The header's first byte tells a safetensors file from any other.
  Status refuse_other_kinds() const {
    if (bytes_.size() > 8 && bytes_[8] == std::byte{'{'}) return {};
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, bytes_.data(), std::min<std::size_t>(8, bytes_.size()));
    if (bytes_.size() <= 8 && header_bytes <= kMaxHeaderBytes) return {};  // may be cut off
    return invalid("this is not a safetensors file: " + looks_like(bytes_));
  }

  static const Dtype* find_dtype(std::string_view name) {
    const auto* found = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                     [&](const Dtype& dtype) { return dtype.name == name; });
    return found == std::end(kDtypes) ? nullptr : found;
  }

  Status check_entry(const SafetensorsEntry& entry) const {
    const std::string tensor = "tensor " + in_quotes(entry.name);
    if (entry.name.empty()) return invalid("a tensor has an empty name");
    if (entry.dtype.empty()) return invalid(tensor + " has an empty dtype");
    if (entry.begin > entry.end || entry.end > kMaxTensorBytes) {
      return invalid(tensor + " has the impossible data_offsets " + std::to_string(entry.begin) +
                     ", " + std::to_string(entry.end));
    }
    std::uint64_t n_values = 1;
    bool has_zero = false;
    for (const std::int64_t extent : entry.shape) has_zero |= extent == 0;
    for (const std::int64_t extent : entry.shape) {
      if (has_zero) break;
      if (static_cast<std::uint64_t>(extent) > kMaxTensorBytes / n_values) {
        return invalid(tensor + " has an impossible shape: more than 2^44 values");
      }
      n_values *= static_cast<std::uint64_t>(extent);
    }
    if (has_zero) n_values = 0;
    const Dtype* dtype = find_dtype(entry.dtype);
    if (dtype == nullptr) return {};  // handed out as kOther; its size can't be checked
    const std::uint64_t n_bits = n_values * dtype->bits;
    const std::uint64_t held = entry.end - entry.begin;
    if (n_bits % 8 != 0 || n_bits / 8 != held) {
      return invalid(tensor + " has " + std::to_string(held) + " bytes by its data_offsets, but " +
                     std::to_string(n_values) + " values of " + std::string(dtype->name) +
                     " take " + std::to_string((n_bits + 7) / 8));
    }
    return {};
  }

  /// The tensors must fill the data exactly: no hole, no overlap, nothing after the last.
  Status check_layout(const std::vector<SafetensorsEntry>& entries,
                      std::uint64_t data_begin) const {
    std::vector<const SafetensorsEntry*> by_offset;
    by_offset.reserve(entries.size());
    std::uint64_t data_end = 0;
    for (const SafetensorsEntry& entry : entries) {
      by_offset.push_back(&entry);
      data_end = std::max(data_end, entry.end);
    }
    if (data_begin + data_end > bytes_.size()) return cut_off(data_begin + data_end, "");
    std::sort(by_offset.begin(), by_offset.end(),
              [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
                return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
              });
    std::uint64_t end = 0;
    for (const SafetensorsEntry* entry : by_offset) {
      if (entry->begin != end) {
        return invalid("the data of tensor " + in_quotes(entry->name) + " begins at " +
                       std::to_string(entry->begin) + " and must begin at " + std::to_string(end) +
                       ": the tensors " + (entry->begin < end ? "overlap" : "leave a hole"));
      }
      end = entry->end;
    }
    if (data_begin + end != bytes_.size()) {
      return invalid("it has " + std::to_string(bytes_.size()) + " bytes and should end after " +
                     std::to_string(data_begin + end) + ", where its last tensor ends");
    }
    return {};
  }

  Status add(SafetensorsEntry& entry, std::uint64_t data_begin) {
    const auto [other, is_new] = contents_.index.emplace(entry.name, contents_.tensors.size());
    if (!is_new) {
      const bool same_file = other->second >= contents_.file_begins.back();
      return invalid("tensor " + in_quotes(entry.name) +
                     (same_file ? " stands twice in the header"
                                : " is already in another shard of the model"));
    }
    const Dtype* dtype = find_dtype(entry.dtype);
    contents_.tensors.push_back(
        {std::move(entry.name), dtype == nullptr ? TensorType::kOther : dtype->type,
         std::move(entry.dtype), std::move(entry.shape),
         bytes_.subspan(data_begin + entry.begin, entry.end - entry.begin)});
    return {};
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  Contents& contents_;
};

/// A file name of the index may not lead out of the model's directory.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.ends_with(".safetensors") &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

/// file name -> the tensors that the index places there.
using WeightMap = std::map<std::string, std::vector<std::string>>;

Result<WeightMap> read_index(const std::string& path) {
  const auto invalid = [&](const std::string& what) {
    return Error{ErrorCode::kInvalidData, path + ": " + what};
  };
  MUNIA_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxIndexBytes));
  boost::json::error_code code;
  boost::json::parse_options options;
  options.max_depth = 8;
  const auto root = boost::json::parse(text, code, {}, options);
  if (code) return invalid("it is not valid JSON: " + code.message());
  const auto* object = root.if_object();
  const auto* map = object == nullptr ? nullptr : object->if_contains("weight_map");
  if (map == nullptr || !map->is_object()) return invalid("it has no object \"weight_map\"");
  WeightMap shards;
  for (const auto& [tensor, file] : map->get_object()) {
    const auto* name = file.if_string();
    if (name == nullptr || !is_plain_name({name->data(), name->size()})) {
      return invalid("tensor " + in_quotes({tensor.data(), tensor.size()}) + " is placed in " +
                     (name == nullptr ? "no string" : in_quotes({name->data(), name->size()})) +
                     "; it must be the name of a .safetensors file in the same directory");
    }
    shards[std::string(name->data(), name->size())].emplace_back(tensor.data(), tensor.size());
  }
  if (shards.empty()) return invalid("\"weight_map\" is empty");
  return shards;
}

std::string join(const std::string& dir, const std::string& name) {
  return dir.empty() || dir.back() == '/' ? dir + name : dir + "/" + name;
}

Status check_listed(const WeightMap& shards, const Contents& contents,
                    const std::string& index_path) {
  std::size_t i = 0;
  for (const auto& [file, tensors] : shards) {
    const std::size_t begin = contents.file_begins[i];
    const std::size_t end =
        i + 1 < contents.file_begins.size() ? contents.file_begins[i + 1] : contents.tensors.size();
    for (const std::string& tensor : tensors) {
      const auto found = contents.index.find(tensor);
      if (found == contents.index.end() || found->second < begin || found->second >= end) {
        return Error{ErrorCode::kInvalidData, index_path + ": tensor " + in_quotes(tensor) +
                                                  " is listed for " + in_quotes(file) +
                                                  ", which does not hold it"};
      }
    }
    ++i;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Safetensors>> Safetensors::open_directory(const std::string& dir) {
  auto result = std::make_unique<Safetensors>();
  Contents contents;
  const std::string single_path = join(dir, kSingleName);
  auto single = MappedFile::open(single_path);
  if (single) {
    MUNIA_RETURN_IF_ERROR(FileParser(single->bytes(), single_path, contents).parse());
    result->files_.push_back(*std::move(single));
  } else if (single.error().code != ErrorCode::kNotFound) {
    return single.error();
  } else {
    const std::string index_path = join(dir, kIndexName);
    auto shards = read_index(index_path);
    if (!shards && shards.error().code == ErrorCode::kNotFound) {
      return Error{ErrorCode::kNotFound, "no weights in " + dir + ": neither " + kSingleName +
                                             " nor " + kIndexName + " is there"};
    }
    if (!shards) return shards.error();
    for (const auto& [file, tensors] : *shards) {
      const std::string path = join(dir, file);
      auto mapped = MappedFile::open(path);
      if (!mapped) {
        return Error{mapped.error().code, mapped.error().message + " (a shard that " + index_path +
                                              " names; fetch the model again)"};
      }
      MUNIA_RETURN_IF_ERROR(FileParser(mapped->bytes(), path, contents).parse());
      result->files_.push_back(*std::move(mapped));
    }
    MUNIA_RETURN_IF_ERROR(check_listed(*shards, contents, index_path));
  }
  result->tensors_ = std::move(contents.tensors);
  result->tensor_index_ = std::move(contents.index);
  return result;
}

Result<std::unique_ptr<Safetensors>> Safetensors::parse(std::span<const std::byte> bytes,
                                                        std::string name) {
  Contents contents;
  MUNIA_RETURN_IF_ERROR(FileParser(bytes, name, contents).parse());
  auto result = std::make_unique<Safetensors>();
  result->tensors_ = std::move(contents.tensors);
  result->tensor_index_ = std::move(contents.index);
  return result;
}

const TensorView* Safetensors::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(std::string(name));
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace munia::files
