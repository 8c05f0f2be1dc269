#include "grammar/json_parts.h"

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>
#include <cmath>

namespace munia::grammar {
namespace json = boost::json;

std::string json_scalar(const json::value& value) {
  if (value.is_null()) return "null";
  if (value.is_bool()) return value.get_bool() ? "true" : "false";
  if (value.is_int64()) return std::to_string(value.get_int64());
  if (value.is_uint64()) return std::to_string(value.get_uint64());
  if (value.is_double()) {
    // A number that no double holds was read as infinite, and this is as well.
    if (std::isinf(value.get_double())) return value.get_double() < 0 ? "-1e999" : "1e999";
    std::array<char, 64> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value.get_double()).ptr;
    return {text.data(), end};
  }
  const json::string& string = value.get_string();
  return "\"" + json_escaped({string.data(), string.size()}) + "\"";
}

void JsonParts::separator(NodeId from, char mark, NodeId to) {
  const NodeId behind = builder_.node_beside(from);
  const auto byte = static_cast<std::uint8_t>(mark);
  builder_.edge(from, byte, byte, behind);
  builder_.jump(behind, to);
  builder_.edge(behind, ' ', ' ', to);
}

void JsonParts::key(NodeId from, std::string_view name, NodeId to) {
  const NodeId colon = builder_.node_beside(from);
  builder_.literal(from, "\"" + json_escaped(name) + "\"", colon);
  separator(colon, ':', to);
}

void JsonParts::value(NodeId from, const json::value& value, NodeId to) {
  if (!value.is_object() && !value.is_array()) {
    return builder_.literal(from, json_scalar(value), to);
  }
  const bool is_object = value.is_object();
  NodeId at = builder_.node_beside(from);
  builder_.literal(from, is_object ? "{" : "[", at);
  const auto next = [&] { return builder_.node_beside(from); };
  bool first = true;
  const auto add = [&](const json::value& item, const std::string_view* name) {
    if (!first) {
      const NodeId behind = next();
      separator(at, ',', behind);
      at = behind;
    }
    first = false;
    if (name != nullptr) {
      const NodeId behind = next();
      key(at, *name, behind);
      at = behind;
    }
    const NodeId behind = next();
    this->value(at, item, behind);
    at = behind;
  };
  if (is_object) {
    for (const auto& member : value.get_object()) {
      const std::string_view name(member.key().data(), member.key().size());
      add(member.value(), &name);
    }
  } else {
    for (const json::value& item : value.get_array()) add(item, nullptr);
  }
  builder_.literal(at, is_object ? "}" : "]", to);
}

RuleId JsonParts::any_rule() {
  if (any_) return *any_;
  any_ = builder_.add_rule();
  const Rule rule = builder_.rule(*any_);
  builder_.one_of(rule.start, {"true", "false", "null"}, rule.end);
  number(rule.start, rule.end);
  any_string(rule.start, rule.end);
  any_array(rule.start, rule.end);
  any_object(rule.start, rule.end);
  return *any_;
}

void JsonParts::any_value(NodeId from, NodeId to) { builder_.call(from, any_rule(), to); }

void JsonParts::any_object(NodeId from, NodeId to) {
  if (!object_) {
    object_ = builder_.add_rule(true);
    const Rule rule = builder_.rule(*object_);
    const NodeId first = builder_.node_beside(rule.start);
    const NodeId member = builder_.node_beside(rule.start);
    const NodeId colon = builder_.node_beside(rule.start);
    const NodeId content = builder_.node_beside(rule.start);
    const NodeId behind = builder_.node_beside(rule.start);
    builder_.literal(rule.start, "{", first);
    builder_.jump(first, member);
    builder_.literal(first, "}", rule.end);
    any_string(member, colon);
    separator(colon, ':', content);
    any_value(content, behind);
    separator(behind, ',', member);
    builder_.literal(behind, "}", rule.end);
  }
  builder_.call(from, *object_, to);
}

void JsonParts::any_array(NodeId from, NodeId to) {
  if (!array_) {
    array_ = builder_.add_rule();
    const Rule rule = builder_.rule(*array_);
    array(rule.start, any_rule(), 0, kNoLimit, rule.end);
  }
  builder_.call(from, *array_, to);
}

void JsonParts::array(NodeId from, RuleId item, std::uint32_t least, std::uint32_t most,
                      NodeId to) {
  const RuleId id = builder_.add_rule(true, least, most);
  const Rule rule = builder_.rule(id);
  const NodeId first = builder_.node_beside(rule.start);
  const NodeId again = builder_.node_beside(rule.start);
  const NodeId comma = builder_.node_beside(rule.start);
  const NodeId value = builder_.node_beside(rule.start);
  const NodeId behind = builder_.node_beside(rule.start);
  const NodeId last = builder_.node_beside(rule.start);
  builder_.literal(rule.start, "[", first);
  builder_.jump(first, last, Jump::Test::kEnough);
  builder_.jump(first, value, Jump::Test::kCountUp);
  builder_.call(value, item, behind);
  builder_.jump(behind, last, Jump::Test::kEnough);
  // Counted before the comma, which would lead nowhere behind the last value that is allowed.
  builder_.jump(behind, comma, Jump::Test::kCountUp);
  separator(comma, ',', again);
  builder_.jump(again, value);
  builder_.literal(last, "]", rule.end);
  builder_.call(from, id, to);
}

