// Bundles: a model as one tar, for a machine without network. The first member is the record, which
// names every other member with its size and SHA-256; nothing else may be in it. The bytes depend
// on the model alone (no times, no owners), so two bundles of one model are equal.
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "base/sha256.h"
#include "hub/common.h"
#include "hub/home.h"
#include "hub/hub.h"
#include "hub/record.h"

namespace munia::hub {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
constexpr std::uint64_t kMemberOverheadBytes = 4096;  // of a tar: header and padding, with room

struct ReadDeleter {
  void operator()(archive* a) const { archive_read_free(a); }
};
struct WriteDeleter {
  void operator()(archive* a) const { archive_write_free(a); }
};
struct EntryDeleter {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

Error file_error(const std::string& action, const fs::path& path, int code) {
  std::string message = "cannot " + action + " " + path.string() + ": " + std::strerror(code);
  const bool full = code == ENOSPC || code == EDQUOT;
  if (full) message += "; make room there";
  if (code == EFBIG) message += "; its file system takes no file of this size (FAT: 4 GiB)";
  return {full || code == EFBIG ? ErrorCode::kLimit : ErrorCode::kIo, message};
}

std::uint64_t bytes_of(const std::vector<RecordFile>& files) {
  std::uint64_t total = 0;
  for (const RecordFile& file : files) total += file.size_bytes;
  return total;
}

// One bundle being written.
class BundleWriter {
 public:
  BundleWriter(fs::path path, const PullCallbacks& callbacks)
      : path_(std::move(path)), callbacks_(callbacks), archive_(archive_write_new()) {}

  Status open(int fd) {
    archive_write_set_format_pax_restricted(archive_.get());
    archive_write_set_bytes_in_last_block(archive_.get(), 1);
    if (archive_write_open_fd(archive_.get(), fd) != ARCHIVE_OK) return error();
    return {};
  }
  Status begin(const std::string& name, std::uint64_t size_bytes) {
    const std::unique_ptr<archive_entry, EntryDeleter> entry(archive_entry_new());
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(size_bytes));
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_mtime(entry.get(), 0, 0);
    if (archive_write_header(archive_.get(), entry.get()) != ARCHIVE_OK) return error();
    return {};
  }
  Status write(const void* data, std::size_t n_bytes) {
    if (archive_write_data(archive_.get(), data, n_bytes) != static_cast<la_ssize_t>(n_bytes)) {
      return error();
    }
    return {};
  }
  Status end() {
    if (archive_write_close(archive_.get()) != ARCHIVE_OK) return error();
    return {};
  }

  // A file of the model, hashed on the way.
  Status add(const fs::path& source, const std::string& member, const RecordFile& file,
             PullProgress& progress) {
    const FdCloser in{::open(source.c_str(), O_RDONLY | O_CLOEXEC)};
    if (in.fd < 0) return file_error("read", source, errno);
    MUNIA_RETURN_IF_ERROR(begin(member, file.size_bytes));
    Sha256 hash;
    std::uint64_t n_done = 0;
    buffer_.resize(kChunkBytes);
    for (;;) {
      MUNIA_RETURN_IF_ERROR(check_cancelled(callbacks_));
      const ssize_t n = ::read(in.fd, buffer_.data(), buffer_.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return file_error("read", source, errno);
      if (n == 0) break;
      n_done += static_cast<std::uint64_t>(n);
      if (n_done > file.size_bytes) break;
      hash.update({buffer_.data(), static_cast<std::size_t>(n)});
      MUNIA_RETURN_IF_ERROR(write(buffer_.data(), static_cast<std::size_t>(n)));
      progress.bytes_done += static_cast<std::uint64_t>(n);
      if (callbacks_.on_progress) callbacks_.on_progress(progress);
    }
    if (n_done == file.size_bytes && hash.hex_digest() == file.sha256) return {};
    return Error{ErrorCode::kInvalidData,
                 source.string() +
                     " is not what was pulled (size or SHA-256 differ): the model is "
                     "damaged; type munia rm, then munia pull"};
  }

 private:
  Status error() const {
    const int code = archive_errno(archive_.get());
    return file_error("write", path_, code > 0 ? code : EIO);
  }

  fs::path path_;
  const PullCallbacks& callbacks_;
  std::unique_ptr<archive, WriteDeleter> archive_;
  std::vector<std::byte> buffer_;
};

Status write_members(int fd, const fs::path& output, const fs::path& dir, const Record& record,
                     const PullCallbacks& callbacks) {
  MUNIA_ASSIGN_OR_RETURN(const std::string text,
                         read_file((dir / kRecordName).string(), kMaxRecordBytes));
  BundleWriter writer(output, callbacks);
  MUNIA_RETURN_IF_ERROR(writer.open(fd));
  const std::string prefix = record.model.name + "/";
  MUNIA_RETURN_IF_ERROR(writer.begin(prefix + kRecordName, text.size()));
  MUNIA_RETURN_IF_ERROR(writer.write(text.data(), text.size()));
  PullProgress progress{output.filename().string(), 0, bytes_of(record.files)};
  for (const RecordFile& file : record.files) {
    MUNIA_RETURN_IF_ERROR(writer.add(dir / file.name, prefix + file.name, file, progress));
  }
  MUNIA_RETURN_IF_ERROR(writer.end());
  if (fsync(fd) != 0 && errno != EINVAL) return file_error("write", output, errno);
  return {};
}

fs::path dir_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

Status check_output(const fs::path& path, bool replace) {
  std::error_code error;
  if (path.extension() != ".tar" || path.stem().empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "the name of a bundle must end in .tar, unlike " + shown(path.string())};
  }
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && (!fs::is_regular_file(status) || !replace)) {
    return Error{
        ErrorCode::kInvalidArgument,
        shown(path.string()) + (fs::is_regular_file(status) ? " exists; --force replaces it"
                                                            : " exists and is not a regular file")};
  }
  if (!fs::is_directory(dir_of(path), error)) {
    return Error{ErrorCode::kInvalidArgument,
                 "there is no directory " + shown(dir_of(path).string())};
  }
  return {};
}

