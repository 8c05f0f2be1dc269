// Hugging Face's config.json, and the end tokens of generation_config.json.
#include "model/config.h"

#include <boost/json.hpp>
#include <cmath>
#include <optional>

#include "base/mapped_file.h"
#include "files/describe.h"
#include "model/architecture.h"
#include "model/config_keys.h"
#include "model/rope.h"

namespace munia::model {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20;

Result<json::value> parse_json_object(const std::string& path) {
  MUNIA_ASSIGN_OR_RETURN(const std::string content, read_file(path, kMaxConfigBytes));
  boost::system::error_code error;
  json::value value = json::parse(content, error);
  if (error) return bad_config(path, "it is not JSON (" + error.message() + ")");
  if (!value.is_object()) return bad_config(path, "it is not a JSON object");
  return value;
}

Result<double> positive(const ConfigKeys& keys, const char* key) {
  MUNIA_ASSIGN_OR_RETURN(const double value, keys.get_number(key, {}));
  if (value > 0 && std::isfinite(value)) return value;
  return bad_config(keys.where(), "\"" + std::string(key) + "\" is not a positive number");
}

// transformers' _compute_llama3_parameters; the original context stands beside the other
// parameters, at the top in some files, and is the whole context where it is nowhere.
Status read_llama3(const ConfigKeys& keys, const ConfigKeys& rope, ModelConfig& config) {
  Llama3Scaling scaling;
  MUNIA_ASSIGN_OR_RETURN(scaling.factor, positive(rope, "factor"));
  MUNIA_ASSIGN_OR_RETURN(scaling.low_freq_factor, positive(rope, "low_freq_factor"));
  MUNIA_ASSIGN_OR_RETURN(scaling.high_freq_factor, positive(rope, "high_freq_factor"));
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const ConfigKeys& holder = keys.find(kOriginal) != nullptr ? keys : rope;
  if (holder.find(kOriginal) != nullptr) {
    MUNIA_ASSIGN_OR_RETURN(scaling.original_context, positive(holder, kOriginal));
  } else {
    MUNIA_ASSIGN_OR_RETURN(scaling.original_context, positive(keys, "max_position_embeddings"));
  }
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    return bad_config(rope.where(), "\"high_freq_factor\" is not above \"low_freq_factor\"");
  }
  scale_llama3(scaling, config.rope_inv_freq);
  return {};
}

Status check_whole_heads(const ConfigKeys& keys) {
  MUNIA_ASSIGN_OR_RETURN(const double part, keys.get_number("partial_rotary_factor", 1.0));
  if (part == 1.0) return {};
  return unsupported_config(keys.where(),
                            "\"partial_rotary_factor\" is not 1; munia rotates whole "
                            "heads only");
}

// Rope base and scaling stand in different places of old and new files.
Status read_rope(const ConfigKeys& keys, ModelConfig& config) {
  MUNIA_ASSIGN_OR_RETURN(config.rope_theta, keys.get_float("rope_theta", 10000.0F));
  MUNIA_RETURN_IF_ERROR(check_whole_heads(keys));
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const json::value* value = keys.find(name);
    if (value == nullptr) continue;
    if (!value->is_object()) {
      return bad_config(keys.where(), std::string("\"") + name + "\" is not an object");
    }
    const ConfigKeys rope(value->get_object(), keys.where() + " " + name);
    MUNIA_ASSIGN_OR_RETURN(config.rope_theta, rope.get_float("rope_theta", config.rope_theta));
    MUNIA_RETURN_IF_ERROR(check_whole_heads(rope));
    MUNIA_ASSIGN_OR_RETURN(const std::string old_type, rope.get_string("type", "default"));
    MUNIA_ASSIGN_OR_RETURN(const std::string type, rope.get_string("rope_type", old_type));
    if (type == "default") continue;
    config.rope_inv_freq = inverse_frequencies(config.head_dim, config.rope_theta);
    if (type == "llama3") {
      MUNIA_RETURN_IF_ERROR(read_llama3(keys, rope, config));
    } else if (type == "linear") {
      MUNIA_ASSIGN_OR_RETURN(const double factor, positive(rope, "factor"));
      scale_linear(factor, config.rope_inv_freq);
    } else {
      return unsupported_config(keys.where(),
                                "rope scaling " + files::in_quotes(type) +
                                    " is not supported; munia computes default, linear and llama3");
    }
  }
  return {};
}

