// The formats with a row a line: plain text, and JSON Lines of which some fields are taken.
#pragma once

#include "table/row_input.h"
#include "table/row_reader.h"

namespace munia::table {

/// Every line is a row of one field, an empty line too.
class TextReader : public RowReader {
 public:
  explicit TextReader(RowInput input) : input_(std::move(input)) {}

  Result<std::optional<Row>> next() override;
  bool can_continue() const override { return !input_.failure(); }
  const std::string& raw() const override { return input_.raw(); }
  const std::vector<std::string>& header() const override { return header_; }
  std::uint64_t bytes_read() const override { return input_.bytes_read(); }

 private:
  RowInput input_;
  std::vector<std::string> header_ = {"text"};
};

/// Every line is a JSON object; blank lines are skipped. A field that is a number or a truth value
/// is taken as JSON writes it.
class JsonLinesReader : public RowReader {
 public:
  JsonLinesReader(RowInput input, std::vector<std::string> fields)
      : input_(std::move(input)), header_(std::move(fields)) {}

  Result<std::optional<Row>> next() override;
  bool can_continue() const override { return !input_.failure(); }
  const std::string& raw() const override { return input_.raw(); }
  const std::vector<std::string>& header() const override { return header_; }
  std::uint64_t bytes_read() const override { return input_.bytes_read(); }

 private:
  RowInput input_;
  std::vector<std::string> header_;
};

}  // namespace munia::table
