// One metadata value of a GGUF file.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "files/gguf.h"
#include "files/gguf_cursor.h"

namespace munia::files {

/// Reads a value of the file's kind `type` into `out`. `n_array_values` counts the array values of
/// the file so far, which are limited: in memory they take up to eight times their bytes.
Status read_gguf_value(GgufCursor& in, std::uint32_t type, std::uint64_t& n_array_values,
                       GgufValue& out);

}  // namespace munia::files
