// pull, pull_default and pull_local: which sources are tried, in which order, and how what they
// deliver becomes a model (record, one rename).
#include <optional>
#include <system_error>
#include <utility>

#include "base/mapped_file.h"
#include "hub/deliver.h"
#include "hub/home.h"
#include "hub/hub.h"

namespace munia::hub {
namespace {

// What is to be pulled, whether from the catalogue or named by its address.
struct Wanted {
  InstalledModel model;         // what is known before the files are here
  std::vector<Source> sources;  // tried in order
  std::string url;              // instead of sources: one file
  std::string file_name;        // its name
};

void note(const PullCallbacks& callbacks, const std::string& text) {
  if (callbacks.on_note) callbacks.on_note(text);
}

Wanted wanted_entry(const CatalogueEntry& entry) {
  Wanted wanted;
  wanted.model.name = entry.name;
  wanted.model.licence = entry.licence;
  wanted.model.licence_address = entry.licence_address;
  wanted.model.commercial_use = entry.commercial_use;
  wanted.model.origin = entry.origin;
  wanted.model.origin_verified = entry.origin_verified;
  wanted.sources = entry.sources;
  return wanted;
}

Result<Wanted> wanted_repository(SourceKind kind, const std::string& repo) {
  Wanted wanted;
  MUNIA_ASSIGN_OR_RETURN(wanted.model.name, name_of_repo(repo));
  wanted.model.origin = "repository " + repo;
  Source source;
  source.kind = kind;
  source.repo = repo;
  source.revision = kind == SourceKind::kModelScope ? "master" : "main";
  wanted.sources.push_back(std::move(source));
  return wanted;
}

Result<Wanted> wanted_address(const std::string& url) {
  std::string path = url.substr(0, url.find_first_of("?#"));
  const fs::path file = path.substr(path.rfind('/') + 1);
  const std::string stem = file.stem().string();
  if ((file.extension() != ".gguf" && file.extension() != ".munia") || !valid_name(file.string()) ||
      !valid_name(stem)) {
    return Error{ErrorCode::kInvalidArgument,
                 shown(url) +
                     " is not the address of a model munia can take: it must end in a "
                     "plain file name with .gguf or .munia"};
  }
  Wanted wanted;
  wanted.model.name = stem;
  wanted.model.origin = "address given by the user";
  wanted.url = url;
  wanted.file_name = file.string();
  return wanted;
}

Result<Wanted> parse_wanted(const std::string& what) {
  if (const CatalogueEntry* entry = find_entry(what)) return wanted_entry(*entry);
  if (what.starts_with("hf:")) return wanted_repository(SourceKind::kHuggingFace, what.substr(3));
  if (what.starts_with("modelscope:")) {
    return wanted_repository(SourceKind::kModelScope, what.substr(11));
  }
  if (what.starts_with("http://") || what.starts_with("https://")) return wanted_address(what);
  std::string names;
  for (const CatalogueEntry& entry : catalogue()) names += " " + entry.name;
  return Error{ErrorCode::kNotFound, "there is no model " + shown(what) +
                                         " in the catalogue; there are:" + names +
                                         "; or give hf:ORG/REPO, modelscope:ORG/REPO or an "
                                         "address of a .gguf file"};
}

Error offline_error(const std::string& name) {
  return {ErrorCode::kUnavailable, "model " + name +
                                       " is not on this machine and offline mode forbids fetching "
                                       "it; pull it where there is a network"};
}

// The directory of checked files becomes the model.
Result<InstalledModel> install(const Home& home, const fs::path& ready, InstalledModel model) {
  MUNIA_RETURN_IF_ERROR(write_record(ready, model));
  const fs::path dir = home.model_dir(model.name);
  std::error_code error;
  if (fs::exists(dir, error)) {
    return Error{ErrorCode::kIo, dir.string() +
                                     " exists but is no model of munia's; move it away and pull "
                                     "again"};
  }
  MUNIA_RETURN_IF_ERROR(sync_file(ready));
  MUNIA_RETURN_IF_ERROR(rename_durably(ready, dir));
  fs::remove_all(home.partial_dir(model.name), error);
  MUNIA_ASSIGN_OR_RETURN(InstalledModel installed, read_record(home, model.name));
  installed.fetched = true;
  return installed;
}

// What came of trying the sources.
struct Attempt {
  std::optional<InstalledModel> model;
  bool answered = false;  // some source delivered at least one file
  std::string reasons;    // of those that failed, joined
};

// After sources that gave nothing: no trace of the try stays.
void remove_if_empty(const fs::path& partial) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(partial, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored) && it->file_size(ignored) > 0) return;
  }
  fs::remove_all(partial, error);
}

// Tries the sources in order. `hubs` false leaves out those that were asked already.
Result<Attempt> try_sources(const Wanted& wanted, bool hubs, const Home& home,
                            const HubOptions& options, const PullCallbacks& callbacks) {
  Attempt attempt;
  const std::size_t n_sources = wanted.url.empty() ? wanted.sources.size() : 1;
  for (std::size_t i = 0; i < n_sources; ++i) {
    const std::string& name = wanted.model.name;
    if (!hubs && wanted.sources[i].kind != SourceKind::kPythonPackages) continue;
    MUNIA_ASSIGN_OR_RETURN(
        Delivery delivery,
        wanted.url.empty()
            ? deliver(wanted.sources[i], home, name, options, callbacks)
            : deliver_address(wanted.url, wanted.file_name, home, name, options, callbacks));
    if (delivery.done) {
      InstalledModel model = wanted.model;
      model.source = delivery.source_text;
      MUNIA_ASSIGN_OR_RETURN(attempt.model, install(home, delivery.ready, std::move(model)));
      return attempt;
    }
    attempt.answered = attempt.answered || delivery.answered;
    const std::string reason = delivery.source_text + ": " + delivery.reason;
    attempt.reasons += (attempt.reasons.empty() ? "" : "; ") + reason;
    note(callbacks, reason);
  }
  remove_if_empty(home.partial_dir(wanted.model.name));
  return attempt;
}

