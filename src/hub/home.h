// The home of models on disk: which names are allowed, where things lie, the lock of a name,
// durable writing and free space. Private to this room.
//
//   HOME/NAME/munia-model.json + files   a model; appears by one rename
//   HOME/default                         the name that pull_default settled on
//   HOME/.partial/NAME/SOURCE/ready/     checked files of an unfinished pull
//   HOME/.partial/NAME/SOURCE/work/      unchecked ones: *.part, wheels
//   HOME/.partial/NAME/SOURCE/snapshot   the commit that ready/ was taken from
//   HOME/.locks/NAME                     locked (flock) while a process changes NAME
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "hub/hub.h"

namespace munia::hub {

namespace fs = std::filesystem;

/// [A-Za-z0-9._-]+, at most 120 bytes, not beginning with '.' or '-'.
bool valid_name(std::string_view name);
/// kInvalidArgument for what a model in the home cannot be called: no valid name, or "default",
/// whose place in the home is taken.
Status check_model_name(std::string_view name);
/// "ORG/REPO" -> "ORG--REPO"; kInvalidArgument unless both parts are valid names.
Result<std::string> name_of_repo(std::string_view repo);
/// An address for messages and records: without user, password, query and fragment, which may hold
/// secrets; control bytes are replaced.
std::string shown_address(std::string_view url);
/// What the caller typed, for a message: quoted, control bytes replaced, cut at 200 bytes; an
/// address as shown_address() shows it.
std::string shown(std::string_view typed);

struct Home {
  fs::path root;

  /// kInvalidArgument when no home is known.
  static Result<Home> open(const HubOptions& options);
  fs::path model_dir(const std::string& name) const { return root / name; }
  fs::path partial_dir(const std::string& name) const { return root / ".partial" / name; }
  fs::path default_file() const { return root / "default"; }
};

/// mkdir -p, as a Status.
Status make_dirs(const fs::path& dir);
/// kLimit when the file system of `dir` has less than `bytes` and a small reserve free; `what` is
/// what the room is for.
Status check_free_space(const fs::path& dir, std::uint64_t bytes, const std::string& what);

/// Writes `text` so that after a crash either the old or the new content stands there, and perhaps
/// PATH.new, which the next call writes over. The caller holds a lock: two must not write one path
/// at once.
Status write_file_atomically(const fs::path& path, std::string_view text);
/// Renames and makes the rename durable.
Status rename_durably(const fs::path& from, const fs::path& to);
Status sync_file(const fs::path& path);

/// Holds the lock of one name; released when it goes away, also when the process dies.
class NameLock {
 public:
  /// Waits for another process that holds it, with one note, until cancelled.
  static Result<NameLock> acquire(const Home& home, const std::string& name,
                                  const PullCallbacks& callbacks);
  /// kUnavailable when another process holds it.
  static Result<NameLock> try_acquire(const Home& home, const std::string& name);
  NameLock(NameLock&& other) noexcept;
  NameLock& operator=(NameLock&&) = delete;
  ~NameLock();

 private:
  explicit NameLock(int fd) : fd_(fd) {}
  static Result<NameLock> open(const Home& home, const std::string& name);
  Result<bool> try_lock();  // false: another process holds it
  int fd_ = -1;
};

}  // namespace munia::hub
