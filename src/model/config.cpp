#include "model/config.h"

#include <boost/json.hpp>
#include <cmath>
#include <limits>
#include <optional>

#include "base/mapped_file.h"
#include "model/architecture.h"

namespace munia::model {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20;

Error bad(const std::string& where, const std::string& what) {
  return Error{ErrorCode::kInvalidData, where + ": " + what};
}

// Bounds far above any model of this class; they keep every later product within 63 bits.
Status check(const ModelConfig& c, const std::string& where) {
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
      return bad(where, std::string(bound.name) + " is " + std::to_string(bound.value) +
                            "; munia takes 1 to " + std::to_string(bound.max));
    }
  }
  if (c.n_heads % c.n_kv_heads != 0) {
    return bad(where, std::to_string(c.n_heads) + " heads cannot be shared by " +
                          std::to_string(c.n_kv_heads) + " KV heads");
  }
  if (c.head_dim % kernels::kPanelRows != 0) {
    return bad(where, "head size " + std::to_string(c.head_dim) + " is not a multiple of 16");
  }
  if (!(c.rope_theta > 0) || !std::isfinite(c.rope_theta)) {
    return bad(where, "rope base " + std::to_string(c.rope_theta) + " is not a positive number");
  }
  if (!(c.rms_norm_eps > 0) || !std::isfinite(c.rms_norm_eps)) {
    return bad(where, "norm epsilon " + std::to_string(c.rms_norm_eps) + " is not positive");
  }
  return {};
}

// Typed access to one JSON file's keys; null counts as absent, as in Hugging Face's files.
class Keys {
 public:
  Keys(const json::object& object, std::string where) : object_(object), where_(std::move(where)) {}

  const json::value* find(std::string_view key) const {
    const json::value* value = object_.if_contains(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  Result<std::int64_t> get_int(std::string_view key, std::optional<std::int64_t> fallback) const {
    const json::value* value = find(key);
    if (value == nullptr) {
      if (fallback) return *fallback;
      return bad(where_, "\"" + std::string(key) + "\" is missing");
    }
    if (const std::int64_t* number = value->if_int64()) return *number;
    return bad(where_, "\"" + std::string(key) + "\" is not a whole number");
  }

  Result<float> get_float(std::string_view key, std::optional<float> fallback) const {
    const json::value* value = find(key);
    if (value == nullptr) {
      if (fallback) return *fallback;
      return bad(where_, "\"" + std::string(key) + "\" is missing");
    }
    if (value->is_number()) return static_cast<float>(value->to_number<double>());
    return bad(where_, "\"" + std::string(key) + "\" is not a number");
  }

  Result<bool> get_bool(std::string_view key, bool fallback) const {
    const json::value* value = find(key);
    if (value == nullptr) return fallback;
    if (const bool* flag = value->if_bool()) return *flag;
    return bad(where_, "\"" + std::string(key) + "\" is neither true nor false");
  }

  Result<std::string> get_string(std::string_view key, std::string_view fallback) const {
    const json::value* value = find(key);
    if (value == nullptr) return std::string(fallback);
    if (const json::string* text = value->if_string()) return std::string(text->c_str());
    return bad(where_, "\"" + std::string(key) + "\" is not a string");
  }

 private:
  const json::object& object_;
  std::string where_;
};

Result<json::value> parse_json_object(const std::string& path) {
  MUNIA_ASSIGN_OR_RETURN(const std::string content, read_file(path, kMaxConfigBytes));
  boost::system::error_code error;
  json::value value = json::parse(content, error);
  if (error) return bad(path, "it is not JSON (" + error.message() + ")");
  if (!value.is_object()) return bad(path, "it is not a JSON object");
  return value;
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
      return bad(where, "\"eos_token_id\" is neither a token id nor a list of them");
    }
    const auto eos = static_cast<std::int32_t>(*number);
    if (std::find(config.eos_ids.begin(), config.eos_ids.end(), eos) == config.eos_ids.end()) {
      config.eos_ids.push_back(eos);
    }
  }
  return {};
}