Error no_source_error(const std::string& name, const std::string& reasons) {
  return {ErrorCode::kUnavailable, "no source could deliver model " + name + ": " + reasons +
                                       "; what was fetched is kept, so pulling again goes on from "
                                       "there"};
}

// The model when it is here; nothing when it is not.
Result<std::optional<InstalledModel>> installed(const Home& home, const std::string& name) {
  auto found = read_record(home, name);
  if (found) return std::optional<InstalledModel>(*std::move(found));
  if (found.error().code == ErrorCode::kNotFound) return std::optional<InstalledModel>();
  return found.error();
}

// The name in HOME/default when that model is here.
std::optional<InstalledModel> settled_default(const Home& home) {
  auto text = read_file(home.default_file().string(), 256);
  if (!text) return std::nullopt;
  const std::string name = text->substr(0, text->find('\n'));
  if (!valid_name(name)) return std::nullopt;
  auto found = read_record(home, name);
  if (!found) return std::nullopt;
  return *std::move(found);
}

Result<InstalledModel> settle(const Home& home, InstalledModel model,
                              const PullCallbacks& callbacks) {
  MUNIA_RETURN_IF_ERROR(write_file_atomically(home.default_file(), model.name + "\n"));
  if (model.name != kDefaultModel) {
    note(callbacks,
         "no hub delivered " + std::string(kDefaultModel) + "; " + model.name + " takes its place");
  }
  return model;
}

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
    return Error{ErrorCode::kNotFound, shown(path.string()) + " does not exist"};
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

Result<InstalledModel> pull(const std::string& what, const HubOptions& options,
                            const PullCallbacks& callbacks) {
  MUNIA_ASSIGN_OR_RETURN(const Wanted wanted, parse_wanted(what));
  MUNIA_ASSIGN_OR_RETURN(const Home home, Home::open(options));
  const std::string& name = wanted.model.name;
  MUNIA_ASSIGN_OR_RETURN(std::optional<InstalledModel> here, installed(home, name));
  if (here) return *std::move(here);
  if (options.offline) return offline_error(name);
  MUNIA_RETURN_IF_ERROR(make_dirs(home.root));
  MUNIA_ASSIGN_OR_RETURN(const NameLock lock, NameLock::acquire(home, name, callbacks));
  MUNIA_ASSIGN_OR_RETURN(here, installed(home, name));  // by whoever held the lock
  if (here) return *std::move(here);
  MUNIA_ASSIGN_OR_RETURN(Attempt attempt, try_sources(wanted, true, home, options, callbacks));
  if (attempt.model) return *std::move(attempt.model);
  return no_source_error(name, attempt.reasons);
}

Result<InstalledModel> pull_default(const HubOptions& options, const PullCallbacks& callbacks) {
  MUNIA_ASSIGN_OR_RETURN(const Home home, Home::open(options));
  if (auto settled = settled_default(home)) return *std::move(settled);
  MUNIA_RETURN_IF_ERROR(make_dirs(home.root));
  std::string reasons = options.offline ? "offline mode forbids fetching" : "";
  for (const CatalogueEntry& entry : catalogue()) {
    const bool is_default = entry.name == kDefaultModel;
    if (!is_default && !entry.default_fallback) continue;
    MUNIA_ASSIGN_OR_RETURN(const NameLock lock, NameLock::acquire(home, entry.name, callbacks));
    MUNIA_ASSIGN_OR_RETURN(std::optional<InstalledModel> here, installed(home, entry.name));
    if (here) return settle(home, *std::move(here), callbacks);
    if (options.offline) continue;
    MUNIA_ASSIGN_OR_RETURN(Attempt attempt,
                           try_sources(wanted_entry(entry), is_default, home, options, callbacks));
    if (attempt.model) return settle(home, *std::move(attempt.model), callbacks);
    if (attempt.answered) return no_source_error(entry.name, attempt.reasons);
    reasons += (reasons.empty() ? "" : "; ") + attempt.reasons;
  }
  return no_source_error(std::string(kDefaultModel), reasons);
}

Result<InstalledModel> find_default(const HubOptions& options) {
  MUNIA_ASSIGN_OR_RETURN(const Home home, Home::open(options));
  if (auto settled = settled_default(home)) return *std::move(settled);
  return Error{ErrorCode::kNotFound, "no default model is here; type: munia pull --default"};
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
    if (callbacks.cancelled && callbacks.cancelled()) {
      return Error{ErrorCode::kCancelled, "the pull was interrupted"};
    }
    if (callbacks.on_progress) callbacks.on_progress({file.filename().string(), 0, 0});
    MUNIA_RETURN_IF_ERROR(take_file(file, ready));
  }
  InstalledModel model;
  if (const CatalogueEntry* entry = find_entry(name)) {
    // Taken at the user's word: the name tells the licence, the bytes were not compared.
    model = wanted_entry(*entry).model;
    model.origin_verified = false;
  }
  model.name = name;
  model.source = "local: " + fs::absolute(path, error).string();
  model.origin = "local files";
  return install(home, ready, std::move(model));
}

}  // namespace munia::hub
