// Qwen3 (dense): a pre-norm decoder whose heads are normed, each q and k head by itself, before
// they are rotated, and whose head size is its own (head_dim * n_heads need not be hidden_dim).
// Source: transformers, models/qwen3/modeling_qwen3.py.
#include "model/architecture.h"
#include "model/forward.h"

namespace munia::model {
namespace {

void qwen3_block(ForwardPass& pass, std::int64_t l) {
  const LayerWeights& layer = pass.layer(l);
  pass.norm(layer.attn_norm);
  pass.project_qkv(layer);
  pass.norm_queries(layer);
  pass.norm_keys(layer);
  pass.rotate_and_store(l);
  pass.attend(l);
  pass.project_attn(layer);
  pass.norm(layer.ffn_norm);
  pass.gate_and_up(layer);
  pass.project_ffn(layer);
}

// See last_decoder_block: keys and values of all rows, the rest only of rows that want logits.
void last_qwen3_block(ForwardPass& pass, std::int64_t l) {
  const LayerWeights& layer = pass.layer(l);
  pass.norm(layer.attn_norm);
  pass.project_kv(layer);
  pass.norm_keys(layer);
  pass.rotate_and_store_keys(l);
  if (!pass.keep_wanted_rows()) return;
  pass.project_q(layer);
  pass.norm_queries(layer);
  pass.rotate_queries();
  pass.attend(l);
  pass.project_attn(layer);
  pass.norm(layer.ffn_norm);
  pass.gate_and_up(layer);
  pass.project_ffn(layer);
}

}  // namespace

const Architecture kQwen3 = {
    .name = "qwen3",
    .hf_class = "Qwen3ForCausalLM",
    .gguf_name = "qwen3",
    .qkv_bias = false,
    .qk_norm = true,
    .default_head_dim = 128,
    .read_window = read_switched_window,
    .gguf_qk_row = nullptr,
    .block = qwen3_block,
    .last_block = last_qwen3_block,
};

}  // namespace munia::model
