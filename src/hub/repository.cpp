#include "hub/repository.h"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <initializer_list>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "base/sha256.h"
#include "hub/fetch.h"
#include "hub/listing.h"

namespace munia::hub {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxListingBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxShards = 1024;
constexpr char kIndexName[] = "model.safetensors.index.json";

std::string without_trailing_slash(std::string endpoint) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return endpoint;
}

// The files of one repository, one after another; remembers why it stopped.
class RepositoryFetcher {
 public:
  RepositoryFetcher(const Source& source, SourceDirs dirs, const HubOptions& options,
                    const PullCallbacks& callbacks)
      : source_(source),
        dirs_(std::move(dirs)),
        options_(options),
        callbacks_(callbacks),
        revision_(source.revision) {}

  bool answered() const { return answered_; }
  bool failed() const { return failed_; }
  const std::string& reason() const { return reason_; }
  const std::optional<Listing>& listing() const { return listing_; }
  fs::path ready(const std::string& file) const { return dirs_.ready / file; }
  void fail(std::string reason) {
    failed_ = true;
    reason_ = std::move(reason);
  }

  /// True when the file is ready; false when the repository has none (allowed if optional) or the
  /// source failed: then failed() is true.
  Result<bool> get(SourceFile file) {
    if (file.optional && listing_ && listing_->find(file.path) == nullptr) return false;
    complete(file);
    MUNIA_ASSIGN_OR_RETURN(const bool here, is_ready(file));
    if (here) return true;
    FetchRequest request = request_for(address(file.path), file.path);
    request.ready_path = ready(file.path);
    request.sha256 = file.sha256;
    request.size_bytes = file.size_bytes;
    MUNIA_ASSIGN_OR_RETURN(const FetchReply reply, fetch_file(request, options_, callbacks_));
    if (reply.state == FetchState::kDone) {
      answered_ = true;
      return true;
    }
    if (reply.state == FetchState::kMissing && file.optional) return false;
    // A file that began to come is an answer too: the pull is worth another try, not a replacement.
    answered_ = answered_ || reply.state == FetchState::kBrokenOff;
    fail(reply.reason + advice(reply.http_code));
    return false;
  }

  /// All of them, after a look at the disk for those whose size is known.
  Status get_all(const std::vector<SourceFile>& files) {
    std::uint64_t missing = 0;
    for (SourceFile file : files) {
      complete(file);
      std::error_code error;
      if (fs::exists(ready(file.path), error)) continue;
      const std::uintmax_t size = fs::file_size(part_path(file.path), error);
      const std::uint64_t n_here = error ? 0 : std::uint64_t{size};
      if (file.size_bytes > n_here) missing += file.size_bytes - n_here;
    }
    MUNIA_RETURN_IF_ERROR(check_free_space(dirs_.work, missing, "pulling " + source_.repo));
    for (const SourceFile& file : files) {
      MUNIA_ASSIGN_OR_RETURN([[maybe_unused]] const bool here, get(file));
      if (failed_) return {};
    }
    return {};
  }

  /// Asks the hub for its list of files. Hubs and mirrors without one are none the worse.
  Status get_listing() {
    const bool modelscope = source_.kind == SourceKind::kModelScope;
    const std::string name = "list of files";
    FetchRequest request =
        request_for(modelscope ? endpoint() + "/api/v1/models/" + source_.repo +
                                     "/repo/files?Revision=" + source_.revision + "&Recursive=true"
                               : endpoint() + "/api/models/" + source_.repo + "/revision/" +
                                     source_.revision + "?blobs=true",
                    name);
    request.part_path = dirs_.work / "listing.part";
    request.ready_path = dirs_.work / "listing.json";
    request.max_bytes = kMaxListingBytes;
    request.patient = false;
    std::error_code ignored;
    fs::remove(request.part_path, ignored);
    MUNIA_ASSIGN_OR_RETURN(const FetchReply reply, fetch_file(request, options_, callbacks_));
    // The first that this hub is asked, when an earlier pull left files: it does not answer.
    if (reply.state == FetchState::kNoAnswer && !answered_) fail(reply.reason);
    if (reply.state != FetchState::kDone) return {};
    MUNIA_ASSIGN_OR_RETURN(const std::string text,
                           read_file(request.ready_path.string(), kMaxListingBytes));
    fs::remove(request.ready_path, ignored);
    auto listing = modelscope ? parse_modelscope_listing(text) : parse_hf_listing(text);
    if (!listing) return {};
    listing_ = *std::move(listing);
    if (listing_->commit.empty()) return {};
    revision_ = listing_->commit;
    return keep_snapshot();
  }

