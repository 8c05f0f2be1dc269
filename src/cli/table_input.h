// How commands open a table: gzip by the name, the encoding by the setting.
#pragma once

#include <memory>
#include <string>

#include "cli/context.h"
#include "table/byte_source.h"

namespace munia::cli {

/// The table's bytes in UTF-8; `path` "-" is standard input. Fails with status 3 when it can't be
/// opened.
std::unique_ptr<table::ByteSource> open_table(const Context& context, const std::string& path);

}  // namespace munia::cli
