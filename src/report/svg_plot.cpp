#include "report/svg_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "report/escape.h"

namespace munia::report {
namespace {

constexpr double kWidth = 720;
constexpr double kLeft = 84;
constexpr double kRight = 28;
constexpr double kTop = 64;  // title and legend of a panel
constexpr double kBottom = 52;
constexpr double kLineHeight = 230;  // of the area between the axes
constexpr double kBarHeight = 26;
constexpr int kColours = 6;

// Colours of equal lightness that differ also for the colour-blind (after Okabe and Ito); the page
// has a ground of its own, so that the plot is readable wherever it is shown.
constexpr const char* kStyle =
    ".ground{fill:#fff}.ink{fill:#24292f}.faint{fill:#57606a}.grid{stroke:#d8dee4}"
    ".axis{stroke:#57606a}"
    ".c0{--c:#0072b2}.c1{--c:#c75000}.c2{--c:#007a5a}.c3{--c:#a6478a}.c4{--c:#7a6a00}"
    ".c5{--c:#5b5bd6}"
    "@media(prefers-color-scheme:dark){.ground{fill:#161b22}.ink{fill:#e6edf3}"
    ".faint{fill:#9aa4ae}.grid{stroke:#30363d}.axis{stroke:#8b949e}"
    ".c0{--c:#56b4e9}.c1{--c:#f0954a}.c2{--c:#3fcf9f}.c3{--c:#e29acb}.c4{--c:#e4d354}"
    ".c5{--c:#a5a5ff}}"
    ".line{fill:none;stroke:var(--c);stroke-width:2}.mark{fill:var(--c)}"
    ".whisker{stroke:var(--c);stroke-width:1.2}.dashed{stroke-dasharray:6 4}";
// Chinese text needs a font that has it; the names cover the usual systems.
constexpr const char* kFonts =
    "system-ui,-apple-system,'Segoe UI','Noto Sans','Noto Sans CJK SC','PingFang SC',"
    "'Microsoft YaHei','DejaVu Sans',sans-serif";

/// Coordinates with one decimal: enough for the eye, and free of the last digits' noise.
std::string at(double value) {
  const std::string text = fmt::format("{:.1f}", value);
  return text == "-0.0" ? "0.0" : text;
}

/// About the width of a text: wide characters count double.
double text_width(std::string_view text) {
  double width = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) width += 6.6;
    if (byte >= 0xC0) width += byte >= 0xE0 ? 12 : 6.6;
  }
  return width;
}

class Drawing {
 public:
  void text(double x, double y, std::string_view words, const char* anchor, const char* classes,
            int size = 12) {
    out_ += fmt::format(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" class=\"{}\" font-size=\"{}\">{}</text>\n",
        at(x), at(y), anchor, classes, size, escaped(words));
  }
  void line(double x1, double y1, double x2, double y2, const std::string& classes) {
    out_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"/>\n", at(x1),
                        at(y1), at(x2), at(y2), classes);
  }
  void add(const std::string& element) { out_ += element; }
  const std::string& content() const { return out_; }

 private:
  std::string out_;
};

std::string colour(std::size_t i) { return "c" + std::to_string(i % kColours); }

bool usable(const Point& point, bool x_is_log2) {
  return std::isfinite(point.x) && std::isfinite(point.y) && (!x_is_log2 || point.x > 0);
}

/// Where the values of an axis lie on the page.
struct Scale {
  double low = 0;
  double high = 1;
  double begin = 0;  // pixels
  double end = 1;
  double operator()(double value) const {
    return begin + (value - low) / (high - low) * (end - begin);
  }
};

class LinePanel {
 public:
  LinePanel(const LinePlot& plot, double y, Drawing& drawing) : plot_(plot), y_(y), d_(drawing) {
    for (const Series& series : plot.series) {
      for (const Point& point : series.points) {
        if (!usable(point, plot.x_is_log2)) continue;
        xs_.push_back(plot.x_is_log2 ? std::log2(point.x) : point.x);
        top_ = std::max({top_, point.y, point.low < point.high ? point.high : point.y});
      }
    }
    std::sort(xs_.begin(), xs_.end());
    xs_.erase(std::unique(xs_.begin(), xs_.end()), xs_.end());
    const std::vector<double> marks = round_marks(top_, 6);
    y_scale_ = {0, marks.back(), y + kTop + kLineHeight, y + kTop};
    x_scale_ = {xs_.empty() ? 0 : xs_.front(), xs_.empty() ? 1 : xs_.back(), kLeft + 14,
                kWidth - kRight - 14};
    if (!plot.x_is_log2 && !xs_.empty()) x_scale_.low = std::min(0.0, xs_.front());
    if (x_scale_.high - x_scale_.low < 1e-12) x_scale_.high = x_scale_.low + 1;
    axes(marks);
  }

