// The record of a model, munia-model.json: what makes a directory in the home a model, and what a
// bundle begins with. Holds licence, origin, and size and hash of each file. Private to this room.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "hub/home.h"
#include "hub/hub.h"

namespace munia::hub {

inline constexpr char kRecordName[] = "munia-model.json";
inline constexpr std::size_t kMaxRecordBytes = std::size_t{1} << 20;

struct RecordFile {
  std::string name;  // a plain name, never with a '/'
  std::uint64_t size_bytes = 0;
  std::string sha256;  // of records that this version wrote never empty
};

struct Record {
  InstalledModel model;  // without path, size and fetched, which are of a place
  std::vector<RecordFile> files;
};

/// kInvalidData when the text is no record.
Result<Record> parse_record(std::string_view text);
/// The record's text in home.model_dir(name), read and parsed: kNotFound when there is none,
/// kInvalidData when it is damaged.
Result<Record> read_record_file(const Home& home, const std::string& name);

/// Writes the record of `model` into `dir`, hashing the files that lie there.
Status write_record(const fs::path& dir, const InstalledModel& model);
/// The model in home.model_dir(name): kNotFound when there is none, kInvalidData when its record is
/// damaged or a file is missing.
Result<InstalledModel> read_record(const Home& home, const std::string& name);

/// The directory `ready` of checked files gets its record, its name, and becomes the model; what
/// else is kept for an unfinished pull of it is removed.
Result<InstalledModel> install(const Home& home, const fs::path& ready, InstalledModel model);
/// kInvalidArgument when something that is no model of munia's has the model's place.
Status check_place(const Home& home, const std::string& name);

}  // namespace munia::hub
