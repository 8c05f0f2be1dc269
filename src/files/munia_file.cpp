#include "files/munia_file.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unordered_set>

#include "base/sha256.h"
#include "files/byte_stream.h"
#include "files/munia_file_layout.h"

namespace munia::files {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kMaxParts = 65536;
constexpr std::int64_t kMaxDimension = std::int64_t{1} << 40;

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, 80)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + "\"";
}

std::array<std::byte, 32> header_sum(std::span<const std::byte> header) {
  Sha256 sum;
  sum.update(header.first(kSumOffset));
  sum.update(header.subspan(kFixedHeaderBytes));
  return sum.digest();
}

}  // namespace

bool MuniaFile::is_munia_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return false;
  char magic[kMagic.size()];
  const bool same = std::fread(magic, 1, sizeof magic, file) == sizeof magic &&
                    std::memcmp(magic, kMagic.data(), sizeof magic) == 0;
  std::fclose(file);
  return same;
}

Result<std::shared_ptr<const MuniaFile>> MuniaFile::open(const std::string& path,
                                                         std::string_view layout) {
  const std::shared_ptr<MuniaFile> file(new MuniaFile());
  MUNIA_ASSIGN_OR_RETURN(file->file_, MappedFile::open(path));
  file->name_ = path;
  file->bytes_ = file->file_.bytes();
  MUNIA_RETURN_IF_ERROR(file->read_header(layout));
  MUNIA_RETURN_IF_ERROR(file->verify_small_parts());
  return std::shared_ptr<const MuniaFile>(file);
}

Result<std::shared_ptr<const MuniaFile>> MuniaFile::parse(std::span<const std::byte> bytes,
                                                          std::string name,
                                                          std::string_view layout) {
  const std::shared_ptr<MuniaFile> file(new MuniaFile());
  file->name_ = std::move(name);
  file->bytes_ = bytes;
  MUNIA_RETURN_IF_ERROR(file->read_header(layout));
  MUNIA_RETURN_IF_ERROR(file->verify_small_parts());
  return std::shared_ptr<const MuniaFile>(file);
}

Error MuniaFile::bad(const std::string& what) const {
  return {ErrorCode::kInvalidData, name_ + ": " + what};
}

Status MuniaFile::read_header(std::string_view layout) {
  const auto cut_off = [&](std::uint64_t expected) {
    return bad("the packed file is cut off: it has " + std::to_string(bytes_.size()) +
               " bytes and should have " + std::to_string(expected) + "; pack or copy it again");
  };
  const std::size_t n_magic = std::min(bytes_.size(), kMagic.size());
  if (n_magic == 0 || std::memcmp(bytes_.data(), kMagic.data(), n_magic) != 0) {
    return bad("it is not a packed munia file: its first 8 bytes are not the magic ones");
  }
  if (bytes_.size() < kFixedHeaderBytes) return cut_off(kFixedHeaderBytes);
  ByteReader fixed(bytes_.first(kFixedHeaderBytes).subspan(kMagic.size()));
  const auto version = fixed.number<std::uint32_t>();
  const auto zero = fixed.number<std::uint32_t>();
  const auto header_bytes = fixed.number<std::uint64_t>();
  const auto file_bytes = fixed.number<std::uint64_t>();
  if (version != kMuniaVersion) {
    return Error{ErrorCode::kUnsupported,
                 name_ + ": it is a packed file of version " + std::to_string(version) +
                     ", this munia reads version " + std::to_string(kMuniaVersion) +
                     "; pack the model again with this munia"};
  }
  if (zero != 0 || header_bytes < kFixedHeaderBytes || header_bytes > kMaxHeaderBytes) {
    return bad("the header is damaged: its length is " + std::to_string(header_bytes) +
               "; pack or copy the file again");
  }
  if (bytes_.size() < header_bytes) return cut_off(std::max(header_bytes, file_bytes));
  const std::span<const std::byte> header = bytes_.first(header_bytes);
  if (std::memcmp(header_sum(header).data(), bytes_.data() + kSumOffset, 32) != 0) {
    return bad("the header is damaged: its SHA-256 differs; pack or copy the file again");
  }
  if (bytes_.size() < file_bytes) return cut_off(file_bytes);
  if (bytes_.size() > file_bytes) {
    return bad("the packed file has " + std::to_string(bytes_.size()) + " bytes, more than the " +
               std::to_string(file_bytes) + " of its header; pack or copy it again");
  }
  ByteReader table(header.subspan(kFixedHeaderBytes));
  layout_ = table.text();
  weights_ = table.text();
  producer_ = table.text();
  if (!table.ok()) return bad("the header is damaged: its table ends early");
  if (layout_ != layout) {
    return Error{ErrorCode::kUnsupported, name_ + ": its weights are packed in the layout " +
                                              quoted(layout_) + ", this munia computes with " +
                                              quoted(layout) +
                                              "; pack the model again with this munia"};
  }
  return read_parts(table.take(table.n_left()));
}

