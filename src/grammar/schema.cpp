#include "grammar/schema.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "grammar/schema_compiler.h"

namespace munia::grammar {
namespace json = boost::json;
namespace {

std::string pointer_of(const Where* where) {
  std::string out;
  for (; where->parent != nullptr; where = where->parent) out = "/" + where->step + out;
  return "#" + out;
}

// Say nothing about what is valid.
constexpr std::array kAnnotations = {
    "title",           "description",      "default",  "examples",     "$schema", "$id",
    "$comment",        "deprecated",       "readOnly", "writeOnly",    "$defs",   "definitions",
    "contentEncoding", "contentMediaType", "example",  "discriminator"};
constexpr std::array kKeywords = {"type",
                                  "enum",
                                  "const",
                                  "properties",
                                  "required",
                                  "additionalProperties",
                                  "items",
                                  "minItems",
                                  "maxItems",
                                  "minLength",
                                  "maxLength",
                                  "pattern",
                                  "format",
                                  "minimum",
                                  "maximum",
                                  "exclusiveMinimum",
                                  "exclusiveMaximum",
                                  "uniqueItems",
                                  "anyOf",
                                  "oneOf",
                                  "allOf",
                                  "$ref"};

template <std::size_t n>
bool is_among(std::string_view key, const std::array<const char*, n>& keys) {
  return std::any_of(keys.begin(), keys.end(), [&](const char* k) { return key == k; });
}

}  // namespace

std::string pointer_step(std::string_view key) {
  std::string out;
  for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

Result<GrammarPtr> SchemaCompiler::compile() {
  rule_of(source_.root(), add_where(nullptr, ""));
  // The queue grows while its members are laid.
  for (std::size_t i = 0; i < waiting_.size() && !error_ && !builder_.is_full(); ++i) {
    current_ = waiting_[i].rule;
    const Rule rule = builder_.rule(current_);
    lay(*waiting_[i].schema, waiting_[i].where, rule.start, rule.end);
  }
  if (!error_) find_endless_references();
  if (error_) return *error_;
  auto grammar = std::move(builder_).finish();
  if (!grammar) {
    return Error{grammar.error().code,
                 "the JSON schema cannot be used: " + grammar.error().message};
  }
  return grammar;
}

const Where* SchemaCompiler::add_where(const Where* parent, std::string step) {
  places_.push_back({parent, std::move(step)});
  return &places_.back();
}

void SchemaCompiler::fail(const Where* where, const std::string& what, ErrorCode code) {
  if (!error_) error_ = Error{code, "the JSON schema at " + pointer_of(where) + ": " + what};
}

void SchemaCompiler::fail(const Where* where, std::string_view key, const std::string& what,
                          ErrorCode code) {
  const Where place{where, pointer_step(key)};
  fail(&place, what, code);
}

RuleId SchemaCompiler::rule_of(const json::value& schema, const Where* where) {
  const auto [known, is_new] = rules_.emplace(&schema, 0);
  if (!is_new) return known->second;
  if (rules_.size() > kMaxSchemaParts) {
    fail(where,
         "there are more than " + std::to_string(kMaxSchemaParts) +
             " schemas within the schema; make it smaller",
         ErrorCode::kLimit);
    return 0;
  }
  known->second = builder_.add_rule();
  waiting_.push_back({&schema, where, known->second});
  return known->second;
}

void SchemaCompiler::lay(const json::value& schema, const Where* where, NodeId from, NodeId to) {
  if (error_) return;
  if (schema.is_bool()) {
    if (schema.get_bool()) return parts_.any_value(from, to);
    return fail(where, "no value at all fulfils \"false\"");
  }
  if (!schema.is_object()) return fail(where, "a schema must be an object, true or false");
  const json::object& object = schema.get_object();
  for (const auto& member : object) {
    const std::string_view key(member.key().data(), member.key().size());
    if (!is_among(key, kAnnotations) && !is_among(key, kKeywords) && !key.starts_with("x-")) {
      return fail(where, key, "this keyword is not supported; leave it out",
                  ErrorCode::kUnsupported);
    }
  }
  for (const char* key : {"$ref", "allOf", "anyOf", "oneOf"}) {
    if (object.contains(key)) return lay_combined(object, key, where, from, to);
  }
  if (object.contains("enum") || object.contains("const")) {
    return lay_values(object, where, from, to);
  }
  lay_kinds(object, where, from, to);
}

void SchemaCompiler::refuse_others(const json::object& schema, std::string_view key,
                                   std::string_view allowed, const Where* where) {
  for (const auto& member : schema) {
    const std::string_view other(member.key().data(), member.key().size());
    if (other != key && other != allowed && is_among(other, kKeywords)) {
      fail(where, other,
           "it stands beside \"" + std::string(key) +
               "\", which is not supported; write both into one schema",
           ErrorCode::kUnsupported);
    }
  }
}

void SchemaCompiler::lay_combined(const json::object& schema, const char* key, const Where* where,
                                  NodeId from, NodeId to) {
  refuse_others(schema, key, key, where);
  const json::value& content = *schema.if_contains(key);
  if (std::string_view(key) == "$ref") return lay_reference(content, where, from, to);
  if (!content.is_array() || content.get_array().empty()) {
    return fail(where, key, "it must be a list with a schema in it");
  }
  const json::array& list = content.get_array();
  if (std::string_view(key) == "allOf" && list.size() > 1) {
    return fail(where, key, "more than one schema here is not supported; write them as one",
                ErrorCode::kUnsupported);
  }
  if (std::string_view(key) == "oneOf") check_one_of(list, where);
  for (std::size_t i = 0; i < list.size() && !error_; ++i) {
    lay(list[i], add_where(where, key + ("/" + std::to_string(i))), from, to);
  }
}

void SchemaCompiler::check_one_of(const json::array& list, const Where* where) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (std::size_t k = i + 1; k < list.size() && !error_; ++k) {
      if (source_.exclude_each_other(list[i], list[k])) continue;
      fail(where, "oneOf",
           "a value may fulfil both schema " + std::to_string(i) + " and schema " +
               std::to_string(k) +
               "; give them different types or different constants in a required property, or "
               "use \"anyOf\"",
           ErrorCode::kUnsupported);
    }
  }
}

