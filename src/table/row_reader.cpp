#include "table/row_reader.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "table/converted_source.h"
#include "table/csv_reader.h"
#include "table/line_reader.h"

namespace munia::table {
namespace {

/// A name in quotes, cut, and without bytes that could steer a terminal.
std::string shown(std::string_view name) {
  constexpr std::size_t kMaxShownBytes = 60;
  std::string out = "\"";
  for (const char c : name.substr(0, kMaxShownBytes)) {
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  }
  return out.append(name.size() > kMaxShownBytes ? "...\"" : "\"");
}

}  // namespace

Result<Format> format_of_path(std::string_view whole_path) {
  std::string_view path = whole_path;
  if (is_gzip_path(path)) path.remove_suffix(3);
  const std::size_t slash = path.find_last_of('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  const std::size_t dot = name.find_last_of('.');
  std::string ending(dot == std::string_view::npos ? "" : name.substr(dot));
  std::transform(ending.begin(), ending.end(), ending.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  if (ending == ".txt") return Format::kText;
  if (ending == ".csv") return Format::kCsv;
  if (ending == ".tsv" || ending == ".tab") return Format::kTsv;
  if (ending == ".jsonl" || ending == ".ndjson") return Format::kJsonLines;
  return Error{ErrorCode::kInvalidArgument,
               "cannot tell the format of " + std::string(whole_path) +
                   " by its name; it must end in .txt, .csv, .tsv or .jsonl (or one of these "
                   "and .gz)"};
}

Result<std::unique_ptr<RowReader>> open_rows(std::unique_ptr<ByteSource> source, Format format,
                                             ReadOptions options) {
  if (format == Format::kJsonLines && options.json_fields.empty()) {
    return Error{ErrorCode::kInvalidArgument, "JSON Lines need the name of a field to read"};
  }
  RowInput input(std::move(source), options.max_row_bytes);
  MUNIA_RETURN_IF_ERROR(input.begin());
  std::unique_ptr<RowReader> reader;
  if (format == Format::kText) {
    reader = std::make_unique<TextReader>(std::move(input));
  } else if (format == Format::kJsonLines) {
    reader = std::make_unique<JsonLinesReader>(std::move(input), std::move(options.json_fields));
  } else {
    auto csv =
        std::make_unique<CsvReader>(std::move(input), options, format == Format::kTsv ? '\t' : ',');
    if (options.has_header) MUNIA_RETURN_IF_ERROR(csv->read_header());
    reader = std::move(csv);
  }
  return reader;
}

Result<std::size_t> find_column(const std::vector<std::string>& header, std::string_view name) {
  constexpr std::size_t kMaxShown = 20;
  const auto found = std::find(header.begin(), header.end(), name);
  if (found == header.end()) {
    std::string what = "there is no column " + shown(name) + "; the columns are";
    for (std::size_t i = 0; i < header.size() && i < kMaxShown; ++i) {
      what.append(i == 0 ? " " : ", ").append(shown(header[i]));
    }
    if (header.size() > kMaxShown) what.append(", ...");
    if (header.empty()) what.append(" not named");
    return Error{ErrorCode::kInvalidArgument, std::move(what)};
  }
  if (std::find(found + 1, header.end(), name) != header.end()) {
    return Error{
        ErrorCode::kInvalidData,
        "column " + shown(name) + " stands more than once in the header; rename one of them"};
  }
  return static_cast<std::size_t>(found - header.begin());
}

}  // namespace munia::table
