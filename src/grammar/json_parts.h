// The parts of JSON text (RFC 8259) as grammars. Outside strings the only white space is one space,
// which may stand behind a colon or a comma, so that a model cannot go round in white space.
// Numbers have few enough digits that a double holds them.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>

#include "grammar/code_points.h"
#include "grammar/grammar.h"

namespace munia::grammar {

inline constexpr int kMaxDigits = 18;    // of an integer, and before a point
inline constexpr int kMaxFraction = 17;  // digits behind a point

/// Lays JSON into a builder. Parts that many places use are rules, made once.
class JsonParts {
 public:
  explicit JsonParts(Builder& builder) : builder_(builder) {}

  /// Byte `mark` and perhaps a space.
  void separator(NodeId from, char mark, NodeId to);
  /// A key and its colon.
  void key(NodeId from, std::string_view name, NodeId to);
  /// A value as it is: enum, const.
  void value(NodeId from, const boost::json::value& value, NodeId to);

  void any_value(NodeId from, NodeId to);
  void any_object(NodeId from, NodeId to);
  void any_array(NodeId from, NodeId to);
  void any_string(NodeId from, NodeId to);
  void number(NodeId from, NodeId to);
  void integer(NodeId from, NodeId to);
  /// A string of `least` to `most` characters.
  void string(NodeId from, std::uint32_t least, std::uint32_t most, NodeId to);
  /// A list of `least` to `most` values of rule `item`.
  void array(NodeId from, RuleId item, std::uint32_t least, std::uint32_t most, NodeId to);
  /// The rule of any value.
  RuleId any_rule();

 private:
  void string_character(NodeId from, NodeId to);
  void digits(NodeId from, int least, int most, NodeId to);

  Builder& builder_;
  std::optional<RuleId> any_, object_, array_, string_, number_, integer_;
};

/// The text of a value that is no object and no list.
std::string json_scalar(const boost::json::value& value);

/// A JSON object, nested at most kMaxNesting deep.
GrammarPtr json_object_grammar();

}  // namespace munia::grammar
