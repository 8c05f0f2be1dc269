#include "table/csv_reader.h"

#include <utility>

namespace munia::table {

CsvReader::CsvReader(RowInput input, const ReadOptions& options, char separator)
    : input_(std::move(input)), max_columns_(options.max_columns), separator_(separator) {}

Status CsvReader::read_header() {
  auto row = next();
  if (!row) return row.error();
  if (!*row) {
    return Error{ErrorCode::kInvalidData,
                 input_.name() + " is empty; its first row must name the columns"};
  }
  header_ = std::move((*row)->fields);
  n_columns_ = header_.size();
  return {};
}

Result<std::optional<Row>> CsvReader::next() {
  do {
    input_.begin_row();
    fields_.clear();
    problem_ = nullptr;
    if (!scan_row()) {
      if (input_.failure()) return *input_.failure();
      return std::optional<Row>();
    }
  } while (input_.raw().empty() && !input_.too_long());  // blank lines are no rows
  MUNIA_RETURN_IF_ERROR(input_.check_row());
  if (problem_ != nullptr) return input_.error_at(problem_offset_, problem_);
  if (n_columns_ == 0) n_columns_ = fields_.size();  // without a header the first row sets it
  if (fields_.size() != n_columns_) return wrong_count();
  return std::optional<Row>(Row{input_.row_line(), std::exchange(fields_, {})});
}

Error CsvReader::wrong_count() const {
  const bool more = fields_.size() > n_columns_;
  std::string what = std::to_string(fields_.size());
  what.append(fields_.size() == 1 ? " field, but " : " fields, but ");
  what.append(header_.empty() ? "the first row" : "the header").append(" has ");
  what.append(std::to_string(n_columns_)).append(more ? " (the first one too many is here)" : "");
  return input_.error_at(more ? extra_offset_ : input_.raw().size(), what);
}

void CsvReader::note_problem(std::size_t offset, const char* what) {
  if (problem_ != nullptr) return;
  problem_ = what;
  problem_offset_ = offset;
}

void CsvReader::end_field(std::string& field) {
  if (fields_.size() == max_columns_) {
    note_problem(input_.raw().size(), "the row has more columns than allowed");
  } else if (!input_.too_long()) {
    fields_.push_back(std::exchange(field, {}));
    if (fields_.size() == n_columns_) extra_offset_ = input_.raw().size();
  }
  field.clear();
}

bool CsvReader::scan_row() {
  enum class State { kFieldStart, kPlain, kQuoted, kQuoteInQuoted };
  State state = State::kFieldStart;
  std::string field;
  std::size_t quote_offset = 0;
  if (input_.peek() == RowInput::kEnd) return false;
  for (;;) {
    const int c = input_.get();
    const bool ends_line = c == '\n' || c == '\r';
    if (c == RowInput::kEnd || (ends_line && state != State::kQuoted)) {
      if (input_.failure()) return false;
      if (c == '\r' && input_.peek() == '\n') (void)input_.get();
      if (state == State::kQuoted) {
        note_problem(quote_offset, "the quote that opens here is never closed");
      }
      end_field(field);
      return true;
    }
    const std::size_t offset = input_.raw().size();
    input_.keep(c);
    const auto add = [&] {
      if (!input_.too_long()) field += static_cast<char>(c);
    };
    if (c == separator_ && state != State::kQuoted) {
      end_field(field);
      state = State::kFieldStart;
    } else if (state == State::kFieldStart && c == '"') {
      quote_offset = offset;
      state = State::kQuoted;
    } else if (state == State::kFieldStart || state == State::kPlain) {
      // A quote inside a field that did not begin with one is an ordinary character.
      add();
      state = State::kPlain;
    } else if (state == State::kQuoted) {
      if (c == '"') {
        state = State::kQuoteInQuoted;
      } else {
        add();
      }
    } else if (c == '"') {  // two quotes in a quoted field are one
      add();
      state = State::kQuoted;
    } else {
      note_problem(offset,
                   "text after a closing quote (a quote inside a field must be doubled, and the "
                   "field quoted)");
      state = State::kPlain;
    }
  }
}

}  // namespace munia::table