// Rope base and scaling stand in different places of old and new files.
Status read_rope(const Keys& keys, const std::string& where, ModelConfig& config) {
  MUNIA_ASSIGN_OR_RETURN(config.rope_theta, keys.get_float("rope_theta", 10000.0F));
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const json::value* value = keys.find(name);
    if (value == nullptr) continue;
    if (!value->is_object()) return bad(where, std::string("\"") + name + "\" is not an object");
    const Keys rope(value->get_object(), where + " " + name);
    MUNIA_ASSIGN_OR_RETURN(config.rope_theta, rope.get_float("rope_theta", config.rope_theta));
    MUNIA_ASSIGN_OR_RETURN(const std::string old_type, rope.get_string("type", "default"));
    MUNIA_ASSIGN_OR_RETURN(const std::string type, rope.get_string("rope_type", old_type));
    if (type != "default") {
      return Error{ErrorCode::kUnsupported,
                   where + ": rope scaling \"" + type + "\" is not supported, only \"default\""};
    }
  }
  return {};
}

Result<const Architecture*> read_architecture(const json::object& object, const Keys& keys,
                                              const std::string& where) {
  MUNIA_ASSIGN_OR_RETURN(std::string name, keys.get_string("model_type", ""));
  if (const json::value* list = object.if_contains("architectures");
      list != nullptr && list->is_array() && !list->get_array().empty() &&
      list->get_array()[0].is_string()) {
    name = list->get_array()[0].get_string().c_str();
  }
  const Architecture* architecture = find_architecture(name);
  if (architecture == nullptr) {
    return Error{ErrorCode::kUnsupported, where + ": architecture \"" + name +
                                              "\" is not supported; munia runs " +
                                              supported_architectures()};
  }
  return architecture;
}

}  // namespace

Result<ModelConfig> config_from_directory(const std::string& dir) {
  const std::string where = dir + "/config.json";
  MUNIA_ASSIGN_OR_RETURN(const json::value value, parse_json_object(where));
  const json::object& object = value.get_object();
  const Keys keys(object, where);
  MUNIA_ASSIGN_OR_RETURN(const Architecture* architecture, read_architecture(object, keys, where));

  ModelConfig config;
  config.architecture = architecture->name;
  MUNIA_ASSIGN_OR_RETURN(config.n_layers, keys.get_int("num_hidden_layers", {}));
  MUNIA_ASSIGN_OR_RETURN(config.hidden_dim, keys.get_int("hidden_size", {}));
  MUNIA_ASSIGN_OR_RETURN(config.ffn_dim, keys.get_int("intermediate_size", {}));
  MUNIA_ASSIGN_OR_RETURN(config.n_heads, keys.get_int("num_attention_heads", {}));
  MUNIA_ASSIGN_OR_RETURN(config.n_kv_heads, keys.get_int("num_key_value_heads", config.n_heads));
  MUNIA_ASSIGN_OR_RETURN(config.vocab_size, keys.get_int("vocab_size", {}));
  MUNIA_ASSIGN_OR_RETURN(config.context_length, keys.get_int("max_position_embeddings", {}));
  const std::int64_t default_head_dim = config.n_heads > 0 ? config.hidden_dim / config.n_heads : 0;
  MUNIA_ASSIGN_OR_RETURN(config.head_dim, keys.get_int("head_dim", default_head_dim));
  MUNIA_ASSIGN_OR_RETURN(config.rms_norm_eps, keys.get_float("rms_norm_eps", 1e-6F));
  MUNIA_ASSIGN_OR_RETURN(config.tied_embeddings, keys.get_bool("tie_word_embeddings", false));
  MUNIA_RETURN_IF_ERROR(read_rope(keys, where, config));

  MUNIA_ASSIGN_OR_RETURN(const std::string activation, keys.get_string("hidden_act", "silu"));
  if (activation != "silu") {
    return Error{ErrorCode::kUnsupported,
                 where + ": activation \"" + activation + "\" is not supported, only \"silu\""};
  }
  MUNIA_ASSIGN_OR_RETURN(const bool sliding, keys.get_bool("use_sliding_window", false));
  if (sliding) {
    return Error{ErrorCode::kUnsupported, where + ": sliding-window attention is not supported"};
  }
  MUNIA_ASSIGN_OR_RETURN(const bool mlp_bias, keys.get_bool("mlp_bias", false));
  if (mlp_bias) {
    return Error{ErrorCode::kUnsupported, where + ": biases in the MLP are not supported"};
  }

  if (const json::value* eos = keys.find("eos_token_id")) {
    MUNIA_RETURN_IF_ERROR(add_eos_ids(*eos, where, config));
  }
  const std::string generation = dir + "/generation_config.json";
  if (Result<json::value> extra = parse_json_object(generation)) {
    if (const json::value* eos = Keys(extra->get_object(), generation).find("eos_token_id")) {
      MUNIA_RETURN_IF_ERROR(add_eos_ids(*eos, generation, config));
    }
  } else if (extra.error().code != ErrorCode::kNotFound) {
    return extra.error();
  }
  MUNIA_RETURN_IF_ERROR(check(config, where));
  return config;
}

