// Words for the messages of the file readers: names quoted so that no byte of a file can play
// tricks on a terminal, and what a file that is not of the expected kind looks like.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace munia::files {

/// `text` in double quotes: control bytes, quotes, backslashes and invalid UTF-8 as \xNN, the
/// rest as it is; cut after 80 bytes.
std::string in_quotes(std::string_view text);

/// What the first bytes show the file to be ("a zip archive (...)"), or a list of these bytes.
std::string looks_like(std::span<const std::byte> bytes);

}  // namespace munia::files
