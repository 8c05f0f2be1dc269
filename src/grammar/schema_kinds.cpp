// The values of each type, as a schema bounds them.
#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>

#include "grammar/formats.h"
#include "grammar/regex.h"
#include "grammar/schema_compiler.h"

namespace munia::grammar {
namespace json = boost::json;
namespace {

constexpr std::uint32_t kMaxCount = 1'000'000;  // of characters or items
constexpr int kFractionDigits = 15;             // of a number with bounds

/// Without a type, the one whose keywords are there is meant.
Kinds guessed_kinds(const json::object& schema) {
  const auto has = [&](std::initializer_list<const char*> keys) {
    return std::any_of(keys.begin(), keys.end(),
                       [&](const char* key) { return schema.contains(key); });
  };
  Kinds kinds = 0;
  if (has({"properties", "required", "additionalProperties"})) kinds |= kObject;
  if (has({"items", "minItems", "maxItems"})) kinds |= kArray;
  if (has({"minLength", "maxLength", "pattern", "format"})) kinds |= kString;
  if (has({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) kinds |= kNumber;
  return kinds == 0 ? kAnyKind : kinds;
}

}  // namespace

Kinds SchemaCompiler::kinds_of_type(const json::object& schema, const Where* where) {
  const json::value& type = *schema.if_contains("type");
  Kinds kinds = 0;
  const auto add = [&](const json::value& name) {
    const auto found = name.is_string() ? kinds_of_name(view_of(name.get_string())) : std::nullopt;
    if (!found) {
      fail(where, "type",
           "a type must be \"string\", \"number\", \"integer\", \"boolean\", \"null\", "
           "\"object\" or \"array\"");
    }
    kinds |= found.value_or(0);
  };
  if (type.is_array() && !type.get_array().empty()) {
    for (const json::value& name : type.get_array()) add(name);
  } else {
    add(type);
  }
  return kinds;
}

void SchemaCompiler::lay_kinds(const json::object& schema, const Where* where, NodeId from,
                               NodeId to) {
  const Kinds kinds =
      schema.contains("type") ? kinds_of_type(schema, where) : guessed_kinds(schema);
  if (error_) return;
  if ((kinds & kString) != 0) lay_string(schema, where, from, to);
  if ((kinds & kNumber) != 0) lay_number(schema, (kinds & kFraction) == 0, where, from, to);
  std::vector<std::string> words;
  if ((kinds & kBoolean) != 0) words = {"true", "false"};
  if ((kinds & kNull) != 0) words.emplace_back("null");
  if (!words.empty()) {
    const NodeId begin = builder_.node_beside(from);
    builder_.jump(from, begin);
    builder_.one_of(begin, std::move(words), to);
  }
  if ((kinds & kArray) != 0) lay_array(schema, where, from, to);
  if ((kinds & kObject) != 0) lay_object(schema, where, from, to);
}

std::pair<std::uint32_t, std::uint32_t> SchemaCompiler::counts(const json::object& schema,
                                                               const char* least_key,
                                                               const char* most_key,
                                                               const Where* where) {
  const auto read = [&](const char* key, std::uint32_t fallback) {
    const json::value* value = schema.if_contains(key);
    if (value == nullptr) return fallback;
    json::error_code error;
    const auto number = value->is_number() ? value->to_number<double>(error) : -1;
    if (error || !(number >= 0) || number != std::floor(number)) {
      fail(where, key, "it must be a whole number from 0");
      return fallback;
    }
    return static_cast<std::uint32_t>(std::min(number, double{kMaxCount}));
  };
  const std::uint32_t least = read(least_key, 0);
  const std::uint32_t most = read(most_key, kNoLimit);
  if (least == kMaxCount) {
    fail(where, least_key, "it must be below " + std::to_string(kMaxCount), ErrorCode::kLimit);
  }
  if (most < least) {
    fail(where, most_key, "it is less than \"" + std::string(least_key) + "\"");
  }
  return {least, most};
}

void SchemaCompiler::lay_string(const json::object& schema, const Where* where, NodeId from,
                                NodeId to) {
  const auto [least, most] = counts(schema, "minLength", "maxLength", where);
  const bool has_length = schema.contains("minLength") || schema.contains("maxLength");
  const json::value* pattern = schema.if_contains("pattern");
  const json::value* format = schema.if_contains("format");
  std::string_view regex;
  if (pattern != nullptr) {
    if (!pattern->is_string()) return fail(where, "pattern", "it must be a string");
    if (has_length) {
      return fail(where, "pattern",
                  "it stands beside a length, which is not supported; write the length into the "
                  "expression",
                  ErrorCode::kUnsupported);
    }
    regex = view_of(pattern->get_string());
  } else if (format != nullptr) {
    if (!format->is_string()) return fail(where, "format", "it must be a string");
    if (!has_length) regex = pattern_of_format(view_of(format->get_string()));
  }
  if (error_) return;
  if (regex.empty() && pattern == nullptr) return parts_.string(from, least, most, to);
  const NodeId inside = builder_.node_beside(from);
  const NodeId last = builder_.node_beside(from);
  builder_.literal(from, "\"", inside);
  if (const Status status = add_regex(builder_, inside, regex, Writing::kJsonString, last);
      !status) {
    return fail(where, "pattern", status.error().message, status.error().code);
  }
  builder_.literal(last, "\"", to);
}

std::optional<Bound> SchemaCompiler::bound(const json::object& schema, const char* key, bool open,
                                           const Where* where) {
  const json::value* value = schema.if_contains(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    fail(where, key, "it must be a number");
    return std::nullopt;
  }
  const auto decimal =
      value->is_int64() ? decimal_of(value->get_int64()) : decimal_of(value->to_number<double>());
  if (!decimal) {
    fail(where, key, "a bound may have 18 digits before the point and 15 behind it",
         ErrorCode::kLimit);
    return std::nullopt;
  }
  return Bound{*decimal, open};
}

void SchemaCompiler::lay_number(const json::object& schema, bool whole, const Where* where,
                                NodeId from, NodeId to) {
  for (const auto& [closed, open] :
       {std::pair("minimum", "exclusiveMinimum"), std::pair("maximum", "exclusiveMaximum")}) {
    if (schema.contains(closed) && schema.contains(open)) {
      return fail(where, open, "it stands beside \"" + std::string(closed) + "\"; give one");
    }
  }
  const auto either = [&](const char* closed, const char* open) {
    return schema.contains(closed) ? bound(schema, closed, false, where)
                                   : bound(schema, open, true, where);
  };
  const auto low = either("minimum", "exclusiveMinimum");
  const auto high = either("maximum", "exclusiveMaximum");
  if (error_) return;
  if (!low && !high) return whole ? parts_.integer(from, to) : parts_.number(from, to);
  add_number_range(builder_, from, low, high, whole ? 0 : kFractionDigits, to);
}

void SchemaCompiler::lay_array(const json::object& schema, const Where* where, NodeId from,
                               NodeId to) {
  const auto [least, most] = counts(schema, "minItems", "maxItems", where);
  const json::value* unique = schema.if_contains("uniqueItems");
  if (unique != nullptr && (!unique->is_bool() || unique->get_bool())) {
    return fail(where, "uniqueItems", "only false is supported", ErrorCode::kUnsupported);
  }
  const json::value* items = schema.if_contains("items");
  const RuleId item =
      items == nullptr ? parts_.any_rule() : rule_of(*items, add_where(where, "items"));
  if (!error_) parts_.array(from, item, least, most, to);
}

void SchemaCompiler::lay_object(const json::object& schema, const Where* where, NodeId from,
                                NodeId to) {
  ObjectShape shape;
  if (!read_object(schema, where, shape)) return;
  add_object(builder_, parts_, from, shape, to);
}

bool SchemaCompiler::read_object(const json::object& schema, const Where* where,
                                 ObjectShape& shape) {
  const json::value* properties = schema.if_contains("properties");
  const json::value* additional = schema.if_contains("additionalProperties");
  const json::value* required = schema.if_contains("required");
  if (properties != nullptr && !properties->is_object()) {
    fail(where, "properties", "it must be an object");
  }
  if (additional != nullptr && !additional->is_object() && !additional->is_bool()) {
    fail(where, "additionalProperties", "it must be true, false or a schema");
  }
  const bool is_list = required == nullptr ||
                       (required->is_array() &&
                        std::all_of(required->get_array().begin(), required->get_array().end(),
                                    [](const json::value& name) { return name.is_string(); }));
  if (!is_list) fail(where, "required", "it must be a list of strings");
  if (error_) return false;
  if (properties != nullptr) {
    for (const auto& [name, content] : properties->get_object()) {
      const Where* place =
          add_where(where, "properties/" + pointer_step({name.data(), name.size()}));
      shape.properties.push_back({std::string(name), rule_of(content, place), false});
    }
  }
  const bool forbids = additional != nullptr && additional->is_bool() && !additional->get_bool();
  const bool asks = additional != nullptr && !forbids;
  const auto other_rule = [&] {
    return asks ? rule_of(*additional, add_where(where, "additionalProperties"))
                : parts_.any_rule();
  };
  if (required != nullptr) {
    for (const json::value& item : required->get_array()) {
      const std::string_view name = view_of(item.get_string());
      auto place = std::find_if(shape.properties.begin(), shape.properties.end(),
                                [&](const Property& property) { return property.name == name; });
      if (place == shape.properties.end()) {
        if (forbids) {
          fail(where, "required",
               "\"" + std::string(name) +
                   "\" is required, but \"additionalProperties\" forbids what \"properties\" "
                   "does not name");
          return false;
        }
        place = shape.properties.insert(place, {std::string(name), other_rule(), false});
      }
      place->required = true;
    }
  }
  // Without a word about them, others are left out where some are named: a model asked for two
  // fields should not go on inventing.
  if (asks || (additional == nullptr && shape.properties.empty())) shape.others = other_rule();
  return !error_;
}

}  // namespace munia::grammar
