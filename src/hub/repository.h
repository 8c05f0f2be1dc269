// The files of a repository of a hub: which there are, which are wanted, and each of them fetched.
// Private to this room.
#pragma once

#include <string>

#include "base/error.h"
#include "hub/deliver.h"

namespace munia::hub {

/// Brings source.files of source.repo, or, when none are named, the files of any model in Hugging
/// Face's layout (or the one .gguf of a repository without config.json). The hub's list of files,
/// where it gives one, adds sizes and hashes and pins the commit; without it files are asked for
/// one by one. An Error only for what no other source could mend.
Result<Delivery> deliver_repository(const Source& source, const Home& home, const std::string& name,
                                    const HubOptions& options, const PullCallbacks& callbacks);

/// True when `url` lies below `endpoint`: same scheme, host and port, and a path that continues it.
bool is_below(const std::string& url, const std::string& endpoint);

}  // namespace munia::hub