// Opens the file that a bundle grows in, locked. Its name is always the same, so that what a killed
// process left is written over; its content is left as it is.
Result<int> open_locked(const fs::path& part) {
  for (;;) {
    const int fd = ::open(part.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0) return file_error("write", part, errno);
    // A file system without locks is no reason to write nothing.
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      close(fd);
      return Error{ErrorCode::kUnavailable,
                   "another process is writing " + shown(part.string()) + "; wait for its end"};
    }
    struct stat opened {};
    struct stat named {};
    if (fstat(fd, &opened) != 0 || !S_ISREG(opened.st_mode)) {
      close(fd);
      return Error{ErrorCode::kInvalidArgument, shown(part.string()) + " is not a regular file"};
    }
    // Between the two calls its owner may have renamed or removed it: then the lock is of no use.
    if (stat(part.c_str(), &named) == 0 && named.st_ino == opened.st_ino &&
        named.st_dev == opened.st_dev) {
      return fd;
    }
    close(fd);
  }
}

// One bundle being read, member by member.
class BundleReader {
 public:
  explicit BundleReader(fs::path path) : path_(std::move(path)), archive_(archive_read_new()) {}

  Status open() {
    std::error_code error;
    if (!fs::is_regular_file(path_, error)) {
      return Error{ErrorCode::kNotFound, "there is no file " + shown(path_.string())};
    }
    // Of libarchive's many formats only this one.
    if (archive_read_support_format_tar(archive_.get()) != ARCHIVE_OK ||
        archive_read_open_filename(archive_.get(), path_.c_str(), kChunkBytes) != ARCHIVE_OK) {
      return not_a_bundle("it cannot be read as a tar");
    }
    return {};
  }
  /// The next member's name and size; an empty name at the end.
  Result<RecordFile> next() {
    archive_entry* entry = nullptr;
    for (;;) {
      const int code = archive_read_next_header(archive_.get(), &entry);
      if (code == ARCHIVE_EOF) return RecordFile{};
      if (code < ARCHIVE_WARN) return not_a_bundle(why());
      if (archive_entry_filetype(entry) != AE_IFDIR) break;  // as other tar programs add
    }
    const char* name = archive_entry_pathname(entry);
    if (archive_entry_filetype(entry) != AE_IFREG || name == nullptr ||
        archive_entry_hardlink(entry) != nullptr || archive_entry_size(entry) < 0) {
      return not_a_bundle("it holds something that is no plain file");
    }
    std::string plain = name;
    if (plain.starts_with("./")) plain.erase(0, 2);
    return RecordFile{plain, static_cast<std::uint64_t>(archive_entry_size(entry)), ""};
  }
  /// The current member's bytes, in pieces; stops at an Error of `take`.
  Status read(const std::function<Status(const std::byte*, std::size_t)>& take) {
    buffer_.resize(kChunkBytes);
    for (;;) {
      const la_ssize_t n = archive_read_data(archive_.get(), buffer_.data(), buffer_.size());
      if (n < 0) return not_a_bundle(why());
      if (n == 0) return {};
      MUNIA_RETURN_IF_ERROR(take(buffer_.data(), static_cast<std::size_t>(n)));
    }
  }
  Error not_a_bundle(const std::string& reason) const {
    return {ErrorCode::kInvalidData, shown(path_.string()) + " is not a whole bundle of munia's (" +
                                         reason +
                                         "); copy it again from where `munia bundle` wrote it"};
  }

