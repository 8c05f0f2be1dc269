#include "model/config_keys.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "files/describe.h"

namespace munia::model {

namespace json = boost::json;

Error bad_config(const std::string& where, const std::string& what) {
  return Error{ErrorCode::kInvalidData, where + ": " + what};
}

Error unsupported_config(const std::string& where, const std::string& what) {
  return Error{ErrorCode::kUnsupported, where + ": " + what};
}

Error unknown_architecture(const std::string& where, std::string_view name) {
  return unsupported_config(where, "architecture " + files::in_quotes(name) +
                                       " is not supported; munia computes " +
                                       supported_architectures());
}

const json::value* ConfigKeys::find(std::string_view key) const {
  const json::value* value = object_.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<std::int64_t> ConfigKeys::get_int(std::string_view key,
                                         std::optional<std::int64_t> fallback) const {
  const json::value* value = find(key);
  if (value == nullptr) {
    if (fallback) return *fallback;
    return bad_config(where_, "\"" + std::string(key) + "\" is missing");
  }
  if (const std::int64_t* number = value->if_int64()) return *number;
  return bad_config(where_, "\"" + std::string(key) + "\" is not a whole number");
}

Result<double> ConfigKeys::get_number(std::string_view key, std::optional<double> fallback) const {
  const json::value* value = find(key);
  if (value == nullptr) {
    if (fallback) return *fallback;
    return bad_config(where_, "\"" + std::string(key) + "\" is missing");
  }
  if (value->is_number()) return value->to_number<double>();
  return bad_config(where_, "\"" + std::string(key) + "\" is not a number");
}

Result<float> ConfigKeys::get_float(std::string_view key, std::optional<float> fallback) const {
  const std::optional<double> wide =
      fallback ? std::optional<double>(static_cast<double>(*fallback)) : std::nullopt;
  MUNIA_ASSIGN_OR_RETURN(const double value, get_number(key, wide));
  return static_cast<float>(value);
}

Result<bool> ConfigKeys::get_bool(std::string_view key, bool fallback) const {
  const json::value* value = find(key);
  if (value == nullptr) return fallback;
  if (const bool* flag = value->if_bool()) return *flag;
  return bad_config(where_, "\"" + std::string(key) + "\" is neither true nor false");
}

Result<std::string> ConfigKeys::get_string(std::string_view key, std::string_view fallback) const {
  const json::value* value = find(key);
  if (value == nullptr) return std::string(fallback);
  if (const json::string* text = value->if_string()) return std::string(text->c_str());
  return bad_config(where_, "\"" + std::string(key) + "\" is not a string");
}

Status add_eos_ids(const json::value& value, const std::string& where, ModelConfig& config) {
  json::array ids;
  if (value.is_array()) {
    ids = value.get_array();
  } else {
    ids.push_back(value);
  }
  for (const json::value& id : ids) {
    const std::int64_t* number = id.if_int64();
    if (number == nullptr || *number < 0 || *number > std::numeric_limits<std::int32_t>::max()) {
      return bad_config(where, "\"eos_token_id\" is neither a token id nor a list of them");
    }
    const auto eos = static_cast<std::int32_t>(*number);
    if (std::find(config.eos_ids.begin(), config.eos_ids.end(), eos) == config.eos_ids.end()) {
      config.eos_ids.push_back(eos);
    }
  }
  return {};
}

Status end_context_with_window(const std::string& where, std::int64_t window, ModelConfig& config) {
  if (window < 1) {
    return bad_config(where, "the attention window is " + std::to_string(window) +
                                 " positions; it must be at least 1");
  }
  config.context_length = std::min(config.context_length, window);
  return {};
}

namespace {

Status check_rope(const ModelConfig& c, const std::string& where) {
  if (!(c.rope_theta >= 1) || !std::isfinite(c.rope_theta)) {
    return bad_config(where,
                      "rope base " + std::to_string(c.rope_theta) + " is not a number from 1 on");
  }
  const std::int64_t n_pairs = c.head_dim / 2;
  if (c.rope_inv_freq.empty()) return {};
  if (static_cast<std::int64_t>(c.rope_inv_freq.size()) != n_pairs) {
    return bad_config(where, std::to_string(c.rope_inv_freq.size()) +
                                 " rope frequencies for heads of " + std::to_string(c.head_dim) +
                                 "; expected " + std::to_string(n_pairs));
  }
  constexpr float kMax = 64;  // radians a position; those of every known model are at most 1
  for (const float frequency : c.rope_inv_freq) {
    if (!(frequency > 0) || frequency > kMax) {
      return bad_config(where, "scaled rope frequency " + std::to_string(frequency) +
                                   " is not above 0 and at most 64");
    }
  }
  return {};
}

}  // namespace

Status check_config(const ModelConfig& c, const std::string& where) {
  struct Bound {
    const char* name;
    std::int64_t value, max;
  };
  for (const Bound& bound :
       {Bound{"number of layers", c.n_layers, 1024}, Bound{"hidden size", c.hidden_dim, 65536},
        Bound{"feed-forward size", c.ffn_dim, 524288}, Bound{"number of heads", c.n_heads, 1024},
        Bound{"number of KV heads", c.n_kv_heads, 1024}, Bound{"head size", c.head_dim, 1024},
        Bound{"vocabulary size", c.vocab_size, 4194304},
        Bound{"context length", c.context_length, 16777216}}) {
    if (bound.value < 1 || bound.value > bound.max) {
      return bad_config(where, std::string(bound.name) + " is " + std::to_string(bound.value) +
                                   "; munia takes 1 to " + std::to_string(bound.max));
    }
  }
  if (c.n_heads % c.n_kv_heads != 0) {
    return bad_config(where, std::to_string(c.n_heads) + " heads cannot be shared by " +
                                 std::to_string(c.n_kv_heads) + " KV heads");
  }
  if (c.head_dim % kernels::kPanelRows != 0) {
    return bad_config(where,
                      "head size " + std::to_string(c.head_dim) + " is not a multiple of 16");
  }
  MUNIA_RETURN_IF_ERROR(check_rope(c, where));
  if (!(c.rms_norm_eps > 0) || !std::isfinite(c.rms_norm_eps)) {
    return bad_config(where, "norm epsilon " + std::to_string(c.rms_norm_eps) + " is not positive");
  }
  return {};
}

}  // namespace munia::model