Result<ModelConfig> config_from_gguf(const files::GgufFile& file) {
  const std::string& where = file.path();
  MUNIA_ASSIGN_OR_RETURN(const std::string name, file.get_string("general.architecture"));
  const Architecture* architecture = find_architecture(name);
  if (architecture == nullptr) {
    return Error{ErrorCode::kUnsupported, where + ": architecture \"" + name +
                                              "\" is not supported; munia runs " +
                                              supported_architectures()};
  }
  const std::string prefix = name + ".";
  ModelConfig config;
  config.architecture = name;
  MUNIA_ASSIGN_OR_RETURN(config.n_layers, file.get_int(prefix + "block_count"));
  MUNIA_ASSIGN_OR_RETURN(config.hidden_dim, file.get_int(prefix + "embedding_length"));
  MUNIA_ASSIGN_OR_RETURN(config.ffn_dim, file.get_int(prefix + "feed_forward_length"));
  MUNIA_ASSIGN_OR_RETURN(config.n_heads, file.get_int(prefix + "attention.head_count"));
  MUNIA_ASSIGN_OR_RETURN(config.n_kv_heads,
                         file.get_int(prefix + "attention.head_count_kv", config.n_heads));
  MUNIA_ASSIGN_OR_RETURN(config.context_length, file.get_int(prefix + "context_length"));
  const std::int64_t default_head_dim = config.n_heads > 0 ? config.hidden_dim / config.n_heads : 0;
  MUNIA_ASSIGN_OR_RETURN(config.head_dim,
                         file.get_int(prefix + "attention.key_length", default_head_dim));
  MUNIA_ASSIGN_OR_RETURN(const std::int64_t rotated,
                         file.get_int(prefix + "rope.dimension_count", config.head_dim));
  MUNIA_ASSIGN_OR_RETURN(const double theta, file.get_float(prefix + "rope.freq_base", 10000.0));
  MUNIA_ASSIGN_OR_RETURN(const double eps,
                         file.get_float(prefix + "attention.layer_norm_rms_epsilon"));
  MUNIA_ASSIGN_OR_RETURN(const std::string scaling,
                         file.get_string(prefix + "rope.scaling.type", "none"));
  config.rope_theta = static_cast<float>(theta);
  config.rms_norm_eps = static_cast<float>(eps);
  if (scaling != "none") {
    return Error{ErrorCode::kUnsupported,
                 where + ": rope scaling \"" + scaling + "\" is not supported"};
  }
  if (file.find_tensor("rope_freqs.weight") != nullptr) {
    return Error{ErrorCode::kUnsupported,
                 where + ": rope frequency factors (rope_freqs.weight) are not supported"};
  }
  if (rotated != config.head_dim) {
    return Error{ErrorCode::kUnsupported, where + ": rotating " + std::to_string(rotated) + " of " +
                                              std::to_string(config.head_dim) +
                                              " head dimensions is not supported"};
  }
  const files::TensorView* embedding =
      file.find_tensor(gguf_tensor_name("embedding", -1, "weight"));
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return bad(where, "tensor token_embd.weight is missing or not a matrix");
  }
  config.vocab_size = embedding->shape[0];
  config.tied_embeddings = file.find_tensor(gguf_tensor_name("head", -1, "weight")) == nullptr;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    MUNIA_ASSIGN_OR_RETURN(const std::int64_t eos, file.get_int(key, -1));
    if (eos >= 0 && eos < config.vocab_size) {
      MUNIA_RETURN_IF_ERROR(add_eos_ids(json::value(eos), where, config));
    }
  }
  MUNIA_RETURN_IF_ERROR(check(config, where));
  return config;
}

