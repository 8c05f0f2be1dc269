#include "cli/table_input.h"

#include <utility>

#include "table/converted_source.h"

namespace munia::cli {

std::unique_ptr<table::ByteSource> open_table(const Context& context, const std::string& path) {
  auto opened = table::open_source(path);
  if (!opened) fail(ExitStatus::kCannotLoad, opened.error().message);
  std::unique_ptr<table::ByteSource> source = *std::move(opened);
  if (table::is_gzip_path(path)) source = table::unpack_gzip(std::move(source));
  if (context.settings.encoding() == Encoding::kGb18030) {
    source = value_or_fail(table::convert_gb18030(std::move(source)));
  }
  return source;
}

}  // namespace munia::cli
