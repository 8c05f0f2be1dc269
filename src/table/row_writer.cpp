#include "table/row_writer.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <utility>

#include "base/json_writer.h"
#include "table/csv_writer.h"

namespace munia::table {
namespace {

namespace json = boost::json;

std::string number_text(double value) {
  char buffer[32];
  return {buffer, std::to_chars(std::begin(buffer), std::end(buffer), value).ptr};
}

void write_value(JsonWriter& writer, const AddedValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    writer.value(*text);
  } else if (const auto* number = std::get_if<double>(&value)) {
    writer.value(*number);
  } else {
    writer.null();
  }
}

Error taken(const std::string& name, const std::string& where) {
  return {ErrorCode::kInvalidData, where + " \"" + name +
                                       "\" already; give the new ones another beginning with "
                                       "--prefix"};
}

class CsvRowWriter : public RowWriter {
 public:
  CsvRowWriter(std::vector<std::string> names, char separator)
      : names_(std::move(names)), separator_(separator) {}

  std::string header() const override {
    std::string out;
    append_csv_row(out, names_, separator_);
    return out;
  }
  Status append(std::string& out, const Row& row, const std::string& /*raw*/,
                std::span<const AddedValue> added) const override {
    std::vector<std::string> fields = row.fields;
    for (const AddedValue& value : added) {
      const auto* text = std::get_if<std::string>(&value);
      const auto* number = std::get_if<double>(&value);
      fields.push_back(text != nullptr     ? *text
                       : number != nullptr ? number_text(*number)
                                           : std::string());
    }
    append_csv_row(out, fields, separator_);
    return {};
  }

 private:
  std::vector<std::string> names_;
  char separator_;
};

class JsonRowWriter : public RowWriter {
 public:
  JsonRowWriter(std::vector<std::string> columns, std::vector<std::string> added)
      : columns_(std::move(columns)), added_(std::move(added)) {}

  std::string header() const override { return {}; }
  Status append(std::string& out, const Row& row, const std::string& /*raw*/,
                std::span<const AddedValue> added) const override {
    JsonWriter writer;
    writer.begin_object();
    for (std::size_t i = 0; i < columns_.size(); ++i) writer.field(columns_[i], row.fields[i]);
    for (std::size_t i = 0; i < added_.size(); ++i) {
      writer.key(added_[i]);
      write_value(writer, added[i]);
    }
    writer.end_object();
    out.append(writer.text()).append("\n");
    return {};
  }

 private:
  std::vector<std::string> columns_;
  std::vector<std::string> added_;
};

/// The added fields go to the end of the object as it was, spelling included.
class SameJsonRowWriter : public RowWriter {
 public:
  explicit SameJsonRowWriter(std::vector<std::string> added) : added_(std::move(added)) {}

  std::string header() const override { return {}; }
  Status append(std::string& out, const Row& row, const std::string& raw,
                std::span<const AddedValue> added) const override {
    json::error_code code;
    const json::parse_options options{.max_depth = 64};  // as JsonLinesReader's
    const json::value value = json::parse(raw, code, {}, options);
    const json::object* object = code ? nullptr : value.if_object();
    if (object == nullptr) return Error{ErrorCode::kInvalidData, "not a JSON object"};
    JsonWriter writer;
    writer.begin_object();
    for (std::size_t i = 0; i < added_.size(); ++i) {
      if (object->contains(added_[i])) {
        return taken(added_[i], "line " + std::to_string(row.line) + ": the object has a field");
      }
      writer.key(added_[i]);
      write_value(writer, added[i]);
    }
    writer.end_object();
    out.append(raw, 0, raw.find_last_of('}'));
    if (!object->empty()) out += ',';
    out.append(writer.text(), 1).append("\n");
    return {};
  }

 private:
  std::vector<std::string> added_;
};

}  // namespace

Result<std::unique_ptr<RowWriter>> make_row_writer(Format from, Format to,
                                                   std::vector<std::string> columns,
                                                   std::vector<std::string> added_names) {
  if (to == Format::kText) {
    return Error{ErrorCode::kInvalidArgument,
                 "rows with labels need columns; let the output end in .csv, .tsv or .jsonl"};
  }
  if (from == Format::kJsonLines && to == Format::kJsonLines) {
    return std::unique_ptr<RowWriter>(std::make_unique<SameJsonRowWriter>(std::move(added_names)));
  }
  for (const std::string& name : added_names) {
    if (std::find(columns.begin(), columns.end(), name) != columns.end()) {
      return taken(name, "the input has a column");
    }
  }
  if (to == Format::kJsonLines) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (std::find(columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(i),
                    columns[i]) != columns.begin() + static_cast<std::ptrdiff_t>(i)) {
        return Error{ErrorCode::kInvalidData, "column \"" + columns[i] +
                                                  "\" stands more than once, which JSON objects "
                                                  "cannot hold; rename one of them"};
      }
    }
    return std::unique_ptr<RowWriter>(
        std::make_unique<JsonRowWriter>(std::move(columns), std::move(added_names)));
  }
  columns.insert(columns.end(), added_names.begin(), added_names.end());
  return std::unique_ptr<RowWriter>(
      std::make_unique<CsvRowWriter>(std::move(columns), to == Format::kTsv ? '\t' : ','));
}

}  // namespace munia::table
