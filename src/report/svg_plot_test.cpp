// Plots as text: what must stand in them, and that they are well-formed and repeatable.
#include "report/svg_plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

namespace munia::report {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t i = text.find(part); i != text.npos; i = text.find(part, i + 1)) ++n;
  return n;
}

// Every element that opens closes, in order.
bool is_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  static const std::regex kTag("<(/?)([a-z]+)([^<>]*?)(/?)>");
  for (std::sregex_iterator tag(svg.begin(), svg.end(), kTag), end; tag != end; ++tag) {
    if (count((*tag)[3], "\"") % 2 != 0) return false;
    if ((*tag)[4].length() > 0) continue;
    if ((*tag)[1].length() == 0) {
      open.push_back((*tag)[2]);
    } else if (open.empty() || open.back() != (*tag)[2]) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

LinePlot speeds() {
  return {"decode",
          "position",
          "tokens/s",
          true,
          {{"measured", {{64, 40, 38, 41}, {512, 30, 30, 30}, {8192, 12, 11, 12.5}}, false},
           {"bytes read", {{64, 41, 0, 0}, {8192, 11, 0, 0}}, true}}};
}

TEST(SvgPlot, LinesHoldPointsAxesAndLegend) {
  const std::string svg = svg_page("munia bench", "AMD, 2 threads", {speeds()});
  EXPECT_TRUE(is_well_formed(svg)) << svg;
  EXPECT_EQ(count(svg, "<circle "), 3U);    // dashed lines have no marks
  EXPECT_EQ(count(svg, " whisker\""), 2U);  // a spread of nothing has none
  EXPECT_EQ(count(svg, "<path "), 2U);
  for (const char* word : {"munia bench", "AMD, 2 threads", ">position<", ">tokens/s<", ">decode<",
                           ">measured<", ">bytes read<", ">64<", ">512<", ">8192<", ">40<"}) {
    EXPECT_NE(svg.find(word), svg.npos) << word;
  }
  EXPECT_NE(svg.find("prefers-color-scheme:dark"), svg.npos);
  EXPECT_EQ(svg.find("http", svg.find("2000/svg")), svg.npos);  // refers to nothing outside
  EXPECT_EQ(svg, svg_page("munia bench", "AMD, 2 threads", {speeds()}));
}

TEST(SvgPlot, PointsStandWhereTheScaleSays) {
  LinePlot plot{"", "", "", false, {{"a", {{0, 0, 0, 0}, {10, 100, 0, 0}}, false}}};
  const std::string svg = svg_page("t", "", {plot});
  // x from 98 to 678, y from 338 up to 108 (44 page title, 64 panel head, 230 high).
  EXPECT_NE(svg.find("M98.0 338.0L678.0 108.0"), svg.npos) << svg;
  plot.x_is_log2 = true;  // no place for 0 on such an axis
  EXPECT_NE(svg_page("t", "", {plot}).find("d=\"M98.0 108.0\""), svg.npos);
}

TEST(SvgPlot, BarsHoldLabelsAndValues) {
  const BarPlot bars{"latency", "ms", {{"无缓存", 1250}, {"+ KV cache", 310.5}, {"?", NAN}}};
  const std::string svg = svg_page("t", "", {bars, speeds()});
  EXPECT_TRUE(is_well_formed(svg)) << svg;
  EXPECT_EQ(count(svg, "<rect "), 4U);  // the ground and three bars
  for (const char* word : {">无缓存<", ">+ KV cache<", ">1250<", ">310<", ">-<", ">ms<"}) {
    EXPECT_NE(svg.find(word), svg.npos) << word;
  }
}

TEST(SvgPlot, TextIsEscaped) {
  const std::string svg =
      svg_page("a<b & \"c\"", "\x01</svg>", {LinePlot{"<t>", "<x>", "<y>", false, {}}});
  EXPECT_TRUE(is_well_formed(svg)) << svg;
  EXPECT_NE(svg.find("a&lt;b &amp; &quot;c&quot;"), svg.npos);
  EXPECT_EQ(count(svg, "</svg>"), 1U);
  EXPECT_EQ(svg.find('\x01'), svg.npos);
}

TEST(SvgPlot, NumbersThatAreNoneAreLeftOut) {
  const double inf = std::numeric_limits<double>::infinity();
  const LinePlot plot{
      "", "", "", false, {{"a", {{NAN, 1, 0, 0}, {1, inf, 0, 0}, {2, 3, -inf, 4}}, false}}};
  const std::string svg = svg_page("t", "", {plot});
  EXPECT_EQ(count(svg, "<circle "), 1U);
  EXPECT_EQ(svg.find("nan"), svg.npos);
  EXPECT_EQ(svg.find("inf"), svg.npos);
  EXPECT_TRUE(is_well_formed(svg_page("t", "", {})));
  EXPECT_TRUE(is_well_formed(svg_page("t", "", {BarPlot{}})));
}

TEST(SvgPlot, Marks) {
  EXPECT_EQ(round_marks(41, 6), (std::vector<double>{0, 10, 20, 30, 40, 50}));
  EXPECT_EQ(round_marks(100, 6), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(round_marks(0, 4).front(), 0);
  for (const double top : {1e-7, 0.3, 1.0, 7.0, 65.0, 999.0, 12345.0, 1e12}) {
    const std::vector<double> marks = round_marks(top, 6);
    EXPECT_GE(marks.back(), top * (1 - 1e-9));
    EXPECT_LE(marks.size(), 7U) << top;
    EXPECT_GE(marks.size(), 3U) << top;
  }
}

TEST(SvgPlot, AxisNumbers) {
  const std::pair<double, const char*> cases[] = {
      {0, "0"},          {2.5, "2.5"},           {0.05, "0.05"},      {1024, "1024"},
      {12000, "12,000"}, {1234567, "1,234,567"}, {-12000, "-12,000"}, {40.04, "40"},
      {310.5, "310"},    {1e12, "1e+12"},        {1e-6, "1e-06"},
  };
  for (const auto& [value, text] : cases) EXPECT_EQ(axis_number(value), text);
}

}  // namespace
}  // namespace munia::report
