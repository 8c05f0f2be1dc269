// Fuzzer: any bytes as a table. The first byte chooses the format, the limits and how the bytes
// are dealt out. What a CSV gives must survive writing and reading again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "table/csv_writer.h"
#include "table/row_reader.h"
#include "table/slow_source.h"

namespace {

using namespace munia;
using namespace munia::table;

void check_round_trip(const std::vector<std::vector<std::string>>& rows, char separator) {
  std::string text;
  for (const auto& row : rows) append_csv_row(text, row, separator);
  ReadOptions options;
  options.has_header = false;
  auto reader = open_rows(source_of_string(text, "again"),
                          separator == ',' ? Format::kCsv : Format::kTsv, options);
  MUNIA_CHECK(reader.ok());
  for (const auto& expected : rows) {
    const auto row = (*reader)->next();
    MUNIA_CHECK(row.ok() && row->has_value() && (*row)->fields == expected);
  }
  const auto end = (*reader)->next();
  MUNIA_CHECK(end.ok() && !end->has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const unsigned choice = data[0];
  const auto format = static_cast<Format>(choice & 3);
  ReadOptions options;
  options.has_header = (choice & 4) != 0;
  options.json_fields = {"text", "label"};
  if ((choice & 8) != 0) options.max_row_bytes = 40;
  if ((choice & 16) != 0) options.max_columns = 3;
  const std::size_t step = (choice & 32) != 0 ? 1 : 1U << 16;
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto reader =
      open_rows(std::make_unique<SlowSource>(std::move(text), step, "fuzz"), format, options);
  if (!reader) return 0;
  std::vector<std::vector<std::string>> rows;
  std::uint64_t line = 0;
  std::size_t n_calls = 0;
  for (;;) {
    MUNIA_CHECK(++n_calls <= size + 1);  // every call but the last takes at least a byte
    auto row = (*reader)->next();
    MUNIA_CHECK((*reader)->raw().size() <= options.max_row_bytes);
    if (!row) {
      MUNIA_CHECK(!row.error().message.empty() && (*reader)->can_continue());
      continue;
    }
    if (!*row) break;
    MUNIA_CHECK((*row)->line > line || (*row)->line == 1);
    line = (*row)->line;
    for (const std::string& field : (*row)->fields) {
      MUNIA_CHECK(!find_invalid_utf8(field) && field.find('\0') == std::string::npos);
    }
    const std::size_t n_columns = (*reader)->header().size();
    MUNIA_CHECK(n_columns == 0 || n_columns == (*row)->fields.size());
    rows.push_back(std::move((*row)->fields));
  }
  if (format == Format::kCsv) check_round_trip(rows, ',');
  if (format == Format::kTsv) check_round_trip(rows, '\t');
  return 0;
}
