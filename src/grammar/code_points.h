// Sets of characters (Unicode code points without surrogates), and how a grammar reads one of them:
// as UTF-8, or as it stands between the quotes of a JSON string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"

namespace munia::grammar {

class CodePoints {
 public:
  struct Range {
    std::uint32_t low, high;
    bool operator==(const Range&) const = default;
  };

  CodePoints() = default;
  static CodePoints all();
  static CodePoints one(std::uint32_t code_point);

  void add(std::uint32_t low, std::uint32_t high);
  void add(const CodePoints& other);
  /// Every character that is not in the set.
  CodePoints complement() const;
  CodePoints without(const CodePoints& other) const;
  bool has(std::uint32_t code_point) const;
  /// Sorted, apart from each other.
  const std::vector<Range>& ranges() const { return ranges_; }
  bool operator==(const CodePoints&) const = default;

 private:
  std::vector<Range> ranges_;
};

/// How the characters of a text are written.
enum class Writing : std::uint8_t {
  kPlain,       // as UTF-8
  kJsonString,  // as UTF-8, and what JSON forbids in a string by its usual escape (\" \\ \n \u0001)
};

/// What JSON forbids in a string as it is: control characters, " and \.
CodePoints escaped_in_json();
/// One character of `set`.
void add_character(Builder& builder, NodeId from, const CodePoints& set, Writing writing,
                   NodeId to);
/// The text as it stands between the quotes of a JSON string.
std::string json_escaped(std::string_view text);

}  // namespace munia::grammar
