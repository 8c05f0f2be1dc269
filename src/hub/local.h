// What can be taken into the home from this machine's own files. Private to this room.
#pragma once

#include <string>

namespace munia::hub {

/// True when `typed` is a path rather than a name: it holds a '/' or ends in .tar, .gguf or .munia,
/// and it names no hub and no address.
bool is_local_path(const std::string& typed);
/// The name that a model from `path` gets: of the directory, or of the file without its extension.
std::string name_of_path(const std::string& path);

}  // namespace munia::hub
