// Mistral: Llama's computation with a window of attention. Within the window that is full
// attention, so the context ends with it (config_keys.h); models without a window have all their
// context. Converters write its GGUF files under the name "llama" and leave the window out, as
// llama.cpp does when it computes them.
#include "model/architecture.h"
#include "model/config_keys.h"
#include "model/forward.h"

namespace munia::model {
namespace {

constexpr std::int64_t kDefaultWindow = 4096;  // MistralConfig's, where the key is absent

Status read_mistral_window(const ConfigKeys& keys, ModelConfig& config) {
  if (keys.has("sliding_window") && keys.find("sliding_window") == nullptr)
    return {};  // null: none
  MUNIA_ASSIGN_OR_RETURN(const std::int64_t window, keys.get_int("sliding_window", kDefaultWindow));
  return end_context_with_window(keys.where(), window, config);
}

}  // namespace

const Architecture kMistral = {
    .name = "mistral",
    .hf_class = "MistralForCausalLM",
    .gguf_name = "",
    .qkv_bias = false,
    .qk_norm = false,
    .default_head_dim = 0,
    .read_window = read_mistral_window,
    .gguf_qk_row = nullptr,
    .block = decoder_block,
    .last_block = last_decoder_block,
};

}  // namespace munia::model