  void draw() {
    legend();
    for (std::size_t i = 0; i < plot_.series.size(); ++i) draw_series(i);
  }

 private:
  double x_of(const Point& point) const {
    return x_scale_(plot_.x_is_log2 ? std::log2(point.x) : point.x);
  }

  void axes(const std::vector<double>& marks) {
    for (const double mark : marks) {
      d_.line(kLeft, y_scale_(mark), kWidth - kRight, y_scale_(mark), "grid");
      d_.text(kLeft - 8, y_scale_(mark) + 4, axis_number(mark), "end", "faint");
    }
    const double bottom = y_scale_.begin;
    d_.line(kLeft, bottom, kWidth - kRight, bottom, "axis");
    double free_from = 0;  // labels never overlap
    for (const double x : xs_) {
      const std::string label = axis_number(plot_.x_is_log2 ? std::exp2(x) : x);
      const double half = text_width(label) / 2 + 4;
      d_.line(x_scale_(x), bottom, x_scale_(x), bottom + 4, "axis");
      if (x_scale_(x) - half < free_from) continue;
      d_.text(x_scale_(x), bottom + 18, label, "middle", "faint");
      free_from = x_scale_(x) + half;
    }
    d_.text((kLeft + kWidth - kRight) / 2, bottom + 38, plot_.x_label, "middle", "ink");
    d_.text(kLeft, y_ + 20, plot_.title, "start", "ink", 15);
    d_.add(
        fmt::format("<text transform=\"translate(18 {}) rotate(-90)\" text-anchor=\"middle\" "
                    "class=\"ink\" font-size=\"12\">{}</text>\n",
                    at((y_scale_.begin + y_scale_.end) / 2), escaped(plot_.y_label)));
  }

  void legend() {
    if (plot_.series.size() < 2) return;
    double x = kLeft;
    const double y = y_ + 42;
    for (std::size_t i = 0; i < plot_.series.size(); ++i) {
      const Series& series = plot_.series[i];
      const std::string dashes = series.dashed ? " dashed" : "";
      d_.line(x, y - 4, x + 24, y - 4, colour(i) + " line" + dashes);
      d_.text(x + 30, y, series.name, "start", "ink");
      x += 30 + text_width(series.name) + 22;
    }
  }

  void draw_series(std::size_t i) {
    const Series& series = plot_.series[i];
    std::string path;
    for (const Point& point : series.points) {
      if (!usable(point, plot_.x_is_log2)) continue;
      path +=
          fmt::format("{}{} {}", path.empty() ? "M" : "L", at(x_of(point)), at(y_scale_(point.y)));
    }
    if (path.empty()) return;
    d_.add(fmt::format("<path d=\"{}\" class=\"{} line{}\"/>\n", path, colour(i),
                       series.dashed ? " dashed" : ""));
    for (const Point& point : series.points) {
      if (!usable(point, plot_.x_is_log2)) continue;
      if (point.low < point.high && std::isfinite(point.low) && std::isfinite(point.high)) {
        d_.line(x_of(point), y_scale_(point.low), x_of(point), y_scale_(point.high),
                colour(i) + " whisker");
      }
      if (series.dashed) continue;
      d_.add(fmt::format(
          "<circle cx=\"{}\" cy=\"{}\" r=\"3.4\" class=\"{} mark\"><title>"
          "{}</title></circle>\n",
          at(x_of(point)), at(y_scale_(point.y)), colour(i),
          escaped(series.name + ' ' + axis_number(point.x) + ": " + axis_number(point.y))));
    }
  }

  const LinePlot& plot_;
  double y_;
  Drawing& d_;
  std::vector<double> xs_;
  double top_ = 0;
  Scale x_scale_;
  Scale y_scale_;
};