void SchemaCompiler::lay_reference(const json::value& reference, const Where* where, NodeId from,
                                   NodeId to) {
  if (!reference.is_string()) return fail(where, "$ref", "it must be a string");
  const std::string_view text = view_of(reference.get_string());
  const json::value* target = source_.find(text);
  if (target == nullptr) {
    return fail(where, "$ref",
                "\"" + std::string(text) +
                    "\" names nothing in the schema; only pointers like \"#/$defs/name\" are "
                    "followed");
  }
  const RuleId rule = rule_of(*target, add_where(where, "$ref"));
  direct_.emplace_back(current_, rule);
  builder_.call(from, rule, to);
}

void SchemaCompiler::find_endless_references() {
  std::unordered_map<RuleId, std::vector<RuleId>> next;
  std::unordered_map<RuleId, std::size_t> n_before;
  for (const auto& [from, to] : direct_) {
    next[from].push_back(to);
    ++n_before[to];
  }
  // Takes away what nothing unvisited leads to; what is left goes round.
  std::vector<RuleId> ready;
  for (const auto& [from, targets] : next) {
    if (n_before.find(from) == n_before.end()) ready.push_back(from);
  }
  std::size_t n_left = direct_.size();
  while (!ready.empty()) {
    const RuleId rule = ready.back();
    ready.pop_back();
    for (const RuleId to : next[rule]) {
      --n_left;
      if (--n_before[to] == 0) ready.push_back(to);
    }
  }
  if (n_left == 0) return;
  for (const Waiting& waiting : waiting_) {
    if (n_before[waiting.rule] == 0 || next[waiting.rule].empty()) continue;
    return fail(waiting.where,
                "it refers to itself without an object or a list between; such a schema says "
                "nothing");
  }
}

void SchemaCompiler::lay_values(const json::object& schema, const Where* where, NodeId from,
                                NodeId to) {
  const char* key = schema.contains("const") ? "const" : "enum";
  refuse_others(schema, key, "type", where);
  const Kinds kinds = schema.contains("type") ? kinds_of_type(schema, where) : kAnyKind;
  json::array values;
  if (std::string_view(key) == "const") {
    values.push_back(*schema.if_contains("const"));
  } else if (const json::value* list = schema.if_contains("enum");
             list->is_array() && !list->get_array().empty()) {
    values = list->get_array();
  } else {
    return fail(where, key, "it must be a list with a value in it");
  }
  std::vector<std::string> scalars;
  std::size_t n_fitting = 0;
  for (const json::value& value : values) {
    if ((kinds_of_value(value) & kinds) == 0) continue;
    ++n_fitting;
    if (value.is_object() || value.is_array()) {
      parts_.value(from, value, to);
    } else {
      scalars.push_back(json_scalar(value));
    }
  }
  if (n_fitting == 0) return fail(where, key, "no value of it has the type that \"type\" names");
  const NodeId begin = builder_.node_beside(from);
  builder_.jump(from, begin);
  builder_.one_of(begin, std::move(scalars), to);
}

Result<GrammarPtr> schema_grammar(const json::value& schema) {
  const std::size_t n_bytes = json::serialize(schema).size();
  if (n_bytes > kMaxSchemaBytes) {
    return Error{ErrorCode::kLimit, "the JSON schema has " + std::to_string(n_bytes) +
                                        " bytes; at most " + std::to_string(kMaxSchemaBytes) +
                                        " are allowed"};
  }
  return SchemaCompiler(schema).compile();
}

Result<GrammarPtr> schema_text_grammar(std::string_view schema) {
  if (schema.size() > 2 * kMaxSchemaBytes) {
    return Error{ErrorCode::kLimit, "the JSON schema has " + std::to_string(schema.size()) +
                                        " bytes; at most " + std::to_string(kMaxSchemaBytes) +
                                        " are allowed"};
  }
  json::error_code error;
  json::parse_options options;
  options.max_depth = 64;
  const json::value value = json::parse({schema.data(), schema.size()}, error, {}, options);
  if (error) {
    return Error{ErrorCode::kInvalidArgument, "the JSON schema is not JSON: " + error.message()};
  }
  return schema_grammar(value);
}

}  // namespace munia::grammar
