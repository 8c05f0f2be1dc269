// What readers of JSON requests share (command line and service): a member where null is the same
// as absent, whole numbers however they are written, a key in quotes for messages. A schema's
// texts, too.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace munia {

inline std::string_view view_of(const boost::json::string& text) {
  return {text.data(), text.size()};
}

/// The member of that key, or nullptr where it is absent or null.
inline const boost::json::value* find_member(const boost::json::object& object,
                                             std::string_view key) {
  const boost::json::value* value =
      object.if_contains(boost::json::string_view(key.data(), key.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

/// 5 and 5.0 are whole, 5.5 and what no double holds exactly are not.
inline std::optional<std::int64_t> whole_number(const boost::json::value& value) {
  if (value.is_int64()) return value.get_int64();
  if (value.is_double()) {
    const double number = value.get_double();
    if (std::abs(number) < 9e15 && number == std::floor(number)) {
      return static_cast<std::int64_t>(number);
    }
  }
  return std::nullopt;
}

inline std::string quoted(std::string_view key) { return "\"" + std::string(key) + "\""; }

}  // namespace munia