 private:
  std::string endpoint() const {
    return without_trailing_slash(source_.kind == SourceKind::kModelScope
                                      ? options_.modelscope_endpoint
                                      : options_.hf_endpoint);
  }
  std::string address(const std::string& file) const {
    if (source_.kind == SourceKind::kModelScope) {
      return endpoint() + "/api/v1/models/" + source_.repo + "/repo?Revision=" + revision_ +
             "&FilePath=" + file;
    }
    return endpoint() + "/" + source_.repo + "/resolve/" + revision_ + "/" + file;
  }
  fs::path part_path(const std::string& file) const { return dirs_.work / (file + ".part"); }

  FetchRequest request_for(const std::string& url, const std::string& shown_name) const {
    FetchRequest request;
    request.url = url;
    request.part_path = part_path(shown_name);
    request.shown_name = shown_name;
    if (source_.kind == SourceKind::kHuggingFace) request.token = options_.hf_token;
    request.patient = answered_;
    return request;
  }

  // What only the hub's list knows of a file.
  void complete(SourceFile& file) const {
    const ListedFile* listed = listing_ ? listing_->find(file.path) : nullptr;
    if (listed == nullptr) return;
    if (file.sha256.empty()) file.sha256 = listed->sha256;
    if (file.size_bytes == 0) file.size_bytes = listed->size_bytes;
  }

  // Left by an earlier pull that did not come to its end.
  Result<bool> is_ready(const SourceFile& file) const {
    const fs::path path = ready(file.path);
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return false;
    if (file.size_bytes != 0 && fs::file_size(path, error) != file.size_bytes) return false;
    if (file.sha256.empty()) return true;
    MUNIA_ASSIGN_OR_RETURN(const std::string sha256,
                           sha256_of_file(path.string(), callbacks_.cancelled));
    return sha256 == file.sha256;
  }

  // Files of two commits do not make a model: what an earlier pull took from another commit stays
  // only if the list can show that it is the same.
  Status keep_snapshot() {
    const fs::path path = dirs_.ready.parent_path() / "snapshot";
    auto old = read_file(path.string(), 256);
    if (old && *old == revision_) return {};
    std::vector<fs::path> stale;
    std::error_code error;
    for (fs::directory_iterator it(dirs_.ready, error), end; old && !error && it != end;
         it.increment(error)) {
      const ListedFile* listed = listing_->find(it->path().filename().string());
      if (listed == nullptr || listed->sha256.empty()) stale.push_back(it->path());
    }
    for (const fs::path& file : stale) fs::remove(file, error);
    return write_file_atomically(path, revision_);
  }

  std::string advice(long http_code) const {
    if (source_.kind != SourceKind::kHuggingFace || (http_code != 401 && http_code != 403))
      return {};
    if (options_.hf_token.empty()) {
      return " (the repository is not there, or wants a token: set HF_TOKEN to one that may read "
             "it)";
    }
    return " (the token in HF_TOKEN may not read it: agree to the terms on the repository's page, "
           "or "
           "set another token)";
  }

  const Source& source_;
  SourceDirs dirs_;
  const HubOptions& options_;
  const PullCallbacks& callbacks_;
  std::string revision_;
  std::optional<Listing> listing_;
  bool answered_ = false;
  bool failed_ = false;
  std::string reason_;
};

// The names of the shards in model.safetensors.index.json.
Result<std::vector<SourceFile>> shards_of(const fs::path& index) {
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
                 std::string(kIndexName) + " does not name the files of weights (1 to " +
                     std::to_string(kMaxShards) + " plain names that end in .safetensors)"};
  }
  std::vector<SourceFile> shards;
  for (const std::string& name : names) shards.push_back({.path = name});
  return shards;
}

