#include "text/unicode.h"

#include <algorithm>
#include <array>

namespace munia::text {
namespace {

constexpr std::size_t kBmpSize = 0x10000;

// One byte a code point for the basic plane, where nearly all text lives: a search over the ranges
// for every character would cost more than the rest of the split.
const std::array<std::uint8_t, kBmpSize>& bmp_classes() {
  static const std::array<std::uint8_t, kBmpSize> table = [] {
    std::array<std::uint8_t, kBmpSize> classes{};
    for (std::size_t i = 0; i < kClassRangesCount && kClassRanges[i].first < kBmpSize; ++i) {
      const std::size_t last = std::min<std::size_t>(kClassRanges[i].last, kBmpSize - 1);
      std::fill(classes.begin() + kClassRanges[i].first, classes.begin() + last + 1,
                kClassRanges[i].bits);
    }
    return classes;
  }();
  return table;
}

}  // namespace

std::uint8_t char_class(char32_t code_point) {
  if (code_point < kBmpSize) return bmp_classes()[code_point];
  const ClassRange* end = kClassRanges + kClassRangesCount;
  const ClassRange* range = std::partition_point(
      kClassRanges, end, [&](const ClassRange& r) { return r.last < code_point; });
  return range != end && range->first <= code_point ? range->bits : std::uint8_t{0};
}

}  // namespace munia::text
