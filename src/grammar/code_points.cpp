#include "grammar/code_points.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"

namespace munia::grammar {
namespace {

constexpr std::uint32_t kLast = 0x10FFFF;
constexpr std::uint32_t kFirstSurrogate = 0xD800;
constexpr std::uint32_t kLastSurrogate = 0xDFFF;

/// Lays byte sequences for ranges of characters between two nodes; the ends of long characters are
/// shared.
class Utf8Edges {
 public:
  Utf8Edges(Builder& builder, NodeId from, NodeId to) : builder_(builder), from_(from), to_(to) {
    any_.fill(to);
  }

  void add(std::uint32_t low, std::uint32_t high) {
    for (const std::uint32_t last : {0x7FU, 0x7FFU, 0xFFFFU, kLast}) {  // of each length
      if (low > high) return;
      if (low > last) continue;
      std::string first_text, last_text;
      append_utf8(first_text, low);
      append_utf8(last_text, std::min(high, last));
      lay(from_, first_text, last_text);
      low = last + 1;
    }
  }

 private:
  static std::uint8_t byte(std::string_view text) { return static_cast<std::uint8_t>(text[0]); }
  static bool is_all(std::string_view text, char c) {
    return text.find_first_not_of(c) == std::string_view::npos;
  }

  // Sequences of one length from `low` to `high`.
  void lay(NodeId from, std::string_view low, std::string_view high) {
    const std::string_view low_rest = low.substr(1);
    const std::string_view high_rest = high.substr(1);
    if (low_rest.empty()) return builder_.edge(from, byte(low), byte(high), to_);
    if (byte(low) == byte(high)) {
      const NodeId next = builder_.node_beside(from_);
      builder_.edge(from, byte(low), byte(low), next);
      return lay(next, low_rest, high_rest);
    }
    int first = byte(low);
    int last = byte(high);
    if (!is_all(low_rest, '\x80')) {
      const NodeId next = builder_.node_beside(from_);
      builder_.edge(from, byte(low), byte(low), next);
      lay(next, low_rest, std::string(low_rest.size(), '\xBF'));
      ++first;
    }
    if (!is_all(high_rest, '\xBF')) {
      const NodeId next = builder_.node_beside(from_);
      builder_.edge(from, byte(high), byte(high), next);
      lay(next, std::string(high_rest.size(), '\x80'), high_rest);
      --last;
    }
    if (first > last) return;
    builder_.edge(from, static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last),
                  any(low_rest.size()));
  }

  // Any n continuation bytes, then `to`.
  NodeId any(std::size_t n) {
    if (n > 0 && any_[n] == to_) {
      any_[n] = builder_.node_beside(from_);
      builder_.edge(any_[n], 0x80, 0xBF, any(n - 1));
    }
    return any_[n];
  }

  Builder& builder_;
  const NodeId from_;
  const NodeId to_;
  std::array<NodeId, 4> any_{};
};

}  // namespace

CodePoints escaped_in_json() {
  CodePoints set;
  set.add(0, 0x1F);
  set.add('"', '"');
  set.add('\\', '\\');
  return set;
}

CodePoints CodePoints::all() { return CodePoints().complement(); }

CodePoints CodePoints::one(std::uint32_t code_point) {
  CodePoints set;
  set.add(code_point, code_point);
  return set;
}

void CodePoints::add(std::uint32_t low, std::uint32_t high) {
  high = std::min(high, kLast);
  if (low < kFirstSurrogate && high >= kFirstSurrogate) {
    add(low, kFirstSurrogate - 1);
    low = kFirstSurrogate;
  }
  if (low >= kFirstSurrogate && low <= kLastSurrogate) low = kLastSurrogate + 1;
  if (low > high) return;
  // Swallows the ranges that it touches.
  const auto touches = [&](const Range& range) {
    return range.low <= std::uint64_t{high} + 1 && low <= std::uint64_t{range.high} + 1;
  };
  const auto first = std::find_if(ranges_.begin(), ranges_.end(), touches);
  auto last = first;
  for (; last != ranges_.end() && touches(*last); ++last) {
    low = std::min(low, last->low);
    high = std::max(high, last->high);
  }
  const auto at = ranges_.erase(first, last);
  if (at != ranges_.end()) {
    ranges_.insert(at, {low, high});
    return;
  }
  const auto behind = std::find_if(ranges_.begin(), ranges_.end(),
                                   [&](const Range& range) { return range.low > high; });
  ranges_.insert(behind, {low, high});
}

void CodePoints::add(const CodePoints& other) {
  for (const Range& range : other.ranges_) add(range.low, range.high);
}

CodePoints CodePoints::complement() const {
  CodePoints out;
  std::uint32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.low > next) out.add(next, range.low - 1);
    next = range.high + 1;
  }
  if (next <= kLast) out.add(next, kLast);
  return out;
}

CodePoints CodePoints::without(const CodePoints& other) const {
  CodePoints outside = complement();
  outside.add(other);
  return outside.complement();
}

bool CodePoints::has(std::uint32_t code_point) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    return code_point >= range.low && code_point <= range.high;
  });
}

void add_character(Builder& builder, NodeId from, const CodePoints& set, Writing writing,
                   NodeId to) {
  static const CodePoints kEscaped = escaped_in_json();
  Utf8Edges edges(builder, from, to);
  const CodePoints raw = writing == Writing::kPlain ? set : set.without(kEscaped);
  for (const CodePoints::Range& range : raw.ranges()) edges.add(range.low, range.high);
  if (writing == Writing::kPlain) return;
  std::vector<std::string> escapes;
  for (const CodePoints::Range& range : kEscaped.ranges()) {
    for (std::uint32_t c = range.low; c <= range.high; ++c) {
      if (set.has(c)) escapes.push_back(json_escaped(std::string(1, static_cast<char>(c))));
    }
  }
  if (escapes.empty()) return;
  const NodeId begin = builder.node_beside(from);
  builder.jump(from, begin);
  builder.one_of(begin, std::move(escapes), to);
}

std::string json_escaped(std::string_view text) {
  constexpr std::string_view kLetters = "btnvfr";  // of 8 to 13; JSON has no \v
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 0x20) {
      out += c;
    } else if (byte >= 8 && byte <= 13 && byte != 11) {
      out += '\\';
      out += kLetters[byte - 8U];
    } else {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

}  // namespace munia::grammar
