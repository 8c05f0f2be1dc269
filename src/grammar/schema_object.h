// Objects of named properties as grammars: keys in the order of the list, optional ones may be left
// out, then perhaps others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/json_parts.h"

namespace munia::grammar {

struct Property {
  std::string name;
  RuleId value;
  bool required;
};

struct ObjectShape {
  std::vector<Property> properties;
  std::optional<RuleId> others;  // values of keys that are not named
};

void add_object(Builder& builder, JsonParts& parts, NodeId from, const ObjectShape& shape,
                NodeId to);

}  // namespace munia::grammar
