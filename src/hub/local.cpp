// pull_local: models that are files on this machine already, by hard link where the file system
// can.
#include "hub/local.h"

#include <system_error>
#include <utility>
#include <vector>

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

// The files to take, and whether weights are among them.
Result<std::vector<fs::path>> local_files(const fs::path& path) {
  std::error_code error;
  std::vector<fs::path> files;
  bool has_weights = false;
  if (fs::is_directory(path, error)) {
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
      const fs::path file = it->path();
      if (!it->is_regular_file(error) || !is_model_file(file)) continue;
      if (file.filename() == "munia-model.json") continue;
      has_weights = has_weights || is_weights(file);
      files.push_back(file);
    }
  } else if (fs::is_regular_file(path, error)) {
    has_weights = path.extension() == ".gguf" || path.extension() == ".munia";
    files.push_back(path);
  } else {
    // As people write a repository who leave out the hub.
    const std::string hint = name_of_repo(path.string()) && !is_weights(path)
                                 ? "; a repository of a hub is named hf:ORG/REPO or "
                                   "modelscope:ORG/REPO"
                                 : "";
    return Error{ErrorCode::kNotFound, shown(path.string()) + " does not exist" + hint};
  }
  if (error) {
    return Error{ErrorCode::kIo, "cannot read " + path.string() + ": " + error.message()};
  }
  if (!has_weights) {
    return Error{ErrorCode::kInvalidData,
                 path.string() +
                     " holds no model: it must be a .gguf or .munia file or a "
                     "directory with *.safetensors, *.gguf or *.munia"};
  }
  return files;
}

// A hard link where the file system can, else a copy. Symbolic links are followed.
Status take_file(const fs::path& file, const fs::path& dir) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  const fs::path target = dir / file.filename();
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
  if (!valid_name(name)) {
    return Error{ErrorCode::kInvalidArgument,
                 shown(name) +
                     " cannot be a model's name: use 1 to 120 letters, digits, \".\", "
                     "\"_\" and \"-\", not beginning with \".\" or \"-\""};
  }
  MUNIA_ASSIGN_OR_RETURN(const std::vector<fs::path> files, local_files(path));
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
  for (const fs::path& file : files) {
    MUNIA_RETURN_IF_ERROR(check_cancelled(callbacks));
    if (callbacks.on_progress) callbacks.on_progress({file.filename().string(), 0, 0});
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
  model.source = "local: " + fs::absolute(path, error).string();
  model.origin = "local files";
  return install(home, ready, std::move(model));
}

}  // namespace munia::hub
