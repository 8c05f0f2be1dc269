// The compiler behind schema.h: each schema within the schema becomes a rule, which is laid when
// its turn comes; so a schema may contain itself, and nothing here recurses deeper than
// alternatives do. schema.cpp has what joins schemas, schema_kinds.cpp the values of each type.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/json_parts.h"
#include "grammar/number_range.h"
#include "grammar/schema_object.h"
#include "grammar/schema_source.h"

namespace munia::grammar {

/// A place in the schema: a JSON pointer as a chain.
struct Where {
  const Where* parent = nullptr;
  std::string step;
};

/// A key as it stands in a JSON pointer.
std::string pointer_step(std::string_view key);

class SchemaCompiler {
 public:
  explicit SchemaCompiler(const boost::json::value& root) : source_(root), parts_(builder_) {}
  SchemaCompiler(const SchemaCompiler&) = delete;  // parts_ refers to builder_
  SchemaCompiler& operator=(const SchemaCompiler&) = delete;

  /// Once.
  Result<GrammarPtr> compile();

 private:
  using Object = boost::json::object;
  using Value = boost::json::value;
  struct Waiting {
    const Value* schema;
    const Where* where;
    RuleId rule;
  };

  const Where* add_where(const Where* parent, std::string step);
  /// Keeps the first mistake, with its place (and key).
  void fail(const Where* where, const std::string& what,
            ErrorCode code = ErrorCode::kInvalidArgument);
  void fail(const Where* where, std::string_view key, const std::string& what,
            ErrorCode code = ErrorCode::kInvalidArgument);

  /// The rule of a schema, to be laid later.
  RuleId rule_of(const Value& schema, const Where* where);

  // Each lays the texts of a schema, or a part of them, between two nodes.
  void lay(const Value& schema, const Where* where, NodeId from, NodeId to);
  void lay_combined(const Object& schema, const char* key, const Where* where, NodeId from,
                    NodeId to);
  void lay_reference(const Value& reference, const Where* where, NodeId from, NodeId to);
  void lay_values(const Object& schema, const Where* where, NodeId from, NodeId to);
  void lay_kinds(const Object& schema, const Where* where, NodeId from, NodeId to);
  void lay_string(const Object& schema, const Where* where, NodeId from, NodeId to);
  void lay_number(const Object& schema, bool whole, const Where* where, NodeId from, NodeId to);
  void lay_array(const Object& schema, const Where* where, NodeId from, NodeId to);
  void lay_object(const Object& schema, const Where* where, NodeId from, NodeId to);

  /// Refuses what stands beside `key` and says more.
  void refuse_others(const Object& schema, std::string_view key, std::string_view allowed,
                     const Where* where);
  void check_one_of(const boost::json::array& list, const Where* where);
  /// A schema that leads back to itself by references alone has no text.
  void find_endless_references();

  Kinds kinds_of_type(const Object& schema, const Where* where);
  /// minItems and the like; a most that is very large counts as kMaxCount.
  std::pair<std::uint32_t, std::uint32_t> counts(const Object& schema, const char* least_key,
                                                 const char* most_key, const Where* where);
  std::optional<Bound> bound(const Object& schema, const char* key, bool open, const Where* where);
  bool read_object(const Object& schema, const Where* where, ObjectShape& shape);

  SchemaSource source_;
  Builder builder_;
  JsonParts parts_;
  std::deque<Where> places_;
  std::unordered_map<const Value*, RuleId> rules_;
  std::vector<Waiting> waiting_;
  std::vector<std::pair<RuleId, RuleId>> direct_;  // rules that a reference joins
  RuleId current_ = 0;
  std::optional<Error> error_;
};

}  // namespace munia::grammar
