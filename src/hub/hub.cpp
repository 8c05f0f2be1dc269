// Everything that needs no network: where models live, resolve, list, remove, describe.
#include "hub/hub.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "hub/home.h"
#include "hub/record.h"

namespace munia::hub {
namespace {

// The name under which `typed` lies in the home, if it can be one.
Result<std::string> name_of(const std::string& typed) {
  if (typed.starts_with("hf:")) return name_of_repo(typed.substr(3));
  if (typed.starts_with("modelscope:")) return name_of_repo(typed.substr(11));
  if (valid_name(typed)) return typed;
  return Error{ErrorCode::kNotFound, "there is no model " + shown(typed)};
}

bool is_repository(const std::string& typed) {
  return typed.starts_with("hf:") || typed.starts_with("modelscope:");
}

bool looks_like_path(const std::string& typed) {
  return typed.find('/') != std::string::npos || typed.ends_with(".gguf") ||
         typed.ends_with(".munia") || typed == "." || typed == "..";
}

Error not_here(const std::string& typed) {
  return {ErrorCode::kNotFound,
          "model " + typed + " is not on this machine; type: munia pull " + typed};
}

Result<std::string> resolve_path(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return path;
  const fs::path extension = fs::path(path).extension();
  if (extension == ".gguf" || extension == ".munia") return path;
  return Error{ErrorCode::kUnsupported,
               shown(path) + " is no model: give a directory, a .gguf or a .munia file"};
}

}  // namespace

std::string model_home(const HomeVariables& variables) {
  if (!variables.munia_home.empty()) return variables.munia_home;
  if (variables.xdg_cache_home.starts_with('/')) return variables.xdg_cache_home + "/munia";
  if (!variables.home.empty()) return variables.home + "/.cache/munia";
  return {};
}

std::string describe(const InstalledModel& model) {
  std::string text = model.name;
  if (!model.source.empty()) text += " from " + model.source;
  if (model.licence.empty()) {
    text += ", licence not known";
  } else {
    text += ", licence: " + model.licence +
            " (commercial use: " + (model.commercial_use ? "yes" : "no") + "), " +
            model.licence_address;
    if (!model.origin_verified) text += "; origin NOT verified: " + model.origin;
  }
  return text;
}

Result<std::string> resolve(const std::string& name_or_path, const HubOptions& options) {
  if (name_or_path.empty()) {
    return Error{ErrorCode::kInvalidArgument, "no model was named"};
  }
  std::error_code error;
  // A path that exists comes first, as a shell user expects of a name without a colon.
  if (!is_repository(name_or_path) && fs::exists(name_or_path, error)) {
    return resolve_path(name_or_path);
  }
  auto name = name_of(name_or_path);
  if (name && !options.home.empty()) {
    auto model = find_model(name_or_path, options);
    if (model) return model->path;
    if (model.error().code != ErrorCode::kNotFound) return model.error();
  }
  if (is_repository(name_or_path)) return name ? not_here(name_or_path) : name.error();
  if (find_entry(name_or_path) != nullptr) return not_here(name_or_path);
  if (looks_like_path(name_or_path)) {
    return Error{ErrorCode::kNotFound, "the model path " + shown(name_or_path) + " does not exist"};
  }
  std::string names;
  for (const CatalogueEntry& entry : catalogue()) names += " " + entry.name;
  return Error{ErrorCode::kNotFound, "there is no model " + shown(name_or_path) +
                                         ": it is no path, no model in " + shown(options.home) +
                                         " and none of the catalogue:" + names};
}

Result<std::vector<InstalledModel>> list_models(const HubOptions& options) {
  MUNIA_ASSIGN_OR_RETURN(const Home home, Home::open(options));
  std::vector<InstalledModel> models;
  std::error_code error;
  if (!fs::exists(home.root, error)) return models;
  for (fs::directory_iterator it(home.root, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!valid_name(name)) continue;
    auto model = read_record(home, name);
    if (model) {
      models.push_back(*std::move(model));
    } else if (model.error().code == ErrorCode::kInvalidData) {
      InstalledModel damaged;
      damaged.name = name;
      damaged.path = home.model_dir(name).string();
      damaged.origin = model.error().message;
      models.push_back(std::move(damaged));
    }
  }
  if (error) {
    return Error{ErrorCode::kIo, "cannot read " + home.root.string() + ": " + error.message()};
  }
  std::sort(models.begin(), models.end(),
            [](const InstalledModel& a, const InstalledModel& b) { return a.name < b.name; });
  return models;
}

Result<std::vector<UnfinishedPull>> list_unfinished(const HubOptions& options) {
  MUNIA_ASSIGN_OR_RETURN(const Home home, Home::open(options));
  std::vector<UnfinishedPull> pulls;
  std::error_code error;
  for (fs::directory_iterator it(home.root / ".partial", error), end; !error && it != end;
       it.increment(error)) {
    UnfinishedPull pull{it->path().filename().string(), 0};
    std::error_code inner;
    for (fs::recursive_directory_iterator file(it->path(), inner), last; !inner && file != last;
         file.increment(inner)) {
      std::error_code gone;
      if (file->is_regular_file(gone)) pull.size_bytes += file->file_size(gone);
    }
    if (valid_name(pull.name) && pull.size_bytes > 0) pulls.push_back(std::move(pull));
  }
  std::sort(pulls.begin(), pulls.end(),
            [](const UnfinishedPull& a, const UnfinishedPull& b) { return a.name < b.name; });
  return pulls;
}

Result<InstalledModel> find_model(const std::string& name, const HubOptions& options) {
  MUNIA_ASSIGN_OR_RETURN(const std::string dir_name, name_of(name));
  MUNIA_ASSIGN_OR_RETURN(const Home home, Home::open(options));
  auto model = read_record(home, dir_name);
  if (!model && model.error().code == ErrorCode::kNotFound) return not_here(name);
  return model;
}

Status remove_model(const std::string& name, const HubOptions& options) {
  MUNIA_ASSIGN_OR_RETURN(const std::string dir_name, name_of(name));
  MUNIA_ASSIGN_OR_RETURN(const Home home, Home::open(options));
  std::error_code error;
  const fs::path dir = home.model_dir(dir_name);
  const fs::path partial = home.partial_dir(dir_name);
  // Only what munia put there: a directory without a record is not munia's to remove.
  const bool has_model = fs::exists(dir / "munia-model.json", error);
  if (!has_model && !fs::exists(partial, error)) {
    return Error{ErrorCode::kNotFound, "there is no model " + shown(name) + " in " +
                                           home.root.string() + "; munia models lists them"};
  }
  MUNIA_ASSIGN_OR_RETURN(const NameLock lock, NameLock::try_acquire(home, dir_name));
  MUNIA_RETURN_IF_ERROR(make_dirs(partial));
  if (has_model) {
    // Out of sight first, so that a removal that is killed leaves nothing that looks whole.
    const fs::path doomed = partial / ("removed-" + std::to_string(getpid()));
    fs::remove_all(doomed, error);
    MUNIA_RETURN_IF_ERROR(rename_durably(dir, doomed));
  }
  fs::remove_all(partial, error);
  if (error) {
    return Error{ErrorCode::kIo, "cannot remove " + partial.string() + ": " + error.message()};
  }
  return {};
}

}  // namespace munia::hub
