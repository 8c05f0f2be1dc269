// The shape of a model, under this project's own names; Hugging Face's (config.cpp) and GGUF's
// (config_gguf.cpp) are mapped there and nowhere else. Everything is checked against bounds, since
// it comes from files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "files/gguf.h"
#include "files/munia_file.h"

namespace munia::model {

struct ModelConfig {
  std::string architecture;  // Architecture::name: "qwen2", "llama", …
  std::int64_t n_layers = 0;
  std::int64_t hidden_dim = 0;
  std::int64_t ffn_dim = 0;
  std::int64_t n_heads = 0;
  std::int64_t n_kv_heads = 0;  // divides n_heads
  std::int64_t head_dim = 0;    // multiple of 16
  std::int64_t vocab_size = 0;  // rows of the embedding
  // Positions that the model was made for; not more than its attention window, if it has one.
  std::int64_t context_length = 0;
  float rope_theta = 10000;
  std::vector<float> rope_inv_freq;  // [head_dim/2] radians a position; empty: rope_theta's own
  float rms_norm_eps = 1e-6F;
  bool tied_embeddings = true;  // the head is the embedding
  // What a directory must hold; elsewhere, biases are taken where the file has them.
  bool attention_bias = false;        // of q, k, v and o
  bool mlp_bias = false;              // of gate, up and down
  std::vector<std::int32_t> eos_ids;  // from the model's own files; the engine adds the turn end
};

/// From `dir`/config.json and, where present, generation_config.json (end tokens only).
/// An architecture, activation or rope variant that munia does not compute is an Error naming it.
Result<ModelConfig> config_from_directory(const std::string& dir);
/// From the metadata of a GGUF file.
Result<ModelConfig> config_from_gguf(const files::GgufFile& file);
/// The form in which a packed file keeps it (the part "config", JSON), and back.
std::string config_to_packed(const ModelConfig& config);
Result<ModelConfig> config_from_packed(const files::MuniaFile& file);

}  // namespace munia::model
