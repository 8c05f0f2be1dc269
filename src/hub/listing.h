// What a hub says about the files of a repository: their names, sizes and hashes, the commit and
// the licence. Two forms of JSON, one struct. A listing only helps to choose and to check: no name
// in it is used as a path unless the caller asked for that very name or checked it. Private to this
// room.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace munia::hub {

struct ListedFile {
  std::string path;
  std::uint64_t size_bytes = 0;  // 0: not said
  std::string sha256;            // empty: not said
};

struct Listing {
  std::string commit;   // 40 hexadecimal digits; empty: not said
  std::string licence;  // as the repository states it; empty: not said
  std::vector<ListedFile> files;

  /// nullptr when it is not listed.
  const ListedFile* find(std::string_view path) const;
};

/// The reply of api/models/ORG/REPO/revision/REV?blobs=true of the Hugging Face hub.
Result<Listing> parse_hf_listing(std::string_view text);
/// The reply of api/v1/models/ORG/REPO/repo/files?Revision=REV&Recursive=true of ModelScope.
Result<Listing> parse_modelscope_listing(std::string_view text);

}  // namespace munia::hub
