// Line and bar plots as one self-contained SVG: axes with labels, a legend, spreads as whiskers;
// readable on light and dark pages; the same input gives the same bytes. Used by bench, tune and
// eval. Knows numbers and words only, not where they come from.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace munia::report {

struct Point {
  double x = 0;
  double y = 0;
  double low = 0;  // whisker from low to high where low < high
  double high = 0;
};

struct Series {
  std::string name;  // in the legend, where a panel has several series
  std::vector<Point> points;
  bool dashed = false;  // for what was computed and not measured
};

struct LinePlot {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool x_is_log2 = false;  // every x must be positive then; others are left out
  std::vector<Series> series;
};

struct Bar {
  std::string label;
  double value = 0;
};

/// Horizontal bars, each with its value behind it.
struct BarPlot {
  std::string title;
  std::string x_label;
  std::vector<Bar> bars;
};

using Panel = std::variant<LinePlot, BarPlot>;

/// The panels one below the other under a common title, `note` (the machine, the model) at the end.
/// Values that are not finite are left out.
std::string svg_page(std::string_view title, std::string_view note,
                     const std::vector<Panel>& panels);

/// Round marks that cover [0, top] in at most `n_most` steps of 1, 2 or 5 times a power of ten.
std::vector<double> round_marks(double top, int n_most);
/// A number as people write it on an axis: "0", "2.5", "12,000", "1e+12".
std::string axis_number(double value);

}  // namespace munia::report
