#include "hub/home.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "base/utf8.h"
#include "hub/common.h"

namespace munia::hub {
namespace {

constexpr std::uint64_t kReserveBytes = std::uint64_t{64} << 20;  // left free for everyone else

Error io_error(const std::string& action, const fs::path& path, int code) {
  return {code == ENOSPC || code == EDQUOT ? ErrorCode::kLimit : ErrorCode::kIo,
          "cannot " + action + " " + path.string() + ": " + std::strerror(code)};
}

Status write_all(int fd, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("write", path, errno);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace

bool valid_name(std::string_view name) {
  if (name.empty() || name.size() > 120 || name[0] == '.' || name[0] == '-') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

Status check_model_name(std::string_view name) {
  if (name == "default") {
    return Error{ErrorCode::kInvalidArgument,
                 "no model can be named \"default\": munia keeps there which model is the default; "
                 "give another name (munia pull --name NAME PATH)"};
  }
  if (valid_name(name)) return {};
  return Error{ErrorCode::kInvalidArgument,
               shown(name) +
                   " cannot be a model's name: use 1 to 120 letters, digits, \".\", \"_\" and "
                   "\"-\", not beginning with \".\" or \"-\" (munia pull --name NAME PATH)"};
}

std::string shown_address(std::string_view url) {
  std::string text(url.substr(0, url.find_first_of("?#")));
  const std::size_t host = text.find("://");
  if (host != std::string::npos) {
    const std::size_t end = text.find('/', host + 3);
    const std::size_t at = text.rfind('@', end == std::string::npos ? end : end - 1);
    if (at != std::string::npos && at > host) text.erase(host + 3, at - host - 2);
  }
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return replace_invalid_utf8(text);  // records are JSON
}

std::string shown(std::string_view typed) {
  constexpr std::size_t kMaxShown = 200;
  std::string address;
  if (typed.find("://") != std::string_view::npos) typed = address = shown_address(typed);
  std::size_t n_shown = std::min(typed.size(), kMaxShown);
  // Not in the middle of a UTF-8 character.
  while (n_shown > 0 && n_shown < typed.size() && (typed[n_shown] & 0xC0) == 0x80) --n_shown;
  std::string text(typed.substr(0, n_shown));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return "\"" + text + (n_shown < typed.size() ? "…\"" : "\"");
}

Result<std::string> name_of_repo(std::string_view repo) {
  const std::size_t slash = repo.find('/');
  if (slash != std::string_view::npos) {
    const std::string_view org = repo.substr(0, slash);
    const std::string_view model = repo.substr(slash + 1);
    if (valid_name(org) && valid_name(model)) {
      std::string name = std::string(org) + "--" + std::string(model);
      if (valid_name(name)) return name;
    }
  }
  return Error{ErrorCode::kInvalidArgument,
               shown(repo) +
                   " is not a repository; write it as ORG/REPO, letters, digits, "
                   "\".\", \"_\" and \"-\" only"};
}

Result<Home> Home::open(const HubOptions& options) {
  if (options.home.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "there is no directory for models: set MUNIA_HOME, XDG_CACHE_HOME or HOME"};
  }
  std::error_code error;
  const fs::path root = fs::absolute(options.home, error);
  if (error) {
    return Error{ErrorCode::kIo, "cannot use " + shown(options.home) +
                                     " as the directory for models: " + error.message()};
  }
  return Home{root};
}

Status make_dirs(const fs::path& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return io_error("create", dir, error.value());
  return {};
}

Status check_free_space(const fs::path& dir, std::uint64_t bytes, const std::string& what) {
  struct statvfs info {};
  if (statvfs(dir.c_str(), &info) != 0) return io_error("ask for free space of", dir, errno);
  const std::uint64_t free_bytes = std::uint64_t{info.f_bavail} * std::uint64_t{info.f_frsize};
  if (free_bytes >= kReserveBytes && free_bytes - kReserveBytes >= bytes) return {};
  return Error{ErrorCode::kLimit, what + " needs " + std::to_string(bytes) + " bytes and " +
                                      std::to_string(kReserveBytes) + " in reserve, but " +
                                      dir.string() + " has only " + std::to_string(free_bytes) +
                                      " free; make room or set MUNIA_HOME to another disk"};
}

Status sync_file(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error("open", path, errno);
  const int code = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  // Some network file systems refuse fsync on directories; the rename itself still stands.
  if (code != 0 && code != EINVAL) return io_error("write", path, code);
  return {};
}

Status rename_durably(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    return io_error("rename " + from.string() + " to", to, errno);
  }
  return sync_file(to.has_parent_path() ? to.parent_path() : fs::path("."));
}

Status write_file_atomically(const fs::path& path, std::string_view text) {
  const fs::path temporary = path.string() + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return io_error("write", temporary, errno);
  Status status = write_all(fd, text, temporary);
  if (status && fsync(fd) != 0) status = io_error("write", temporary, errno);
  if (close(fd) != 0 && status) status = io_error("write", temporary, errno);
  if (status) status = rename_durably(temporary, path);
  if (!status) ::unlink(temporary.c_str());
  return status;
}

Result<NameLock> NameLock::open(const Home& home, const std::string& name) {
  const fs::path dir = home.root / ".locks";
  MUNIA_RETURN_IF_ERROR(make_dirs(dir));
  const fs::path path = dir / name;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return io_error("open", path, errno);
  return NameLock(fd);
}

Result<bool> NameLock::try_lock() {
  while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) {
      return Error{ErrorCode::kIo, std::string("cannot lock a model: ") + std::strerror(errno)};
    }
  }
  return true;
}

Result<NameLock> NameLock::acquire(const Home& home, const std::string& name,
                                   const PullCallbacks& callbacks) {
  MUNIA_ASSIGN_OR_RETURN(NameLock lock, open(home, name));
  for (bool told = false;; told = true) {
    MUNIA_ASSIGN_OR_RETURN(const bool locked, lock.try_lock());
    if (locked) return lock;
    if (!told && callbacks.on_note) {
      callbacks.on_note("waiting for another process that is changing model " + name);
    }
    MUNIA_RETURN_IF_ERROR(check_cancelled(callbacks));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

Result<NameLock> NameLock::try_acquire(const Home& home, const std::string& name) {
  MUNIA_ASSIGN_OR_RETURN(NameLock lock, open(home, name));
  MUNIA_ASSIGN_OR_RETURN(const bool locked, lock.try_lock());
  if (locked) return lock;
  return Error{ErrorCode::kUnavailable,
               "another process is pulling or removing model " + name + "; wait for its end"};
}

NameLock::NameLock(NameLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

NameLock::~NameLock() {
  if (fd_ >= 0) close(fd_);  // closing releases the lock; the empty file stays, so nobody races
}

}  // namespace munia::hub
