// Qwen2: Qwen1.5, Qwen2 and Qwen2.5. A pre-norm decoder with biases on q, k and v.
#include "model/architecture.h"
#include "model/forward.h"

namespace munia::model {

const Architecture kQwen2 = {
    .name = "qwen2",
    .hf_class = "Qwen2ForCausalLM",
    .gguf_name = "qwen2",
    .qkv_bias = true,
    .qk_norm = false,
    .default_head_dim = 0,
    .read_window = read_switched_window,
    .gguf_qk_row = nullptr,
    .block = decoder_block,
    .last_block = last_decoder_block,
};

}  // namespace munia::model