 private:
  std::string why() const {
    const char* text = archive_error_string(archive_.get());
    return text != nullptr ? text : "it is damaged";
  }

  fs::path path_;
  std::unique_ptr<archive, ReadDeleter> archive_;
  std::vector<std::byte> buffer_;
};

// The first member.
Result<Record> read_first(BundleReader& reader) {
  MUNIA_ASSIGN_OR_RETURN(const RecordFile first, reader.next());
  const std::size_t slash = first.name.find('/');
  const bool named = slash != std::string::npos && first.name.substr(slash + 1) == kRecordName &&
                     valid_name(first.name.substr(0, slash));
  if (!named || first.size_bytes > kMaxRecordBytes) {
    return reader.not_a_bundle("it does not begin with a model's record");
  }
  std::string text;
  MUNIA_RETURN_IF_ERROR(reader.read([&](const std::byte* data, std::size_t n_bytes) -> Status {
    text.append(reinterpret_cast<const char*>(data), n_bytes);
    return {};
  }));
  auto record = parse_record(text);
  if (!record || record->model.name != first.name.substr(0, slash) || record->files.empty()) {
    return reader.not_a_bundle("its record is damaged");
  }
  MUNIA_RETURN_IF_ERROR(check_model_name(record->model.name));
  std::uint64_t total = 0;
  for (const RecordFile& file : record->files) {
    if (!valid_name(file.name) || file.name == kRecordName || file.sha256.size() != 64 ||
        __builtin_add_overflow(total, file.size_bytes, &total)) {
      return reader.not_a_bundle("its record is damaged");
    }
  }
  return record;
}

// The current member into `dir`, compared with what the record says of it.
Status take_member(BundleReader& reader, const RecordFile& file, const fs::path& dir,
                   const PullCallbacks& callbacks, PullProgress& progress) {
  const fs::path path = dir / file.name;
  const FdCloser out{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
  if (out.fd < 0) return file_error("write", path, errno);
  Sha256 hash;
  std::uint64_t n_done = 0;
  const auto take = [&](const std::byte* data, std::size_t n_bytes) -> Status {
    MUNIA_RETURN_IF_ERROR(check_cancelled(callbacks));
    hash.update({data, n_bytes});
    n_done += n_bytes;
    progress.bytes_done += n_bytes;
    if (callbacks.on_progress) callbacks.on_progress(progress);
    while (n_bytes > 0) {
      const ssize_t written = ::write(out.fd, data, n_bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return file_error("write", path, errno);
      data += written;
      n_bytes -= static_cast<std::size_t>(written);
    }
    return {};
  };
  MUNIA_RETURN_IF_ERROR(reader.read(take));
  if (n_done != file.size_bytes || hash.hex_digest() != file.sha256) {
    return reader.not_a_bundle("its file " + file.name + " has another length or SHA-256");
  }
  if (fsync(out.fd) != 0 && errno != EINVAL) return file_error("write", path, errno);
  return {};
}

// All other members.
Status take_members(BundleReader& reader, const Record& record, const fs::path& dir,
                    const PullCallbacks& callbacks) {
  const std::string prefix = record.model.name + "/";
  PullProgress progress{record.model.name, 0, bytes_of(record.files)};
  std::set<std::string> seen;
  for (;;) {
    MUNIA_ASSIGN_OR_RETURN(const RecordFile member, reader.next());
    if (member.name.empty()) break;
    const auto file =
        std::find_if(record.files.begin(), record.files.end(),
                     [&](const RecordFile& listed) { return prefix + listed.name == member.name; });
    if (file == record.files.end() || member.size_bytes != file->size_bytes ||
        !seen.insert(file->name).second) {
      return reader.not_a_bundle("its member " + shown(member.name) + " is not as its record says");
    }
    MUNIA_RETURN_IF_ERROR(take_member(reader, *file, dir, callbacks, progress));
  }
  if (seen.size() != record.files.size()) return reader.not_a_bundle("files are missing");
  return {};
}

bool same_files(const std::vector<RecordFile>& a, const std::vector<RecordFile>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const RecordFile& x, const RecordFile& y) {
                      return x.name == y.name && x.sha256 == y.sha256;
                    });
}

}  // namespace