Status MuniaFile::read_parts(std::span<const std::byte> bytes) {
  ByteReader table(bytes);
  const auto n_parts = table.number<std::uint32_t>();
  if (n_parts > kMaxParts) {
    return bad("the header names " + std::to_string(n_parts) + " parts; at most " +
               std::to_string(kMaxParts) + " are allowed");
  }
  // Where what stands before a part ends: the table, then the part before.
  auto end = static_cast<std::uint64_t>(bytes.data() + bytes.size() - bytes_.data());
  for (std::uint32_t i = 0; i < n_parts; ++i) {
    MuniaPart part;
    part.name = table.text();
    const auto kind = table.number<std::uint8_t>();
    part.type = table.text();
    part.n_rows = table.number<std::int64_t>();
    part.n_cols = table.number<std::int64_t>();
    part.offset = table.number<std::uint64_t>();
    part.size_bytes = table.number<std::uint64_t>();
    const std::span<const std::byte> sum = table.take(part.sha256.size());
    if (!table.ok()) return bad("the header is damaged: its table ends early");
    std::copy(sum.begin(), sum.end(), part.sha256.begin());
    const std::string which = "part " + quoted(part.name);
    if (kind > static_cast<std::uint8_t>(PartKind::kMatrix)) {
      return bad(which + " is of the unknown kind " + std::to_string(kind));
    }
    part.kind = static_cast<PartKind>(kind);
    const bool shape_ok =
        part.kind == PartKind::kBytes
            ? part.n_rows == 0 && part.n_cols == 0
            : part.n_rows >= 1 && part.n_cols >= 1 && part.n_rows <= kMaxDimension &&
                  part.n_cols <= kMaxDimension &&
                  (part.kind == PartKind::kMatrix ||
                   (part.n_rows == 1 &&
                    part.size_bytes == static_cast<std::uint64_t>(part.n_cols) * sizeof(float)));
    if (!shape_ok) {
      return bad(which + " has the shape [" + std::to_string(part.n_rows) + ", " +
                 std::to_string(part.n_cols) + "] in " + std::to_string(part.size_bytes) +
                 " bytes, which cannot be");
    }
    if (part.offset % part_alignment(part.kind) != 0) {
      return bad(which + " begins at " + std::to_string(part.offset) +
                 ", which is no multiple of " + std::to_string(part_alignment(part.kind)));
    }
    if (part.offset < end) {
      return bad(which + " begins at " + std::to_string(part.offset) +
                 ", inside what stands before it, which ends at " + std::to_string(end));
    }
    if (part.offset > bytes_.size() || part.size_bytes > bytes_.size() - part.offset) {
      return bad(which + " has " + std::to_string(part.size_bytes) + " bytes at " +
                 std::to_string(part.offset) + ", beyond the file's end at " +
                 std::to_string(bytes_.size()));
    }
    end = part.offset + part.size_bytes;
    parts_.push_back(std::move(part));
  }
  if (!table.at_end()) return bad("the header is damaged: bytes follow its table");
  for (const MuniaPart& part : parts_) {
    if (!by_name_.emplace(part.name, &part).second) {
      return bad("two parts have the name " + quoted(part.name));
    }
  }
  return {};
}

Status MuniaFile::verify_small_parts() const {
  for (const MuniaPart& part : parts_) {
    if (part.kind != PartKind::kMatrix) MUNIA_RETURN_IF_ERROR(verify(part));
  }
  return {};
}

const MuniaPart* MuniaFile::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

Status MuniaFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (!file_.bytes().empty()) return file_.read(offset, out);
  MUNIA_CHECK(offset <= bytes_.size() && out.size() <= bytes_.size() - offset);
  std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  return {};
}

void MuniaFile::read_ahead() const {
  for (const MuniaPart& part : parts_) {
    if (part.kind == PartKind::kMatrix) file_.read_ahead(bytes(part));
  }
}

Status MuniaFile::verify(const MuniaPart& part) const {
  Sha256 sum;
  sum.update(bytes(part));
  if (part.kind == PartKind::kMatrix) file_.drop(bytes(part));
  if (sum.digest() == part.sha256) return {};
  return bad("part " + quoted(part.name) +
             " is damaged: its SHA-256 differs; pack or copy the file again");
}

}  // namespace munia::files
