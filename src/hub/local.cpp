// pull_local: models that are files on this machine already, by hard link where the file system
// can.
#include "hub/local.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "hub/common.h"
#include "hub/home.h"
#include "hub/hub.h"
#include "hub/record.h"

namespace munia::hub {
namespace {

bool is_model_file(const fs::path& file) {
  const fs::path extension = file.extension();
  for (const char* known : {".safetensors", ".json", ".txt", ".jinja", ".gguf", ".munia"}) {
    if (extension == known) return true;
  }
  const std::string name = file.filename().string();
  return name.starts_with("LICENSE") || name.starts_with("NOTICE");
}

bool is_weights(const fs::path& file) {
  return file.extension() == ".safetensors" || file.extension() == ".gguf" ||
         file.extension() == ".munia";
}

struct LocalFile {
  fs::path path;
  std::string name;  // in the home; a valid name
};

constexpr char kNameRule[] =
    "a model's files have names of letters, digits, \".\", \"_\" and \"-\", at most 120";

// The weights of a model that is one file: their name means nothing to a loader, so an odd one is
// replaced by the model's.
LocalFile lone_weights(const fs::path& path, const std::string& name) {
  const std::string own = path.filename().string();
  if (valid_name(own)) return {path, own};
  const std::string plain = name + path.extension().string();
  return {path, valid_name(plain) ? plain : "model" + path.extension().string()};
}

// The model's files in a directory. Hidden ones (macOS writes ._NAME beside NAME) are nobody's.
Result<std::vector<LocalFile>> files_in(const fs::path& dir, const std::string& name,
                                        const PullCallbacks& callbacks) {
  std::error_code error;
  std::vector<LocalFile> files;
  std::vector<fs::path> weights;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const fs::path file = it->path();
    const std::string own = file.filename().string();
    if (!it->is_regular_file(error) || !is_model_file(file)) continue;
    if (own.starts_with('.') || own == kRecordName) continue;
    if (is_weights(file)) {
      weights.push_back(file);
    } else if (valid_name(own)) {
      files.push_back({file, own});
    } else if (callbacks.on_note) {
      callbacks.on_note(shown(own) + " is left out: " + kNameRule);
    }
  }
  if (error) {
    return Error{ErrorCode::kIo, "cannot read " + dir.string() + ": " + error.message()};
  }
  if (weights.size() == 1 && weights[0].extension() != ".safetensors") {
    files.push_back(lone_weights(weights[0], name));
    return files;
  }
  for (const fs::path& file : weights) {
    const std::string own = file.filename().string();
    if (!valid_name(own)) {
      return Error{ErrorCode::kInvalidArgument,
                   shown(own) + " cannot be taken: " + kNameRule + "; rename it"};
    }
    files.push_back({file, own});
  }
  return files;
}

// The files to take; weights are among them.
Result<std::vector<LocalFile>> local_files(const fs::path& path, const std::string& name,
                                           const PullCallbacks& callbacks) {
  std::error_code error;
  std::vector<LocalFile> files;
  if (fs::is_directory(path, error)) {
    MUNIA_ASSIGN_OR_RETURN(files, files_in(path, name, callbacks));
  } else if (fs::is_regular_file(path, error)) {
    if (path.extension() == ".gguf" || path.extension() == ".munia") {
      files.push_back(lone_weights(path, name));
    }
  } else {
    // As people write a repository who leave out the hub.
    const std::string hint = name_of_repo(path.string()) && !is_weights(path)
                                 ? "; a repository of a hub is named hf:ORG/REPO or "
                                   "modelscope:ORG/REPO"
                                 : "";
    return Error{ErrorCode::kNotFound, shown(path.string()) + " does not exist" + hint};
  }
  const bool has_weights = std::any_of(files.begin(), files.end(),
                                       [](const LocalFile& file) { return is_weights(file.path); });
  if (!has_weights) {
    return Error{ErrorCode::kInvalidData,
                 path.string() +
                     " holds no model: it must be a .gguf or .munia file or a "
                     "directory with *.safetensors, *.gguf or *.munia"};
  }
  return files;
}

// A hard link where the file system can, else a copy. Symbolic links are followed.
Status take_file(const LocalFile& taken, const fs::path& dir) {
  const fs::path& file = taken.path;
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  const fs::path target = dir / taken.name;
  fs::create_hard_link(real, target, error);
  if (!error) return {};
  MUNIA_RETURN_IF_ERROR(
      check_free_space(dir, std::uint64_t{fs::file_size(real, error)}, "copying " + file.string()));
  fs::copy_file(real, target, fs::copy_options::overwrite_existing, error);
  if (error) {
    return Error{ErrorCode::kIo, "cannot copy " + file.string() + ": " + error.message()};
  }
  return sync_file(target);
}

}  // namespace

bool is_local_path(const std::string& typed) {
  if (typed.starts_with("hf:") || typed.starts_with("modelscope:")) return false;
  if (typed.find("://") != std::string::npos) return false;
  if (typed.find('/') != std::string::npos || typed == "." || typed == "..") return true;
  return typed.ends_with(".tar") || typed.ends_with(".gguf") || typed.ends_with(".munia");
}

std::string name_of_path(const std::string& path) {
  std::error_code error;
  fs::path full = fs::absolute(path, error).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();  // "dir/"
  const fs::path extension = full.extension();
  const bool is_file = extension == ".gguf" || extension == ".munia";
  return is_file ? full.stem().string() : full.filename().string();
}

Result<InstalledModel> pull_local(const std::string& path, const std::string& name,
                                  const HubOptions& options, const PullCallbacks& callbacks) {
  MUNIA_RETURN_IF_ERROR(check_model_name(name));
  MUNIA_ASSIGN_OR_RETURN(const std::vector<LocalFile> files, local_files(path, name, callbacks));
  MUNIA_ASSIGN_OR_RETURN(const Home home, Home::open(options));
  MUNIA_RETURN_IF_ERROR(make_dirs(home.root));
  MUNIA_ASSIGN_OR_RETURN(const NameLock lock, NameLock::acquire(home, name, callbacks));
  std::error_code error;
  if (fs::exists(home.model_dir(name), error)) {
    return Error{ErrorCode::kInvalidArgument,
                 "there is a model " + name + " already; type: munia rm " + name};
  }
  const fs::path ready = home.partial_dir(name) / "local" / "ready";
  fs::remove_all(ready, error);
  MUNIA_RETURN_IF_ERROR(make_dirs(ready));
  for (const LocalFile& file : files) {
    MUNIA_RETURN_IF_ERROR(check_cancelled(callbacks));
    if (callbacks.on_progress) callbacks.on_progress({file.name, 0, 0});
    MUNIA_RETURN_IF_ERROR(take_file(file, ready));
  }
  InstalledModel model;
  if (const CatalogueEntry* entry = find_entry(name)) {
    // Taken at the user's word: the name tells the licence, the bytes were not compared.
    model.licence = entry->licence;
    model.licence_address = entry->licence_address;
    model.commercial_use = entry->commercial_use;
  }
  model.name = name;
  model.source = "local: " + replace_invalid_utf8(fs::absolute(path, error).string());
  model.origin = "local files";
  return install(home, ready, std::move(model));
}

}  // namespace munia::hub
