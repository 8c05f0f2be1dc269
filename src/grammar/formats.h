// The values of the keyword "format" that are kept, as regular expressions.
#pragma once

#include <string_view>

namespace munia::grammar {

/// Empty for formats that are taken as notes, as JSON Schema takes them all by default.
std::string_view pattern_of_format(std::string_view format);

}  // namespace munia::grammar