Result<const Architecture*> read_architecture(const json::object& object, const ConfigKeys& keys) {
  MUNIA_ASSIGN_OR_RETURN(std::string name, keys.get_string("model_type", ""));
  if (const json::value* list = object.if_contains("architectures");
      list != nullptr && list->is_array() && !list->get_array().empty() &&
      list->get_array()[0].is_string()) {
    name = list->get_array()[0].get_string().c_str();
  }
  const Architecture* architecture = find_architecture(name);
  if (architecture == nullptr) return unknown_architecture(keys.where(), name);
  return architecture;
}

Status read_end_tokens(const ConfigKeys& keys, const std::string& dir, ModelConfig& config) {
  if (const json::value* eos = keys.find("eos_token_id")) {
    MUNIA_RETURN_IF_ERROR(add_eos_ids(*eos, keys.where(), config));
  }
  const std::string path = dir + "/generation_config.json";
  const Result<json::value> extra = parse_json_object(path);
  if (!extra) {
    if (extra.error().code == ErrorCode::kNotFound) return {};
    return extra.error();
  }
  if (const json::value* eos = ConfigKeys(extra->get_object(), path).find("eos_token_id")) {
    MUNIA_RETURN_IF_ERROR(add_eos_ids(*eos, path, config));
  }
  return {};
}

}  // namespace

Result<ModelConfig> config_from_directory(const std::string& dir) {
  const std::string where = dir + "/config.json";
  MUNIA_ASSIGN_OR_RETURN(const json::value value, parse_json_object(where));
  const json::object& object = value.get_object();
  const ConfigKeys keys(object, where);
  MUNIA_ASSIGN_OR_RETURN(const Architecture* architecture, read_architecture(object, keys));

  ModelConfig config;
  config.architecture = architecture->name;
  MUNIA_ASSIGN_OR_RETURN(config.n_layers, keys.get_int("num_hidden_layers", {}));
  MUNIA_ASSIGN_OR_RETURN(config.hidden_dim, keys.get_int("hidden_size", {}));
  MUNIA_ASSIGN_OR_RETURN(config.ffn_dim, keys.get_int("intermediate_size", {}));
  MUNIA_ASSIGN_OR_RETURN(config.n_heads, keys.get_int("num_attention_heads", {}));
  MUNIA_ASSIGN_OR_RETURN(config.n_kv_heads, keys.get_int("num_key_value_heads", config.n_heads));
  MUNIA_ASSIGN_OR_RETURN(config.vocab_size, keys.get_int("vocab_size", {}));
  MUNIA_ASSIGN_OR_RETURN(config.context_length, keys.get_int("max_position_embeddings", {}));
  const std::int64_t quotient = config.n_heads > 0 ? config.hidden_dim / config.n_heads : 0;
  const std::int64_t default_head_dim =
      architecture->default_head_dim > 0 ? architecture->default_head_dim : quotient;
  MUNIA_ASSIGN_OR_RETURN(config.head_dim, keys.get_int("head_dim", default_head_dim));
  MUNIA_ASSIGN_OR_RETURN(config.rms_norm_eps, keys.get_float("rms_norm_eps", 1e-6F));
  MUNIA_ASSIGN_OR_RETURN(config.tied_embeddings, keys.get_bool("tie_word_embeddings", false));
  MUNIA_ASSIGN_OR_RETURN(config.attention_bias, keys.get_bool("attention_bias", false));
  MUNIA_ASSIGN_OR_RETURN(config.mlp_bias, keys.get_bool("mlp_bias", false));
  MUNIA_ASSIGN_OR_RETURN(const std::string activation, keys.get_string("hidden_act", "silu"));
  if (activation != "silu") {
    return unsupported_config(
        where, "activation " + files::in_quotes(activation) + " is not supported, only \"silu\"");
  }
  MUNIA_RETURN_IF_ERROR(check_config(config, where));  // what the rest is computed from
  if (architecture->read_window != nullptr) {
    MUNIA_RETURN_IF_ERROR(architecture->read_window(keys, config));
  }
  MUNIA_RETURN_IF_ERROR(read_rope(keys, config));
  MUNIA_RETURN_IF_ERROR(read_end_tokens(keys, dir, config));
  MUNIA_RETURN_IF_ERROR(check_config(config, where));
  return config;
}

}  // namespace munia::model
