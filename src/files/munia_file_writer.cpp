// Writes packed files; see munia_file.h.
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/sha256.h"
#include "files/byte_stream.h"
#include "files/munia_file.h"
#include "files/munia_file_layout.h"

namespace munia::files {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kStepBytes = std::size_t{8} << 20;
constexpr std::uint64_t kReserveBytes = std::uint64_t{64} << 20;  // left free for everyone else

std::uint64_t align(std::uint64_t offset, std::size_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

Error io_error(const std::string& action, const fs::path& path, int code) {
  return {code == ENOSPC || code == EDQUOT || code == EFBIG ? ErrorCode::kLimit : ErrorCode::kIo,
          "cannot " + action + " " + path.string() + ": " + std::strerror(code)};
}

Status write_at(int fd, std::uint64_t offset, std::span<const std::byte> bytes,
                const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("write", path, errno);
    offset += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Status check_space(const fs::path& directory, std::uint64_t needed) {
  struct statvfs info {};
  if (statvfs(directory.c_str(), &info) != 0) return {};  // writing will tell
  const std::uint64_t available = std::uint64_t{info.f_bavail} * info.f_frsize;
  if (available >= needed && available - needed >= kReserveBytes) return {};
  return Error{ErrorCode::kLimit,
               directory.string() + " has " + std::to_string(available) +
                   " bytes free; the packed file needs " + std::to_string(needed) + " and leaves " +
                   std::to_string(kReserveBytes) + "; free some or write it elsewhere"};
}

// The file under its temporary name; gone unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(fs::path path) : path_(std::move(path)) {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0) code_ = errno;
  }
  ~TemporaryFile() {
    if (fd_ >= 0) close(fd_);
    if (fd_ >= 0 && !renamed_) unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int fd() const { return fd_; }
  Status opened() const { return fd_ >= 0 ? Status() : Status(io_error("write", path_, code_)); }
  Status rename_durably(const fs::path& to) {
    if (fsync(fd_) != 0) return io_error("write", path_, errno);
    if (::rename(path_.c_str(), to.c_str()) != 0) return io_error("write", to, errno);
    renamed_ = true;
    const fs::path directory = to.has_parent_path() ? to.parent_path() : ".";
    const int dir = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) return {};
    (void)fsync(dir);  // some network file systems refuse it; the rename still stands
    close(dir);
    return {};
  }

 private:
  fs::path path_;
  int fd_ = -1;
  int code_ = 0;
  bool renamed_ = false;
};

std::array<std::byte, 32> sum_of(std::span<const std::byte> bytes) {
  Sha256 sum;
  sum.update(bytes);
  return sum.digest();
}

std::span<const std::byte> as_byte_span(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

void MuniaFileWriter::add_bytes(std::string name, std::string content) {
  kept_.push_back(std::make_unique<std::string>(std::move(content)));
  Entry entry;
  entry.part.name = std::move(name);
  entry.bytes = as_byte_span(*kept_.back());
  entries_.push_back(std::move(entry));
}

void MuniaFileWriter::add_vector(std::string name, std::span<const float> values) {
  Entry entry;
  entry.part.name = std::move(name);
  entry.part.kind = PartKind::kVector;
  entry.part.type = "F32";
  entry.part.n_rows = 1;
  entry.part.n_cols = static_cast<std::int64_t>(values.size());
  entry.bytes = std::as_bytes(values);
  entries_.push_back(std::move(entry));
}

void MuniaFileWriter::add_matrix(MuniaPart description, std::span<const std::byte> panels) {
  Entry entry{std::move(description), panels};
  entry.part.kind = PartKind::kMatrix;
  entries_.push_back(std::move(entry));
}

// Small parts first, right behind the table: one short read brings them all.
void MuniaFileWriter::place_parts() {
  std::stable_partition(entries_.begin(), entries_.end(),
                        [](const Entry& entry) { return entry.part.kind != PartKind::kMatrix; });
  std::uint64_t end = header_bytes().size();
  for (Entry& entry : entries_) {
    entry.part.offset = align(end, part_alignment(entry.part.kind));
    entry.part.size_bytes = entry.bytes.size();
    end = entry.part.offset + entry.part.size_bytes;
  }
  file_bytes_ = end;
}

std::string MuniaFileWriter::header_bytes() const {
  ByteWriter table;
  table.text(header_.layout);
  table.text(header_.weights);
  table.text(header_.producer);
  table.number(static_cast<std::uint32_t>(entries_.size()));
  for (const Entry& entry : entries_) {
    const MuniaPart& part = entry.part;
    table.text(part.name);
    table.number(static_cast<std::uint8_t>(part.kind));
    table.text(part.type);
    table.number(part.n_rows);
    table.number(part.n_cols);
    table.number(part.offset);
    table.number(part.size_bytes);
    table.raw({reinterpret_cast<const char*>(part.sha256.data()), part.sha256.size()});
  }
  ByteWriter fixed;
  fixed.raw(kMagic);
  fixed.number(kMuniaVersion);
  fixed.number(std::uint32_t{0});
  fixed.number(static_cast<std::uint64_t>(kFixedHeaderBytes + table.size()));
  fixed.number(file_bytes_);
  const std::string head = fixed.take();
  const std::string rest = table.take();
  const std::array<std::byte, 32> sum = sum_of(as_byte_span(head + rest));
  return head + std::string(reinterpret_cast<const char*>(sum.data()), sum.size()) + rest;
}

Result<std::uint64_t> MuniaFileWriter::write(const std::string& path, const Callbacks& callbacks) {
  place_parts();
  const fs::path target(path);
  const fs::path directory = target.has_parent_path() ? target.parent_path() : ".";
  MUNIA_RETURN_IF_ERROR(check_space(directory, file_bytes_));
  TemporaryFile file(path + ".partial-" + std::to_string(getpid()));
  MUNIA_RETURN_IF_ERROR(file.opened());
  for (Entry& entry : entries_) {
    Sha256 sum;
    for (std::size_t begin = 0; begin < entry.bytes.size(); begin += kStepBytes) {
      if (callbacks.cancelled && callbacks.cancelled()) {
        return Error{ErrorCode::kCancelled, "packing was stopped; nothing was written"};
      }
      const auto step =
          entry.bytes.subspan(begin, std::min(kStepBytes, entry.bytes.size() - begin));
      sum.update(step);
      MUNIA_RETURN_IF_ERROR(write_at(file.fd(), entry.part.offset + begin, step, target));
      if (callbacks.on_progress) {
        callbacks.on_progress(entry.part.offset + begin + step.size(), file_bytes_);
      }
    }
    entry.part.sha256 = sum.digest();
  }
  const std::string header = header_bytes();
  MUNIA_RETURN_IF_ERROR(write_at(file.fd(), 0, as_byte_span(header), target));
  MUNIA_RETURN_IF_ERROR(file.rename_durably(target));
  return file_bytes_;
}

std::string MuniaFileWriter::to_string() {
  place_parts();
  for (Entry& entry : entries_) entry.part.sha256 = sum_of(entry.bytes);
  std::string out = header_bytes();
  for (const Entry& entry : entries_) {
    out.resize(entry.part.offset, '\0');
    out.append(reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size());
  }
  return out;
}

}  // namespace munia::files