// A repository without config.json: it may hold one file that is a whole model.
Status get_gguf(RepositoryFetcher& fetcher) {
  std::vector<SourceFile> found;
  std::string names;
  for (const ListedFile& file : fetcher.listing()->files) {
    if (!file.path.ends_with(".gguf") || !valid_name(file.path)) continue;
    names += " " + file.path;
    found.push_back({.path = file.path});
  }
  if (found.size() == 1) return fetcher.get_all(found);
  fetcher.fail(found.empty()
                   ? "it holds neither a config.json nor a .gguf file"
                   : "it holds several .gguf files; pull one by its address, which ends in "
                     "/resolve/main/FILE:" +
                         names.substr(0, 1000));
  return {};
}

// A repository of which only the layout is known.
Status get_any_model(RepositoryFetcher& fetcher) {
  const auto get = [&](const char* path, bool optional) {
    return fetcher.get({.path = path, .optional = optional});
  };
  MUNIA_ASSIGN_OR_RETURN(bool here, get("config.json", true));
  if (fetcher.failed()) return {};
  MUNIA_RETURN_IF_ERROR(fetcher.get_listing());
  if (fetcher.failed()) return {};
  if (!here && fetcher.listing() && fetcher.listing()->find("config.json") == nullptr) {
    return get_gguf(fetcher);
  }
  MUNIA_ASSIGN_OR_RETURN(here, get("config.json", false));  // again, if it was of another commit
  if (fetcher.failed()) return {};
  for (const char* path : {"generation_config.json", "tokenizer_config.json", "chat_template.jinja",
                           "LICENSE", "LICENSE.txt", "NOTICE"}) {
    MUNIA_ASSIGN_OR_RETURN(here, get(path, true));
    if (fetcher.failed()) return {};
  }
  MUNIA_ASSIGN_OR_RETURN(here, get("tokenizer.json", true));
  if (fetcher.failed()) return {};
  if (!here) {
    MUNIA_RETURN_IF_ERROR(fetcher.get_all({{.path = "vocab.json"}, {.path = "merges.txt"}}));
    if (fetcher.failed()) return {};
  }
  MUNIA_RETURN_IF_ERROR(fetcher.get_all({{.path = "model.safetensors", .optional = true}}));
  std::error_code error;
  if (fetcher.failed() || fs::exists(fetcher.ready("model.safetensors"), error)) return {};
  MUNIA_ASSIGN_OR_RETURN(here, get(kIndexName, false));
  if (fetcher.failed()) return {};
  auto shards = shards_of(fetcher.ready(kIndexName));
  if (!shards) {
    fetcher.fail(shards.error().message);
    return {};
  }
  return fetcher.get_all(*shards);
}

// The files that the catalogue names; the first tells whether the hub answers.
Status get_named_files(RepositoryFetcher& fetcher, const Source& source) {
  MUNIA_ASSIGN_OR_RETURN([[maybe_unused]] const bool here, fetcher.get(source.files.front()));
  if (fetcher.failed() || source.files.size() == 1) return {};
  MUNIA_RETURN_IF_ERROR(fetcher.get_listing());
  if (fetcher.failed()) return {};
  return fetcher.get_all(source.files);
}

}  // namespace

Result<Delivery> deliver_repository(const Source& source, const Home& home, const std::string& name,
                                    const HubOptions& options, const PullCallbacks& callbacks) {
  const bool is_modelscope = source.kind == SourceKind::kModelScope;
  MUNIA_ASSIGN_OR_RETURN(
      SourceDirs dirs, SourceDirs::make(home, name, is_modelscope ? "modelscope" : "huggingface"));
  Delivery delivery;
  delivery.ready = dirs.ready;
  delivery.source_text = std::string(source_kind_name(source.kind)) + ": " + source.repo;
  RepositoryFetcher fetcher(source, std::move(dirs), options, callbacks);
  MUNIA_RETURN_IF_ERROR(source.files.empty() ? get_any_model(fetcher)
                                             : get_named_files(fetcher, source));
  delivery.done = !fetcher.failed();
  delivery.answered = fetcher.answered();
  delivery.reason = fetcher.reason();
  if (fetcher.listing()) delivery.licence = fetcher.listing()->licence;
  return delivery;
}

bool is_below(const std::string& url, const std::string& endpoint) {
  const std::string base = without_trailing_slash(endpoint);
  return !base.empty() && url.size() > base.size() && url.starts_with(base) &&
         url[base.size()] == '/';
}

}  // namespace munia::hub