std::string config_to_packed(const ModelConfig& c) {
  json::array eos_ids;
  for (const std::int32_t id : c.eos_ids) eos_ids.push_back(id);
  const json::object object{{"architecture", c.architecture},
                            {"n_layers", c.n_layers},
                            {"hidden_dim", c.hidden_dim},
                            {"ffn_dim", c.ffn_dim},
                            {"n_heads", c.n_heads},
                            {"n_kv_heads", c.n_kv_heads},
                            {"head_dim", c.head_dim},
                            {"vocab_size", c.vocab_size},
                            {"context_length", c.context_length},
                            {"rope_theta", c.rope_theta},
                            {"rms_norm_eps", c.rms_norm_eps},
                            {"tied_embeddings", c.tied_embeddings},
                            {"eos_ids", std::move(eos_ids)}};
  return json::serialize(object);
}

Result<ModelConfig> config_from_packed(const files::MuniaFile& file) {
  const std::string& where = file.name();
  const files::MuniaPart* part = file.find("config");
  if (part == nullptr) return bad(where, "the part \"config\" is missing");
  const std::span<const std::byte> bytes = file.bytes(*part);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  if (error || !value.is_object()) return bad(where, "its configuration is not a JSON object");
  const Keys keys(value.get_object(), where);
  ModelConfig config;
  MUNIA_ASSIGN_OR_RETURN(config.architecture, keys.get_string("architecture", ""));
  const Architecture* architecture = find_architecture(config.architecture);
  if (architecture == nullptr || architecture->name != config.architecture) {
    return Error{ErrorCode::kUnsupported, where + ": architecture \"" + config.architecture +
                                              "\" is not supported; munia computes " +
                                              supported_architectures()};
  }
  MUNIA_ASSIGN_OR_RETURN(config.n_layers, keys.get_int("n_layers", {}));
  MUNIA_ASSIGN_OR_RETURN(config.hidden_dim, keys.get_int("hidden_dim", {}));
  MUNIA_ASSIGN_OR_RETURN(config.ffn_dim, keys.get_int("ffn_dim", {}));
  MUNIA_ASSIGN_OR_RETURN(config.n_heads, keys.get_int("n_heads", {}));
  MUNIA_ASSIGN_OR_RETURN(config.n_kv_heads, keys.get_int("n_kv_heads", {}));
  MUNIA_ASSIGN_OR_RETURN(config.head_dim, keys.get_int("head_dim", {}));
  MUNIA_ASSIGN_OR_RETURN(config.vocab_size, keys.get_int("vocab_size", {}));
  MUNIA_ASSIGN_OR_RETURN(config.context_length, keys.get_int("context_length", {}));
  MUNIA_ASSIGN_OR_RETURN(config.rope_theta, keys.get_float("rope_theta", {}));
  MUNIA_ASSIGN_OR_RETURN(config.rms_norm_eps, keys.get_float("rms_norm_eps", {}));
  MUNIA_ASSIGN_OR_RETURN(config.tied_embeddings, keys.get_bool("tied_embeddings", true));
  if (const json::value* eos = keys.find("eos_ids")) {
    MUNIA_RETURN_IF_ERROR(add_eos_ids(*eos, where, config));
  }
  MUNIA_RETURN_IF_ERROR(check(config, where));
  return config;
}

}  // namespace munia::model
