// What the three readers of configurations (config.cpp, config_gguf.cpp, config_packed.cpp) and the
// architectures' own files share: typed access to a JSON object's keys, and the checks. Knows no
// container.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/architecture.h"
#include "model/config.h"

namespace munia::model {

/// Typed access to one JSON object's keys; null counts as absent, as in Hugging Face's files.
/// An Error names the file (`where`) and the key.
class ConfigKeys {
 public:
  /// `object` must outlive this.
  ConfigKeys(const boost::json::object& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  /// nullptr when absent or null.
  const boost::json::value* find(std::string_view key) const;
  /// Whether the key is there, be it null.
  bool has(std::string_view key) const { return object_.contains(key); }
  /// The value, or `fallback` where the key is absent; without one that is an Error.
  Result<std::int64_t> get_int(std::string_view key, std::optional<std::int64_t> fallback) const;
  Result<double> get_number(std::string_view key, std::optional<double> fallback) const;
  Result<float> get_float(std::string_view key, std::optional<float> fallback) const;
  Result<bool> get_bool(std::string_view key, bool fallback) const;
  Result<std::string> get_string(std::string_view key, std::string_view fallback) const;

 private:
  const boost::json::object& object_;
  std::string where_;
};

Error bad_config(const std::string& where, const std::string& what);
Error unsupported_config(const std::string& where, const std::string& what);
/// The Error for a model that no file of this room computes: names it and those that are computed.
Error unknown_architecture(const std::string& where, std::string_view name);

/// Adds the ids of `value`, a number or a list of them, that are not yet in config.eos_ids.
Status add_eos_ids(const boost::json::value& value, const std::string& where, ModelConfig& config);

/// For layers that attend to the last `window` positions only (themselves included): that is full
/// attention as long as there are no more, so the context ends with the window, and what is
/// computed is what the model's authors compute. An Error when `window` is not positive.
Status end_context_with_window(const std::string& where, std::int64_t window, ModelConfig& config);

/// Bounds far above any model of this class, so that every later product fits 63 bits; divisibility
/// of the heads; a rope and an epsilon that can be computed with.
Status check_config(const ModelConfig& config, const std::string& where);

}  // namespace munia::model
