// CSV and TSV after RFC 4180, and what files in the world add to it: LF or a lone CR as line end,
// blank lines (skipped), a quote inside an unquoted field (kept as it is).
#pragma once

#include "table/row_input.h"
#include "table/row_reader.h"

namespace munia::table {

class CsvReader : public RowReader {
 public:
  CsvReader(RowInput input, const ReadOptions& options, char separator);

  Status read_header();

  Result<std::optional<Row>> next() override;
  bool can_continue() const override { return !input_.failure(); }
  const std::string& raw() const override { return input_.raw(); }
  const std::vector<std::string>& header() const override { return header_; }
  std::uint64_t bytes_read() const override { return input_.bytes_read(); }

 private:
  /// Reads up to the row's end into fields_ and raw(); false at the end of the source.
  bool scan_row();
  void end_field(std::string& field);
  void note_problem(std::size_t offset, const char* what);
  Error wrong_count() const;

  RowInput input_;
  std::size_t max_columns_;
  char separator_;
  std::vector<std::string> header_;
  std::size_t n_columns_ = 0;  // 0: not known yet
  std::vector<std::string> fields_;
  std::size_t extra_offset_ = 0;  // in raw(): behind the last field that has a column
  const char* problem_ = nullptr;
  std::size_t problem_offset_ = 0;
};

}  // namespace munia::table
