// Llama: Llama 2 and 3, SmolLM2, TinyLlama, Yi, DeepSeek LLM and all else that calls itself
// LlamaForCausalLM; in GGUF, Mistral too. A pre-norm decoder, mostly without biases; rope scaling
// is the configuration's (rope.h).
#include "model/architecture.h"
#include "model/forward.h"

namespace munia::model {
namespace {

// GGUF stores each head's q and k rows with the two rotary halves interleaved: the row of half p
// and index j within the head stands at 2 * j + p.
std::int64_t interleaved_row(std::int64_t row, std::int64_t head_dim) {
  const std::int64_t in_head = row % head_dim;
  const std::int64_t half = head_dim / 2;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

}  // namespace

const Architecture kLlama = {
    .name = "llama",
    .hf_class = "LlamaForCausalLM",
    .gguf_name = "llama",
    .qkv_bias = false,
    .qk_norm = false,
    .default_head_dim = 0,
    .read_window = nullptr,
    .gguf_qk_row = interleaved_row,
    .block = decoder_block,
    .last_block = last_decoder_block,
};

}  // namespace munia::model
