// The metadata of a GGUF file.
// Source of the keys: the gguf Python package of the ggml project (gguf/constants.py); of how
// missing ones are taken: llama.cpp's loader.
#include <cstring>

#include "files/describe.h"
#include "model/architecture.h"
#include "model/config.h"
#include "model/config_keys.h"
#include "model/rope.h"

namespace munia::model {
namespace {

// Factors that each frequency is divided by: how converters write Llama 3's scaling.
Status divide_by_factors(const files::TensorView& tensor, const std::string& where,
                         ModelConfig& config) {
  const std::int64_t n_pairs = config.head_dim / 2;
  if (tensor.type != files::TensorType::kF32 ||
      tensor.shape != std::vector<std::int64_t>{n_pairs}) {
    return bad_config(where, "tensor rope_freqs.weight is not " + std::to_string(n_pairs) +
                                 " numbers of type F32");
  }
  for (std::size_t i = 0; i < config.rope_inv_freq.size(); ++i) {
    float factor = 0;
    std::memcpy(&factor, tensor.bytes.data() + i * sizeof factor, sizeof factor);
    config.rope_inv_freq[i] /= factor;  // check_config finds one that is no positive number
  }
  return {};
}

// llama.cpp takes a factor without a type as linear.
Status read_rope(const files::GgufFile& file, const std::string& prefix, ModelConfig& config) {
  const std::string& where = file.path();
  MUNIA_ASSIGN_OR_RETURN(const double theta, file.get_float(prefix + "rope.freq_base", 10000.0));
  config.rope_theta = static_cast<float>(theta);
  MUNIA_ASSIGN_OR_RETURN(const std::int64_t rotated,
                         file.get_int(prefix + "rope.dimension_count", config.head_dim));
  if (rotated != config.head_dim) {
    return unsupported_config(where, "rotating " + std::to_string(rotated) + " of " +
                                         std::to_string(config.head_dim) +
                                         " head dimensions is not supported");
  }
  MUNIA_ASSIGN_OR_RETURN(const std::string type,
                         file.get_string(prefix + "rope.scaling.type", "linear"));
  if (type != "none" && type != "linear") {
    return unsupported_config(
        where, "rope scaling " + files::in_quotes(type) +
                   " is not supported; munia computes none, linear and rope_freqs.weight (llama3)");
  }
  MUNIA_ASSIGN_OR_RETURN(const double old_factor,
                         file.get_float(prefix + "rope.scale_linear", 1.0));
  MUNIA_ASSIGN_OR_RETURN(double factor, file.get_float(prefix + "rope.scaling.factor", old_factor));
  if (type == "none" || factor == 0) factor = 1;
  const files::TensorView* factors = file.find_tensor("rope_freqs.weight");
  if (factors == nullptr && factor == 1) return {};
  config.rope_inv_freq = inverse_frequencies(config.head_dim, config.rope_theta);
  if (factors != nullptr) MUNIA_RETURN_IF_ERROR(divide_by_factors(*factors, where, config));
  if (factor != 1) scale_linear(factor, config.rope_inv_freq);
  return {};
}

}  // namespace

Result<ModelConfig> config_from_gguf(const files::GgufFile& file) {
  const std::string& where = file.path();
  MUNIA_ASSIGN_OR_RETURN(const std::string name, file.get_string("general.architecture"));
  const Architecture* architecture = find_gguf_architecture(name);
  if (architecture == nullptr) return unknown_architecture(where, name);
  const std::string prefix = name + ".";
  ModelConfig config;
  config.architecture = architecture->name;
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
  MUNIA_ASSIGN_OR_RETURN(const std::int64_t value_dim,
                         file.get_int(prefix + "attention.value_length", config.head_dim));
  if (value_dim != config.head_dim) {
    return unsupported_config(where, "keys of " + std::to_string(config.head_dim) +
                                         " and values of " + std::to_string(value_dim) +
                                         " numbers a head are not supported; they must be equal");
  }
  MUNIA_ASSIGN_OR_RETURN(const std::int64_t n_experts, file.get_int(prefix + "expert_count", 0));
  if (n_experts != 0) {
    return unsupported_config(where, "a mixture of " + std::to_string(n_experts) +
                                         " experts is not supported, only dense models");
  }
  MUNIA_ASSIGN_OR_RETURN(const double eps,
                         file.get_float(prefix + "attention.layer_norm_rms_epsilon"));
  config.rms_norm_eps = static_cast<float>(eps);
  const files::TensorView* embedding =
      file.find_tensor(gguf_tensor_name("embedding", -1, "weight"));
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return bad_config(where, "tensor token_embd.weight is missing or not a matrix");
  }
  config.vocab_size = embedding->shape[0];
  config.tied_embeddings = file.find_tensor(gguf_tensor_name("head", -1, "weight")) == nullptr;
  MUNIA_RETURN_IF_ERROR(check_config(config, where));  // what the rest is computed from
  MUNIA_ASSIGN_OR_RETURN(const std::int64_t window,
                         file.get_int(prefix + "attention.sliding_window", 0));
  if (window != 0) MUNIA_RETURN_IF_ERROR(end_context_with_window(where, window, config));
  MUNIA_RETURN_IF_ERROR(read_rope(file, prefix, config));
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    MUNIA_ASSIGN_OR_RETURN(const std::int64_t eos, file.get_int(key, -1));
    if (eos >= 0 && eos < config.vocab_size) {
      MUNIA_RETURN_IF_ERROR(add_eos_ids(boost::json::value(eos), where, config));
    }
  }
  MUNIA_RETURN_IF_ERROR(check_config(config, where));
  return config;
}

}  // namespace munia::model
