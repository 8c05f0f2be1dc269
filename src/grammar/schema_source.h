// What a schema says before anything is made of it: references, types, and whether two schemas
// exclude each other. A schema that makes no sense is reported by whoever compiles it; here it
// counts as one of which nothing is known.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json_value.h"

namespace munia::grammar {

/// A set of kinds of values.
using Kinds = unsigned;
inline constexpr Kinds kString = 1, kInteger = 2, kFraction = 4, kBoolean = 8, kNull = 16,
                       kObject = 32, kArray = 64, kAnyKind = 127;
inline constexpr Kinds kNumber = kInteger | kFraction;

/// The kinds of a type's name; nothing where there is no such type.
std::optional<Kinds> kinds_of_name(std::string_view name);
Kinds kinds_of_value(const boost::json::value& value);

class SchemaSource {
 public:
  explicit SchemaSource(const boost::json::value& root) : root_(root) {}

  const boost::json::value& root() const { return root_; }
  /// What "#", "#/$defs/a" or another pointer into the schema names; nullptr where nothing.
  const boost::json::value* find(std::string_view reference) const;
  /// True when no value fulfils both: told by kinds, by lists of values, or by a property that both
  /// require. False as well when many questions have taken more than some work together.
  bool exclude_each_other(const boost::json::value& a, const boost::json::value& b) {
    return exclude(a, b, 0);
  }

 private:
  using Values = std::vector<const boost::json::value*>;
  /// Takes off work for what a question reads; false when none is left.
  bool spend(std::size_t work);
  const boost::json::value* resolve(const boost::json::value& schema);
  bool exclude(const boost::json::value& a, const boost::json::value& b, int depth);
  bool exclude_by_property(const boost::json::object& a, const boost::json::object& b, int depth);

  const boost::json::value& root_;
  std::int64_t work_left_ = 1'000'000;  // values, names and parts of texts read
};

}  // namespace munia::grammar
