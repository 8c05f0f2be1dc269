#include "report/html_page.h"

#include <fmt/core.h>

#include "report/escape.h"

namespace munia::report {
namespace {

constexpr const char* kStyle =
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,-apple-system,'Segoe UI','Noto Sans','Noto Sans CJK SC',"
    "'PingFang SC','Microsoft YaHei',sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#24292f;background:#fff}"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}"
    "table{border-collapse:collapse;margin:.5rem 0;max-width:100%}"
    "caption{text-align:left;color:#57606a;padding:.25rem 0}"
    "th,td{padding:.25rem .6rem;border-bottom:1px solid #d8dee4;text-align:left;"
    "vertical-align:top;overflow-wrap:anywhere}"
    ".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    ".scroll{overflow-x:auto}"
    "svg{max-width:100%;height:auto}"
    "@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#161b22}"
    "caption{color:#9aa4ae}th,td{border-color:#30363d}}";

}  // namespace

HtmlPage::HtmlPage(std::string_view language, std::string_view title) {
  const std::string shown = escaped(title);
  head_ = fmt::format(
      "<!doctype html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'\">\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n"
      "<h1>{}</h1>\n",
      escaped(language), shown, kStyle, shown);
}

HtmlPage& HtmlPage::heading(std::string_view text) {
  body_ += "<h2>" + escaped(text) + "</h2>\n";
  return *this;
}

HtmlPage& HtmlPage::paragraph(std::string_view text) {
  body_ += "<p>" + escaped(text) + "</p>\n";
  return *this;
}

HtmlPage& HtmlPage::table(const Table& table) {
  const auto open_cell = [&](const char* tag, std::size_t i, const char* more) {
    const bool number = table.is_number.empty() ? i > 0 : table.is_number[i];
    body_ += fmt::format("<{}{}{}>", tag, more, number ? " class=\"n\"" : "");
  };
  body_ += "<div class=\"scroll\"><table>\n<caption>" + escaped(table.caption) + "</caption>\n<tr>";
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    open_cell("th", i, " scope=\"col\"");
    body_ += escaped(table.columns[i]) + "</th>";
  }
  body_ += "</tr>\n";
  for (const auto& row : table.rows) {
    body_ += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      open_cell("td", i, "");
      body_ += escaped(row[i]) + "</td>";
    }
    body_ += "</tr>\n";
  }
  body_ += "</table></div>\n";
  return *this;
}

HtmlPage& HtmlPage::matrix(const CountMatrix& matrix) {
  body_ += "<div class=\"scroll\"><table>\n<caption>" + escaped(matrix.caption) +
           "</caption>\n<tr><th scope=\"col\">" + escaped(matrix.corner) + "</th>";
  for (const std::string& name : matrix.columns) {
    body_ += "<th scope=\"col\" class=\"n\">" + escaped(name) + "</th>";
  }
  body_ += "</tr>\n";
  for (std::size_t i = 0; i < matrix.rows.size(); ++i) {
    std::int64_t sum = 0;
    for (const std::int64_t count : matrix.counts[i]) sum += count;
    body_ += "<tr><th scope=\"row\">" + escaped(matrix.rows[i]) + "</th>";
    for (const std::int64_t count : matrix.counts[i]) {
      const double share = sum == 0 ? 0 : static_cast<double>(count) / static_cast<double>(sum);
      body_ += fmt::format(
          "<td class=\"n\" style=\"background:rgba(0,114,178,{:.2f})\">{} ({:.0f}%)</td>",
          0.6 * share, count, 100 * share);
    }
    body_ += "</tr>\n";
  }
  body_ += "</table></div>\n";
  return *this;
}

HtmlPage& HtmlPage::plots(std::string_view title, const std::vector<Panel>& panels) {
  body_ += svg_page(title, "", panels);
  return *this;
}

std::string HtmlPage::text() const { return head_ + body_ + "</body>\n</html>\n"; }

}  // namespace munia::report
