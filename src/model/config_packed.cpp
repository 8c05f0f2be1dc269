// The part "config" of a packed file, JSON, written and read.
// "rope_theta" is absent where "rope_inv_freq" has scaled frequencies, so that a program that does
// not know them refuses the file.
#include <boost/json.hpp>

#include "model/architecture.h"
#include "model/config.h"
#include "model/config_keys.h"

namespace munia::model {

namespace json = boost::json;

std::string config_to_packed(const ModelConfig& c) {
  json::array eos_ids;
  for (const std::int32_t id : c.eos_ids) eos_ids.push_back(id);
  json::array inv_freq;
  for (const float frequency : c.rope_inv_freq) inv_freq.push_back(frequency);
  const bool scaled = !c.rope_inv_freq.empty();
  const json::object object{{"architecture", c.architecture},
                            {"n_layers", c.n_layers},
                            {"hidden_dim", c.hidden_dim},
                            {"ffn_dim", c.ffn_dim},
                            {"n_heads", c.n_heads},
                            {"n_kv_heads", c.n_kv_heads},
                            {"head_dim", c.head_dim},
                            {"vocab_size", c.vocab_size},
                            {"context_length", c.context_length},
                            {scaled ? "rope_inv_freq" : "rope_theta",
                             scaled ? json::value(std::move(inv_freq)) : json::value(c.rope_theta)},
                            {"rms_norm_eps", c.rms_norm_eps},
                            {"tied_embeddings", c.tied_embeddings},
                            {"eos_ids", std::move(eos_ids)}};
  return json::serialize(object);
}

namespace {

Status read_rope(const ConfigKeys& keys, ModelConfig& config) {
  const json::value* frequencies = keys.find("rope_inv_freq");
  if (frequencies == nullptr) {
    MUNIA_ASSIGN_OR_RETURN(config.rope_theta, keys.get_float("rope_theta", {}));
    return {};
  }
  const json::array* list = frequencies->if_array();
  if (list == nullptr || list->empty()) {
    return bad_config(keys.where(), "\"rope_inv_freq\" is not a list of numbers");
  }
  for (const json::value& frequency : *list) {
    if (!frequency.is_number()) {
      return bad_config(keys.where(), "\"rope_inv_freq\" is not a list of numbers");
    }
    config.rope_inv_freq.push_back(static_cast<float>(frequency.to_number<double>()));
  }
  return {};
}

}  // namespace

Result<ModelConfig> config_from_packed(const files::MuniaFile& file) {
  const std::string& where = file.name();
  const files::MuniaPart* part = file.find("config");
  if (part == nullptr) return bad_config(where, "the part \"config\" is missing");
  const std::span<const std::byte> bytes = file.bytes(*part);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  if (error || !value.is_object()) {
    return bad_config(where, "its configuration is not a JSON object");
  }
  const ConfigKeys keys(value.get_object(), where);
  ModelConfig config;
  MUNIA_ASSIGN_OR_RETURN(config.architecture, keys.get_string("architecture", ""));
  const Architecture* architecture = find_architecture(config.architecture);
  if (architecture == nullptr || architecture->name != config.architecture) {
    return unknown_architecture(where, config.architecture);
  }
  MUNIA_ASSIGN_OR_RETURN(config.n_layers, keys.get_int("n_layers", {}));
  MUNIA_ASSIGN_OR_RETURN(config.hidden_dim, keys.get_int("hidden_dim", {}));
  MUNIA_ASSIGN_OR_RETURN(config.ffn_dim, keys.get_int("ffn_dim", {}));
  MUNIA_ASSIGN_OR_RETURN(config.n_heads, keys.get_int("n_heads", {}));
  MUNIA_ASSIGN_OR_RETURN(config.n_kv_heads, keys.get_int("n_kv_heads", {}));
  MUNIA_ASSIGN_OR_RETURN(config.head_dim, keys.get_int("head_dim", {}));
  MUNIA_ASSIGN_OR_RETURN(config.vocab_size, keys.get_int("vocab_size", {}));
  MUNIA_ASSIGN_OR_RETURN(config.context_length, keys.get_int("context_length", {}));
  MUNIA_RETURN_IF_ERROR(read_rope(keys, config));
  MUNIA_ASSIGN_OR_RETURN(config.rms_norm_eps, keys.get_float("rms_norm_eps", {}));
  MUNIA_ASSIGN_OR_RETURN(config.tied_embeddings, keys.get_bool("tied_embeddings", true));
  if (const json::value* eos = keys.find("eos_ids")) {
    MUNIA_RETURN_IF_ERROR(add_eos_ids(*eos, where, config));
  }
  MUNIA_RETURN_IF_ERROR(check_config(config, where));
  return config;
}

}  // namespace munia::model
