// pull and pull_default: which sources are tried, in which order, and how what they deliver becomes
// a model (record, one rename). What is taken from this machine: local.cpp, bundle.cpp.
#include <optional>
#include <system_error>
#include <utility>

#include "base/mapped_file.h"
#include "hub/deliver.h"
#include "hub/home.h"
#include "hub/hub.h"
#include "hub/local.h"
#include "hub/record.h"
#include "hub/transfer.h"

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
  MUNIA_RETURN_IF_ERROR(check_model_name(stem));
  Wanted wanted;
  wanted.model.name = stem;
  wanted.model.origin = "address given by the user";
  wanted.model.source = shown_address(url);
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
    if (it->path().filename() == "snapshot") continue;
    if (it->is_regular_file(ignored) && it->file_size(ignored) > 0) return;
  }
  fs::remove_all(partial, error);
}

bool is_wanted_source(const Source& source, const HubOptions& options) {
  if (options.only_source.empty()) return true;
  switch (source.kind) {
    case SourceKind::kHuggingFace:
      return options.only_source == "hf";
    case SourceKind::kModelScope:
      return options.only_source == "modelscope";
    case SourceKind::kPythonPackages:
      return options.only_source == "packages";
  }
  return false;
}

// What the repository says about itself. Only licences that everybody knows to allow it are taken
// as a yes to commercial use; munia does not judge the others.
void set_stated_licence(InstalledModel& model, const Source& source, const std::string& licence,
                        const HubOptions& options) {
  for (const char* free : {"apache-2.0", "mit", "bsd-3-clause", "bsd-2-clause", "cc0-1.0"}) {
    model.commercial_use = model.commercial_use || licence == free;
  }
  model.licence = licence + (model.commercial_use ? "" : " (read its terms)");
  const std::string& endpoint = options.hf_endpoint;
  model.licence_address =
      shown_address(endpoint + (endpoint.ends_with('/') ? "" : "/") + source.repo);
}

// Settings that come from the environment: a wrong one is said before anything is tried. The token
// itself is in no message.
Status check_options(const HubOptions& options) {
  const auto bad = [](const std::string& text) {
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte <= 0x20 || byte >= 0x7f) return true;
    }
    return false;
  };
  const std::pair<const char*, const std::string*> endpoints[] = {
      {"HF_ENDPOINT", &options.hf_endpoint}, {"MODELSCOPE_DOMAIN", &options.modelscope_endpoint}};
  for (const auto& [name, value] : endpoints) {
    const bool http = value->starts_with("http://") || value->starts_with("https://");
    if (http && !bad(*value) && value->find_first_of("?#") == std::string::npos) continue;
    return Error{ErrorCode::kInvalidArgument,
                 std::string(name) + " is " + shown(shown_address(*value)) +
                     ", which is no address of a hub; write it as https://HOST or "
                     "https://HOST/PATH"};
  }
  if (bad(options.hf_token)) {
    return Error{ErrorCode::kInvalidArgument,
                 "HF_TOKEN holds a blank, a line end or a byte outside ASCII, so it is no token; "
                 "set it to the token alone"};
  }
  const std::string& only = options.only_source;
  if (!only.empty() && only != "hf" && only != "modelscope" && only != "packages") {
    return Error{ErrorCode::kInvalidArgument,
                 "there is no source " + shown(only) + "; there are: hf, modelscope, packages"};
  }
  return {};
}

// Tries the sources in order. `hubs` false leaves out those that were asked already.
Result<Attempt> try_sources(const Wanted& wanted, bool hubs, const Home& home,
                            const HubOptions& options, const PullCallbacks& callbacks) {
  Attempt attempt;
  const std::size_t n_sources = wanted.url.empty() ? wanted.sources.size() : 1;
  for (std::size_t i = 0; i < n_sources; ++i) {
    const std::string& name = wanted.model.name;
    if (wanted.url.empty() && !is_wanted_source(wanted.sources[i], options)) continue;
    if (!hubs && wanted.sources[i].kind != SourceKind::kPythonPackages) continue;
    MUNIA_ASSIGN_OR_RETURN(
        Delivery delivery,
        wanted.url.empty()
            ? deliver(wanted.sources[i], home, name, options, callbacks)
            : deliver_address(wanted.url, wanted.file_name, home, name, options, callbacks));
    if (delivery.done) {
      InstalledModel model = wanted.model;
      model.source = delivery.source_text;
      if (model.licence.empty() && !delivery.licence.empty()) {
        set_stated_licence(model, wanted.sources[i], delivery.licence, options);
      }
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
  if (reasons.empty()) {
    return {ErrorCode::kInvalidArgument,
            "model " + name + " has no source of the kind that --source names; leave it out"};
  }
  return {ErrorCode::kUnavailable, "no source could deliver model " + name + ": " + reasons +
                                       "; what came whole is kept: pull again and it goes on from "
                                       "there"};
}

// The model when it is here; nothing when it is not.
Result<std::optional<InstalledModel>> installed(const Home& home, const Wanted& wanted) {
  const std::string& name = wanted.model.name;
  auto found = read_record(home, name);
  if (found && !wanted.url.empty() && found->source != wanted.model.source) {
    // The last part of an address names the model, and another has the same.
    return Error{ErrorCode::kInvalidArgument, "the name " + name + " is taken by a model from " +
                                                  shown(found->source) + "; type: munia rm " +
                                                  name +
                                                  ", or fetch the file yourself and type: "
                                                  "munia pull --name OTHER FILE"};
  }
  if (found) return std::optional<InstalledModel>(*std::move(found));
  if (found.error().code == ErrorCode::kNotFound) return std::optional<InstalledModel>();
  return found.error();
}

// Earlier versions let a model be called so.
Status check_default_file(const Home& home) {
  std::error_code error;
  if (!fs::is_directory(home.default_file(), error)) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      home.default_file().string() +
          " is a directory, where munia keeps which model is the default; move it away, or "
          "if it is a model, type: munia rm default"};
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
  {
    // No model has this name, so the lock is free for the file.
    MUNIA_ASSIGN_OR_RETURN(const NameLock lock, NameLock::acquire(home, "default", callbacks));
    MUNIA_RETURN_IF_ERROR(write_file_atomically(home.default_file(), model.name + "\n"));
  }
  if (model.name != kDefaultModel) {
    note(callbacks,
         "no hub delivered " + std::string(kDefaultModel) + "; " + model.name + " takes its place");
  }
  return model;
}

}  // namespace

