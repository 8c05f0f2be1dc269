// One record per architecture; each stands in a file of its own (qwen2.cpp, llama.cpp, …). A new
// architecture adds a file and a line in architecture.cpp, and, where its block differs, a block
// function of its own made of the same steps (forward.h; qwen3.cpp is an example).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "files/gguf.h"
#include "files/safetensors.h"
#include "model/weights.h"

namespace munia::model {

class ConfigKeys;
class ForwardPass;

struct Architecture {
  std::string_view name;       // Hugging Face's model_type
  std::string_view hf_class;   // Hugging Face's "architectures" entry
  std::string_view gguf_name;  // GGUF's general.architecture; empty: its files name another one
  bool qkv_bias;               // the projections to q, k and v carry biases in every such model
  bool qk_norm;                // each head of q and k has a norm
  /// Of a config.json without "head_dim"; 0: hidden_dim / n_heads.
  std::int64_t default_head_dim;
  /// Ends config.context_length with the window of sliding attention, where a config.json of this
  /// architecture asks for one (end_context_with_window); nullptr: it has none.
  Status (*read_window)(const ConfigKeys& keys, ModelConfig& config);
  /// Row of a GGUF file that holds row `row` of q or k; nullptr: the same row.
  std::int64_t (*gguf_qk_row)(std::int64_t row, std::int64_t head_dim);
  using Block = void (*)(ForwardPass& pass, std::int64_t layer);
  /// One transformer block of `pass` (forward.cpp, decoder_block).
  Block block;
  /// The last block where not every row wants logits (last_decoder_block); nullptr: `block`.
  Block last_block;
};

extern const Architecture kQwen2;
extern const Architecture kQwen3;
extern const Architecture kLlama;
extern const Architecture kMistral;

/// nullptr when munia does not compute it; by name, or by Hugging Face's class name.
const Architecture* find_architecture(std::string_view name_or_class);
/// The same by GGUF's general.architecture.
const Architecture* find_gguf_architecture(std::string_view gguf_name);
/// What Qwen2 and Qwen3 say of a window: "sliding_window", where "use_sliding_window" is true.
Status read_switched_window(const ConfigKeys& keys, ModelConfig& config);
/// "qwen2 (Qwen2ForCausalLM), …" for messages.
std::string supported_architectures();

/// Tensor names of Hugging Face ("model.layers.3.self_attn.q_proj.weight") and of GGUF
/// ("blk.3.attn_q.weight") for a role of weights.h.
std::string hf_tensor_name(const std::string& role, std::int64_t layer, const std::string& suffix);
std::string gguf_tensor_name(const std::string& role, std::int64_t layer,
                             const std::string& suffix);

}  // namespace munia::model