void draw_bars(const BarPlot& plot, double y, Drawing& d) {
  double left = kLeft;
  double top = 0;
  for (const Bar& bar : plot.bars) {
    left = std::max(left, text_width(bar.label) + 36);
    if (std::isfinite(bar.value)) top = std::max(top, bar.value);
  }
  left = std::min(left, kWidth / 2);
  const std::vector<double> marks = round_marks(top, 6);
  const double bottom = y + 36 + kBarHeight * static_cast<double>(plot.bars.size()) + 8;
  const Scale scale = {0, marks.back(), left, kWidth - kRight - 70};
  d.text(kLeft, y + 20, plot.title, "start", "ink", 15);
  for (const double mark : marks) {
    d.line(scale(mark), y + 32, scale(mark), bottom, "grid");
    d.text(scale(mark), bottom + 16, axis_number(mark), "middle", "faint");
  }
  for (std::size_t i = 0; i < plot.bars.size(); ++i) {
    const Bar& bar = plot.bars[i];
    const double value = std::isfinite(bar.value) ? std::max(0.0, bar.value) : 0;
    const double bar_y = y + 36 + kBarHeight * static_cast<double>(i);
    d.text(left - 8, bar_y + 17, bar.label, "end", "ink");
    d.add(fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"c0 mark\"/>\n",
                      at(left), at(bar_y + 4), at(scale(value) - left), at(kBarHeight - 8)));
    d.text(scale(value) + 6, bar_y + 17, std::isfinite(bar.value) ? axis_number(bar.value) : "-",
           "start", "ink");
  }
  d.line(left, y + 32, left, bottom, "axis");
  d.text((left + kWidth - kRight) / 2, bottom + 36, plot.x_label, "middle", "ink");
}

double height_of(const Panel& panel) {
  if (std::holds_alternative<LinePlot>(panel)) return kTop + kLineHeight + kBottom;
  const auto n_bars = static_cast<double>(std::get<BarPlot>(panel).bars.size());
  return 36 + kBarHeight * n_bars + 8 + kBottom;
}

}  // namespace

std::vector<double> round_marks(double top, int n_most) {
  if (!(top > 0) || !std::isfinite(top)) top = 1;
  double step = std::pow(10.0, std::floor(std::log10(top / n_most)));
  for (const double factor : {2.0, 2.5, 2.0, 2.0}) {  // 1, 2, 5, 10, 20 times
    if (step * n_most >= top * (1 - 1e-9)) break;
    step *= factor;
  }
  std::vector<double> marks{0};
  while (marks.back() < top * (1 - 1e-9)) {
    marks.push_back(step * static_cast<double>(marks.size()));
  }
  return marks;
}

std::string axis_number(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value)) return "?";
  if (size >= 1e9 || (size > 0 && size < 1e-4)) return fmt::format("{:.3g}", value);
  const int decimals = size >= 100 || size == 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 4;
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find('.') != std::string::npos) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  const std::size_t whole = std::min(text.find('.'), text.size());
  const std::size_t digits_begin = value < 0 ? 1 : 0;
  if (whole - digits_begin > 4) {  // 1024 stays as it is, 12000 becomes 12,000
    for (std::size_t i = whole; i > digits_begin + 3;) {
      i -= 3;
      text.insert(i, 1, ',');
    }
  }
  return text;
}

std::string svg_page(std::string_view title, std::string_view note,
                     const std::vector<Panel>& panels) {
  Drawing drawing;
  double y = 44;
  for (const Panel& panel : panels) {
    if (const auto* lines = std::get_if<LinePlot>(&panel)) {
      LinePanel(*lines, y, drawing).draw();
    } else {
      draw_bars(std::get<BarPlot>(panel), y, drawing);
    }
    y += height_of(panel);
  }
  Drawing frame;
  frame.text(kLeft, 30, title, "start", "ink", 18);
  if (!note.empty()) {
    frame.text(kLeft, y + 14, note, "start", "faint", 11);
    y += 28;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\" font-family=\"{2}\">\n<title>{3}</title>\n<style>{4}</style>\n"
      "<rect width=\"100%\" height=\"100%\" class=\"ground\"/>\n{5}{6}</svg>\n",
      at(kWidth), at(y), kFonts, escaped(title), kStyle, frame.content(), drawing.content());
}

}  // namespace munia::report