Result<std::uint64_t> write_bundle(const std::string& name, const std::string& output, bool replace,
                                   const HubOptions& options, const PullCallbacks& callbacks) {
  MUNIA_ASSIGN_OR_RETURN(const InstalledModel model, find_model(name, options));
  MUNIA_ASSIGN_OR_RETURN(const Home home, Home::open(options));
  MUNIA_ASSIGN_OR_RETURN(Record record, read_record_file(home, model.name));
  if (record.model.name != model.name) {
    return Error{ErrorCode::kInvalidData, "model " + model.name + " was pulled as " +
                                              shown(record.model.name) +
                                              " and renamed by hand; give its directory the old "
                                              "name, then bundle it"};
  }
  // What pull_bundle() would refuse is not written.
  MUNIA_RETURN_IF_ERROR(check_model_name(model.name));
  for (const RecordFile& file : record.files) {
    if (valid_name(file.name)) continue;
    return Error{ErrorCode::kInvalidData,
                 "a bundle cannot hold the file " + shown(file.name) + " of model " + model.name +
                     ": a file's name may have letters, digits, \".\", \"_\" and \"-\", at most "
                     "120; type munia rm " +
                     model.name + ", then pull it again"};
  }
  const fs::path path = output;
  MUNIA_RETURN_IF_ERROR(check_output(path, replace));
  const fs::path part = path.string() + ".part";
  MUNIA_ASSIGN_OR_RETURN(const int fd, open_locked(part));
  const FdCloser out(fd);  // releases the lock last of all
  const auto write = [&]() -> Status {
    MUNIA_RETURN_IF_ERROR(check_output(path, replace));  // whoever held the lock may have made it
    if (ftruncate(fd, 0) != 0) return file_error("write", part, errno);
    const std::uint64_t n_bytes =
        bytes_of(record.files) + kMemberOverheadBytes * (record.files.size() + 2);
    MUNIA_RETURN_IF_ERROR(check_free_space(dir_of(path), n_bytes, "writing " + path.string()));
    MUNIA_RETURN_IF_ERROR(write_members(fd, path, home.model_dir(model.name), record, callbacks));
    return rename_durably(part, path);
  };
  const Status written = write();
  std::error_code error;
  if (!written) {
    fs::remove(part, error);
    return written.error();
  }
  return std::uint64_t{fs::file_size(path, error)};
}

Result<InstalledModel> pull_bundle(const std::string& path, const HubOptions& options,
                                   const PullCallbacks& callbacks) {
  BundleReader reader(path);
  MUNIA_RETURN_IF_ERROR(reader.open());
  MUNIA_ASSIGN_OR_RETURN(Record record, read_first(reader));
  const std::string name = record.model.name;
  MUNIA_ASSIGN_OR_RETURN(const Home home, Home::open(options));
  MUNIA_RETURN_IF_ERROR(make_dirs(home.root));
  MUNIA_RETURN_IF_ERROR(check_place(home, name));
  MUNIA_ASSIGN_OR_RETURN(const NameLock lock, NameLock::acquire(home, name, callbacks));
  auto here = read_record_file(home, name);
  if (here) {
    if (same_files(here->files, record.files)) return read_record(home, name);
    return Error{ErrorCode::kInvalidArgument, "another model " + name +
                                                  " is here already; type: munia rm " + name +
                                                  ", then pull the bundle again"};
  }
  if (here.error().code != ErrorCode::kNotFound) return here.error();
  const fs::path ready = home.partial_dir(name) / "bundle" / "ready";
  std::error_code error;
  fs::remove_all(ready, error);
  MUNIA_RETURN_IF_ERROR(make_dirs(ready));
  MUNIA_RETURN_IF_ERROR(check_free_space(ready, bytes_of(record.files), "unpacking " + path));
  Status taken = take_members(reader, record, ready, callbacks);
  if (!taken) {
    fs::remove_all(ready.parent_path(), error);
    fs::remove(home.partial_dir(name), error);  // when nothing else is kept there
    return taken.error();
  }
  if (!record.model.source.starts_with("bundle")) {
    record.model.source =
        "bundle of " + (record.model.source.empty() ? "local files" : record.model.source);
  }
  return install(home, ready, std::move(record.model));
}

}  // namespace munia::hub
