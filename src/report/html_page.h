// A report as one self-contained HTML page: headings, sentences, tables, plots; no scripts, nothing
// from outside; readable on light and dark screens and on paper. Every word that is given is text,
// never markup.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/svg_plot.h"

namespace munia::report {

struct Table {
  std::string caption;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // each as long as columns
  /// Columns whose cells are numbers and stand to the right.
  std::vector<bool> is_number;  // empty: all but the first
};

/// Counts with the share of their row as the depth of colour.
struct CountMatrix {
  std::string caption;
  std::string corner;  // what rows and columns are
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::vector<std::vector<std::int64_t>> counts;  // [rows][columns]
};

class HtmlPage {
 public:
  /// `language` as in "en" or "zh-CN".
  HtmlPage(std::string_view language, std::string_view title);

  HtmlPage& heading(std::string_view text);
  HtmlPage& paragraph(std::string_view text);
  HtmlPage& table(const Table& table);
  HtmlPage& matrix(const CountMatrix& matrix);
  HtmlPage& plots(std::string_view title, const std::vector<Panel>& panels);
  /// The whole page.
  std::string text() const;

 private:
  std::string head_;
  std::string body_;
};

}  // namespace munia::report
