#include "grammar/schema_source.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <charconv>
#include <string>

namespace munia::grammar {
namespace {

namespace json = boost::json;

constexpr int kMaxSteps = 8;  // references, and properties inside each other

bool equal(const json::value& a, const json::value& b) {
  if (a.is_number() && b.is_number()) {
    return a == b || a.to_number<double>() == b.to_number<double>();  // 1 is 1.0
  }
  return a == b;
}

std::optional<std::vector<const json::value*>> values_of(const json::object& schema) {
  std::vector<const json::value*> values;
  if (const json::value* constant = schema.if_contains("const")) {
    values.push_back(constant);
    return values;
  }
  const json::value* list = schema.if_contains("enum");
  if (list == nullptr || !list->is_array()) return std::nullopt;
  for (const json::value& value : list->get_array()) values.push_back(&value);
  return values;
}

Kinds kinds_of(const json::object& schema) {
  if (const auto values = values_of(schema)) {
    Kinds kinds = 0;
    for (const json::value* value : *values) kinds |= kinds_of_value(*value);
    return kinds;
  }
  const json::value* type = schema.if_contains("type");
  if (type == nullptr) return kAnyKind;
  if (type->is_string()) return kinds_of_name(view_of(type->get_string())).value_or(kAnyKind);
  if (!type->is_array()) return kAnyKind;
  Kinds kinds = 0;
  for (const json::value& name : type->get_array()) {
    kinds |=
        name.is_string() ? kinds_of_name(view_of(name.get_string())).value_or(kAnyKind) : kAnyKind;
  }
  return kinds;
}

const json::array* alternatives_of(const json::object& schema) {
  for (const char* key : {"anyOf", "oneOf"}) {
    const json::value* list = schema.if_contains(key);
    if (list != nullptr && list->is_array()) return &list->get_array();
  }
  return nullptr;
}

// What comparing with it may take: its values, and pieces of its texts.
std::size_t weight_of(const json::value& value) {
  constexpr std::size_t kPiece = 64;
  if (value.is_string()) return 1 + value.get_string().size() / kPiece;
  std::size_t weight = 1;
  if (value.is_array()) {
    for (const json::value& item : value.get_array()) weight += weight_of(item);
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.get_object()) {
      weight += key.size() / kPiece + weight_of(item);
    }
  }
  return weight;
}

// Items of the lists that say which values and kinds there are.
std::size_t n_listed(const json::object& schema) {
  std::size_t n = 0;
  for (const char* key : {"enum", "type"}) {
    const json::value* list = schema.if_contains(key);
    if (list != nullptr && list->is_array()) n += list->get_array().size();
  }
  return n;
}

std::size_t n_required(const json::object& schema) {
  const json::value* list = schema.if_contains("required");
  return list != nullptr && list->is_array() ? list->get_array().size() : 0;
}

bool requires_property(const json::object& schema, json::string_view name) {
  const json::value* list = schema.if_contains("required");
  if (list == nullptr || !list->is_array()) return false;
  const json::array& names = list->get_array();
  return std::any_of(names.begin(), names.end(), [&](const json::value& item) {
    return item.is_string() && item.get_string() == name;
  });
}

}  // namespace

std::optional<Kinds> kinds_of_name(std::string_view name) {
  if (name == "string") return kString;
  if (name == "number") return kNumber;
  if (name == "integer") return kInteger;
  if (name == "boolean") return kBoolean;
  if (name == "null") return kNull;
  if (name == "object") return kObject;
  if (name == "array") return kArray;
  return std::nullopt;
}

Kinds kinds_of_value(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return kNull;
    case json::kind::bool_:
      return kBoolean;
    case json::kind::string:
      return kString;
    case json::kind::object:
      return kObject;
    case json::kind::array:
      return kArray;
    case json::kind::double_:
      return value.get_double() == static_cast<double>(static_cast<std::int64_t>(
                                       std::clamp(value.get_double(), -9e15, 9e15)))
                 ? kInteger
                 : kFraction;
    default:
      return kInteger;
  }
}

const json::value* SchemaSource::find(std::string_view reference) const {
  if (!reference.starts_with('#')) return nullptr;
  std::string pointer;  // without its percent signs
  for (std::size_t i = 1; i < reference.size(); ++i) {
    if (reference[i] != '%') {
      pointer += reference[i];
      continue;
    }
    int byte = 0;
    const char* const digits = reference.data() + i + 1;
    if (i + 2 >= reference.size() ||
        std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2)
      return nullptr;
    pointer += static_cast<char>(byte);
    i += 2;
  }
  json::error_code error;
  return root_.find_pointer(json::string_view(pointer.data(), pointer.size()), error);
}

bool SchemaSource::spend(std::size_t work) {
  work_left_ -= static_cast<std::int64_t>(work);
  return work_left_ >= 0;
}

const json::value* SchemaSource::resolve(const json::value& schema) {
  const json::value* at = &schema;
  for (int step = 0; at != nullptr && step < kMaxSteps; ++step) {
    if (!at->is_object()) return at;
    const json::object& object = at->get_object();
    const json::value* reference = object.if_contains("$ref");
    const json::value* all = object.if_contains("allOf");
    if (reference != nullptr && reference->is_string()) {
      if (!spend(reference->get_string().size() / 8)) return nullptr;
      at = find(view_of(reference->get_string()));
    } else if (all != nullptr && all->is_array() && all->get_array().size() == 1) {
      at = &all->get_array()[0];
    } else {
      return at;
    }
  }
  return nullptr;
}

bool SchemaSource::exclude(const json::value& first, const json::value& second, int depth) {
  if (!spend(1)) return false;
  const json::value* a = resolve(first);
  const json::value* b = resolve(second);
  if (depth == kMaxSteps || a == nullptr || b == nullptr || !a->is_object() || !b->is_object()) {
    return false;
  }
  for (const bool swapped : {false, true}) {
    const json::value& one = swapped ? *b : *a;
    const json::value& other = swapped ? *a : *b;
    if (const json::array* alternatives = alternatives_of(one.get_object())) {
      return std::all_of(alternatives->begin(), alternatives->end(),
                         [&](const json::value& item) { return exclude(item, other, depth + 1); });
    }
  }
  const json::object& x = a->get_object();
  const json::object& y = b->get_object();
  if (!spend(n_listed(x) + n_listed(y))) return false;
  const Kinds common = kinds_of(x) & kinds_of(y);
  if (common == 0) return true;
  const auto values = values_of(x);
  const auto others = values_of(y);
  if (values && others) {
    for (const json::value* value : *values) {
      if (!spend(weight_of(*value) * (1 + others->size()))) return false;
      if (std::any_of(others->begin(), others->end(),
                      [&](const json::value* other) { return equal(*value, *other); })) {
        return false;
      }
    }
    return true;
  }
  return common == kObject && exclude_by_property(x, y, depth);
}

bool SchemaSource::exclude_by_property(const json::object& a, const json::object& b, int depth) {
  const json::value* mine = a.if_contains("properties");
  const json::value* theirs = b.if_contains("properties");
  if (mine == nullptr || theirs == nullptr || !mine->is_object() || !theirs->is_object()) {
    return false;
  }
  const std::size_t n_names = n_required(a) + n_required(b);
  for (const auto& [name, schema] : mine->get_object()) {
    if (!spend(1 + n_names)) return false;
    const json::value* other = theirs->get_object().if_contains(name);
    if (other != nullptr && requires_property(a, name) && requires_property(b, name) &&
        exclude(schema, *other, depth + 1)) {
      return true;
    }
  }
  return false;
}

}  // namespace munia::grammar