// What is escaped: the usual escapes, and \uXXXX of all but surrogates.
void JsonParts::string_character(NodeId from, NodeId to) {
  add_character(builder_, from, escaped_in_json().complement(), Writing::kPlain, to);
  const NodeId escape = builder_.node_beside(from);
  const NodeId hex = builder_.node_beside(from);
  builder_.literal(from, "\\", escape);
  for (const char c : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'}) {
    builder_.literal(escape, std::string_view(&c, 1), to);
  }
  builder_.literal(escape, "u", hex);
  const auto add_hex = [&](NodeId at, int low, int high, NodeId next) {  // digits low to high
    const auto byte = [](int letter) { return static_cast<std::uint8_t>(letter); };
    if (low < 10) builder_.edge(at, byte('0' + low), byte('0' + (high < 10 ? high : 9)), next);
    const int first = low < 10 ? 10 : low;
    if (high < first) return;
    builder_.edge(at, byte('a' + first - 10), byte('a' + high - 10), next);
    builder_.edge(at, byte('A' + first - 10), byte('A' + high - 10), next);
  };
  std::array<NodeId, 3> behind{};  // [n]: n digits are missing
  behind[0] = to;
  for (std::size_t n = 1; n < 3; ++n) {
    behind[n] = builder_.node_beside(from);
    add_hex(behind[n], 0, 15, behind[n - 1]);
  }
  const NodeId second = builder_.node_beside(from);
  const NodeId behind_d = builder_.node_beside(from);
  add_hex(hex, 0, 12, second);
  add_hex(hex, 14, 15, second);
  add_hex(hex, 13, 13, behind_d);
  add_hex(second, 0, 15, behind[2]);
  add_hex(behind_d, 0, 7, behind[2]);
}

void JsonParts::any_string(NodeId from, NodeId to) {
  if (!string_) {
    string_ = builder_.add_rule();
    const Rule rule = builder_.rule(*string_);
    const NodeId inside = builder_.node_beside(rule.start);
    builder_.literal(rule.start, "\"", inside);
    string_character(inside, inside);
    builder_.literal(inside, "\"", rule.end);
  }
  builder_.call(from, *string_, to);
}

void JsonParts::string(NodeId from, std::uint32_t least, std::uint32_t most, NodeId to) {
  if (least == 0 && most == kNoLimit) return any_string(from, to);
  const RuleId id = builder_.add_rule(false, least, most);
  const Rule rule = builder_.rule(id);
  const NodeId inside = builder_.node_beside(rule.start);
  const NodeId character = builder_.node_beside(rule.start);
  const NodeId last = builder_.node_beside(rule.start);
  builder_.literal(rule.start, "\"", inside);
  builder_.jump(inside, character, Jump::Test::kCountUp);
  string_character(character, inside);
  builder_.jump(inside, last, Jump::Test::kEnough);
  builder_.literal(last, "\"", rule.end);
  builder_.call(from, id, to);
}

void JsonParts::digits(NodeId from, int least, int most, NodeId to) {
  for (int i = 0; i < most; ++i) {
    if (i >= least) builder_.jump(from, to);
    const NodeId next = i + 1 == most ? to : builder_.node_beside(from);
    builder_.edge(from, '0', '9', next);
    from = next;
  }
}

void JsonParts::integer(NodeId from, NodeId to) {
  if (!integer_) {
    integer_ = builder_.add_rule();
    const Rule rule = builder_.rule(*integer_);
    const NodeId size = builder_.node_beside(rule.start);
    const NodeId more = builder_.node_beside(rule.start);
    builder_.jump(rule.start, size);
    builder_.literal(rule.start, "-", size);
    builder_.literal(size, "0", rule.end);
    builder_.edge(size, '1', '9', more);
    digits(more, 0, kMaxDigits - 1, rule.end);
  }
  builder_.call(from, *integer_, to);
}

void JsonParts::number(NodeId from, NodeId to) {
  if (!number_) {
    number_ = builder_.add_rule();
    const Rule rule = builder_.rule(*number_);
    const auto node = [&] { return builder_.node_beside(rule.start); };
    const NodeId point = node(), fraction = node(), exponent = node(), sign = node(),
                 power = node();
    integer(rule.start, point);
    builder_.jump(point, exponent);
    builder_.literal(point, ".", fraction);
    digits(fraction, 1, kMaxFraction, exponent);
    builder_.jump(exponent, rule.end);
    builder_.literal(exponent, "e", sign);
    builder_.literal(exponent, "E", sign);
    builder_.jump(sign, power);
    builder_.literal(sign, "+", power);
    builder_.literal(sign, "-", power);
    digits(power, 1, 2, rule.end);
  }
  builder_.call(from, *number_, to);
}

GrammarPtr json_object_grammar() {
  Builder builder;
  const Rule rule = builder.rule(builder.add_rule());
  JsonParts(builder).any_object(rule.start, rule.end);
  return std::move(builder).finish().value_or_throw();
}

}  // namespace munia::grammar
