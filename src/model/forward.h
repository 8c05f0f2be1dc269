// The forward pass as a page of named steps. Row t of every activation is one token of the ragged
// batch. A pass belongs to one call of Model::forward; nothing in it allocates, locks or throws.
#pragma once

#include <cstdint>
#include <span>

#include "model/architecture.h"
#include "model/model.h"

namespace munia::model {

class ForwardPass {
 public:
  ForwardPass(const Model& model, const Batch& batch, Activations& activations, ThreadPool& pool);

  /// Embedding, all blocks, final norm and head for the wanted rows.
  void run();

  // The steps of a block, in the order of decoder_block; q, k, v, attn, gate are rows of
  // Activations.
  void norm(std::span<const float> weight);      // h = rms_norm(x) * weight
  void project_qkv(const LayerWeights& layer);   // q, k, v = h W^T + b
  void norm_queries(const LayerWeights& layer);  // q = rms_norm(q) * q_norm, head by head (qwen3)
  void norm_keys(const LayerWeights& layer);     // k = rms_norm(k) * k_norm, head by head (qwen3)
  void rotate_and_store(std::int64_t layer);     // q, k rotated to their positions; k, v cached
  void attend(std::int64_t layer);               // attn = softmax(q k^T / sqrt(head_dim)) v
  void project_attn(const LayerWeights& layer);  // x += attn Wo^T
  void gate_and_up(const LayerWeights& layer);   // gate = silu(h Wg^T) * (h Wu^T)
  void project_ffn(const LayerWeights& layer);   // x += gate Wd^T

  // The steps that only last_decoder_block has: project_qkv and rotate_and_store in two parts.
  void project_kv(const LayerWeights& layer);      // k, v = h W^T + b
  void rotate_and_store_keys(std::int64_t layer);  // k rotated; k, v cached
  bool keep_wanted_rows();                         // x, h: rows that want logits; false: none
  void project_q(const LayerWeights& layer);       // q = h Wq^T + b
  void rotate_queries();

  const LayerWeights& layer(std::int64_t l) const {
    return model_.weights_.layers[static_cast<std::size_t>(l)];
  }

 private:
  struct MatmulJob {
    const Linear* linear;
    kernels::MatmulOutput out;
  };
  Architecture::Block block_of(std::int64_t layer) const;
  void plan();
  void plan_attention();
  void embed();
  void tap(std::int64_t layer);
  void norm_heads(std::span<const float> weight, std::int64_t column, std::int64_t n_heads);
  void rotate(std::int64_t column, std::int64_t n_heads);
  void store(std::int64_t layer);
  void compute_logits();
  void advance();
  kernels::PreparedRows prepare(std::span<const MatmulJob> jobs, const float* x);
  void matmul(std::span<const MatmulJob> jobs, const float* x);
  template <class Body>
  void for_rows(std::int64_t n_rows, const Body& body);
  std::byte* scratch(int thread) const {
    return a_.scratch_ + static_cast<std::size_t>(thread) * a_.scratch_bytes_;
  }

  const Model& model_;
  const ModelConfig& c_;
  const kernels::Kernels& k_;
  const Batch& batch_;
  Activations& a_;
  ThreadPool& pool_;
  std::int64_t n_rows_ = 0;  // of the batch; in the last block those that want logits
  std::int64_t k_column_;    // of a row of qkv: q, then k, then v
  std::int64_t v_column_;
  std::int64_t qkv_dim_;  // (n_heads + 2*n_kv_heads) * head_dim
};

/// The pre-norm block of Qwen2, Llama and Mistral.
void decoder_block(ForwardPass& pass, std::int64_t layer);
/// The same as the last block: keys and values of all rows, the rest only of rows that want logits.
void last_decoder_block(ForwardPass& pass, std::int64_t layer);

}  // namespace munia::model