Result<InstalledModel> pull(const std::string& what, const HubOptions& options,
                            const PullCallbacks& callbacks) {
  if (find_entry(what) == nullptr && is_local_path(what)) {
    if (what.ends_with(".tar")) return pull_bundle(what, options, callbacks);
    return pull_local(what, name_of_path(what), options, callbacks);
  }
  MUNIA_ASSIGN_OR_RETURN(const Wanted wanted, parse_wanted(what));
  MUNIA_RETURN_IF_ERROR(check_options(options));
  MUNIA_ASSIGN_OR_RETURN(const Home home, Home::open(options));
  const std::string& name = wanted.model.name;
  MUNIA_ASSIGN_OR_RETURN(std::optional<InstalledModel> here, installed(home, wanted));
  if (here) return *std::move(here);
  if (options.offline) return offline_error(name);
  MUNIA_RETURN_IF_ERROR(make_dirs(home.root));
  MUNIA_RETURN_IF_ERROR(check_place(home, name));
  MUNIA_ASSIGN_OR_RETURN(const NameLock lock, NameLock::acquire(home, name, callbacks));
  MUNIA_ASSIGN_OR_RETURN(here, installed(home, wanted));  // by whoever held the lock
  if (here) return *std::move(here);
  MUNIA_ASSIGN_OR_RETURN(Attempt attempt, try_sources(wanted, true, home, options, callbacks));
  if (attempt.model) return *std::move(attempt.model);
  return no_source_error(name, attempt.reasons);
}

Result<InstalledModel> pull_default(const HubOptions& options, const PullCallbacks& callbacks) {
  MUNIA_ASSIGN_OR_RETURN(const Home home, Home::open(options));
  if (auto settled = settled_default(home)) return *std::move(settled);
  MUNIA_RETURN_IF_ERROR(check_options(options));
  MUNIA_RETURN_IF_ERROR(check_default_file(home));
  MUNIA_RETURN_IF_ERROR(make_dirs(home.root));
  std::string reasons = options.offline ? "offline mode forbids fetching" : "";
  for (const CatalogueEntry& entry : catalogue()) {
    const bool is_default = entry.name == kDefaultModel;
    if (!is_default && !entry.default_fallback) continue;
    MUNIA_ASSIGN_OR_RETURN(const NameLock lock, NameLock::acquire(home, entry.name, callbacks));
    MUNIA_ASSIGN_OR_RETURN(std::optional<InstalledModel> here,
                           installed(home, wanted_entry(entry)));
    if (here) return settle(home, *std::move(here), callbacks);
    if (options.offline) continue;
    MUNIA_ASSIGN_OR_RETURN(Attempt attempt,
                           try_sources(wanted_entry(entry), is_default, home, options, callbacks));
    if (attempt.model) return settle(home, *std::move(attempt.model), callbacks);
    if (attempt.answered) return no_source_error(entry.name, attempt.reasons);
    reasons += (reasons.empty() || attempt.reasons.empty() ? "" : "; ") + attempt.reasons;
  }
  return no_source_error(std::string(kDefaultModel), reasons);
}

Result<InstalledModel> find_default(const HubOptions& options) {
  MUNIA_ASSIGN_OR_RETURN(const Home home, Home::open(options));
  if (auto settled = settled_default(home)) return *std::move(settled);
  return Error{ErrorCode::kNotFound, "no default model is here; type: munia pull --default"};
}

}  // namespace munia::hub
