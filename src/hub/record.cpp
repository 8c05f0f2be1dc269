#include "hub/record.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <system_error>
#include <utility>

#include "base/mapped_file.h"
#include "base/sha256.h"

namespace munia::hub {
namespace {

namespace json = boost::json;

// Without control bytes: a bundle of a stranger's may hold any, and these texts are printed.
std::string string_field(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return {};
  std::string text(value->get_string());
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

bool bool_field(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_bool() && value->get_bool();
}

std::uint64_t size_field(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr) return 0;
  json::error_code error;
  const auto size = value->to_number<std::uint64_t>(error);
  return error ? 0 : size;
}

// What the loaders take: the one weights file when the directory is no Hugging Face directory.
fs::path loader_path(const fs::path& dir, const std::vector<RecordFile>& files) {
  fs::path weights;
  for (const RecordFile& file : files) {
    if (file.name == "config.json") return dir;
    const fs::path path = dir / file.name;
    if (path.extension() == ".gguf" || path.extension() == ".munia") {
      if (!weights.empty()) return dir;
      weights = path;
    }
  }
  return weights.empty() ? dir : weights;
}

// The files of a model that is about to be installed. A record, and what a pull that was killed
// while it wrote one left beside it (munia-model.json.new, earlier versions: .new-PID), are none of
// them.
std::vector<fs::path> model_files(const fs::path& dir) {
  std::vector<fs::path> files;
  std::vector<fs::path> left;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    if (!it->is_regular_file(error)) continue;
    const std::string name = it->path().filename().string();
    if (name.starts_with(std::string(kRecordName) + ".new")) {
      left.push_back(it->path());
    } else if (name != kRecordName) {
      files.push_back(it->path());
    }
  }
  for (const fs::path& file : left) fs::remove(file, error);
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<Record> parse_record(std::string_view text) {
  const Error damaged{ErrorCode::kInvalidData, "this is no record of a model"};
  json::error_code error;
  const json::value value = json::parse(text, error);
  if (error || !value.is_object()) return damaged;
  const json::object& object = value.get_object();
  const json::value* listed = object.if_contains("files");
  if (listed == nullptr || !listed->is_array()) return damaged;

  Record record;
  record.model.name = string_field(object, "name");
  record.model.licence = string_field(object, "licence");
  record.model.licence_address = string_field(object, "licence_address");
  record.model.commercial_use = bool_field(object, "commercial_use");
  record.model.origin = string_field(object, "origin");
  record.model.origin_verified = bool_field(object, "origin_verified");
  record.model.source = string_field(object, "source");
  for (const json::value& item : listed->get_array()) {
    if (!item.is_object()) return damaged;
    RecordFile file{string_field(item.get_object(), "name"),
                    size_field(item.get_object(), "size_bytes"),
                    string_field(item.get_object(), "sha256")};
    if (file.name.empty() || file.name == "." || file.name == ".." ||
        file.name.find('/') != std::string::npos || file.name.find('\0') != std::string::npos) {
      return damaged;
    }
    record.files.push_back(std::move(file));
  }
  return record;
}

Result<Record> read_record_file(const Home& home, const std::string& name) {
  const fs::path path = home.model_dir(name) / kRecordName;
  MUNIA_ASSIGN_OR_RETURN(const std::string text, read_file(path.string(), kMaxRecordBytes));
  auto record = parse_record(text);
  if (record) return record;
  return Error{ErrorCode::kInvalidData, "the record of model " + name + " (" + path.string() +
                                            ") is damaged; type: munia rm " + name +
                                            ", then: munia pull " + name};
}

Status write_record(const fs::path& dir, const InstalledModel& model) {
  json::array files;
  for (const fs::path& file : model_files(dir)) {
    MUNIA_ASSIGN_OR_RETURN(std::string sha256, sha256_of_file(file.string()));
    std::error_code error;
    files.push_back({{"name", file.filename().string()},
                     {"size_bytes", std::uint64_t{fs::file_size(file, error)}},
                     {"sha256", std::move(sha256)}});
  }
  const json::object record{{"format", 1},
                            {"name", model.name},
                            {"licence", model.licence},
                            {"licence_address", model.licence_address},
                            {"commercial_use", model.commercial_use},
                            {"origin", model.origin},
                            {"origin_verified", model.origin_verified},
                            {"source", model.source},
                            {"files", std::move(files)}};
  return write_file_atomically(dir / kRecordName, json::serialize(record) + "\n");
}

Result<InstalledModel> read_record(const Home& home, const std::string& name) {
  MUNIA_ASSIGN_OR_RETURN(Record record, read_record_file(home, name));
  const fs::path dir = home.model_dir(name);
  InstalledModel model = std::move(record.model);
  model.name = name;
  for (const RecordFile& file : record.files) {
    std::error_code missing;
    const std::uint64_t size = fs::file_size(dir / file.name, missing);
    if (missing) {
      return Error{ErrorCode::kInvalidData, "model " + name + " lacks its file " +
                                                (dir / file.name).string() + "; type: munia rm " +
                                                name + ", then: munia pull " + name};
    }
    model.size_bytes += size;
  }
  model.path = loader_path(dir, record.files).string();
  return model;
}

Status check_place(const Home& home, const std::string& name) {
  std::error_code error;
  const fs::path dir = home.model_dir(name);
  if (!fs::exists(dir, error) || fs::exists(dir / kRecordName, error)) return {};
  return Error{ErrorCode::kInvalidArgument,
               dir.string() + " exists but is no model of munia's; move it away and pull again"};
}

Result<InstalledModel> install(const Home& home, const fs::path& ready, InstalledModel model) {
  MUNIA_RETURN_IF_ERROR(write_record(ready, model));
  MUNIA_RETURN_IF_ERROR(check_place(home, model.name));
  MUNIA_RETURN_IF_ERROR(sync_file(ready));
  MUNIA_RETURN_IF_ERROR(rename_durably(ready, home.model_dir(model.name)));
  std::error_code ignored;
  fs::remove_all(home.partial_dir(model.name), ignored);
  MUNIA_ASSIGN_OR_RETURN(InstalledModel installed, read_record(home, model.name));
  installed.fetched = true;
  return installed;
}

}  // namespace munia::hub
