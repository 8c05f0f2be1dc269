// A loaded model: configuration, packed weights and the forward pass over a ragged batch. Immutable
// after loading; forward() writes only to the KV caches of the batch and to Activations.
// Knows no text: ids in, logits out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "files/gguf.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/head.h"
#include "model/kv_cache.h"
#include "model/weights.h"

namespace munia::model {

struct Architecture;
class InputMoments;

/// New tokens of one sequence. They stand at positions kv->n_tokens() … and see all before them.
struct SequenceSlice {
  KvCache* kv = nullptr;                 // reserve()d for tokens.size() by the caller
  std::span<const std::int32_t> tokens;  // ids in [0, vocab_size)
  std::vector<LogitRow> logit_rows;      // whose logits are wanted, by rising index
};

/// A copy of the hidden state behind a layer: layer 0 is the embedding, n_layers the last block's
/// output before the final norm.
struct HiddenTap {
  std::int64_t layer = 0;
  float* out = nullptr;  // [n_tokens of the batch, hidden_dim] f32
};

/// Is shown what the linear layers are multiplied with. Layers that share their input are shown as
/// the first of them: q, o, gate, down.
class InputObserver {
 public:
  /// x [n_rows, layer.w.n_cols] f32, row-major.
  virtual void see(const Linear& layer, const float* x, std::int64_t n_rows, ThreadPool& pool) = 0;

 protected:
  virtual ~InputObserver() = default;
};

/// Sequences that are computed in one pass. No padding: token t of the batch is a row.
struct Batch {
  std::vector<SequenceSlice> sequences;
  std::vector<HiddenTap> taps;
  /// The first so many blocks only: no logits may be wanted, taps end there, and later layers get
  /// no keys and values, so the sequences can be continued only as far.
  std::optional<std::int64_t> n_blocks = std::nullopt;
  InputObserver* observer = nullptr;  // of every layer's inputs, all rows
};

/// Tokens of one attention job: enough query rows (times n_rep, the query heads that share a KV
/// head) to reuse each page of keys.
std::int64_t attention_tile_tokens(std::int64_t n_rep);

/// All scratch of the forward pass, allocated once for the largest batch.
class Activations {
 public:
  struct Limits {
    std::int64_t max_tokens = 512;     // rows in a batch
    std::int64_t max_logit_rows = 32;  // rows that want logits
    std::int64_t max_sequences = 64;
    std::int64_t max_keys = 4096;  // longest sequence
  };
  Activations(const ModelConfig& config, const kernels::Kernels& kernels, int n_threads,
              const Limits& limits);

  const Limits& limits() const { return limits_; }
  /// Logits of the wanted rows of the last forward(), in batch order: [n_logit_rows, vocab_size].
  /// What of a row is computed: LogitRow::Want.
  std::span<float> logits(std::int64_t row) {
    return {logits_ + logit_slots_[static_cast<std::size_t>(row)] * vocab_size_,
            static_cast<std::size_t>(vocab_size_)};
  }
  /// Over all passes so far.
  const HeadCounts& head_counts() const { return head_.counts; }
  std::size_t size_bytes() const { return memory_.size_bytes(); }

 private:
  friend class ForwardPass;
  struct Row {  // one token of the batch
    KvCache* kv;
    std::int64_t pos;
    std::int32_t token;
  };
  struct WantedRow {
    std::int64_t row;  // of x
    const LogitRow* logits;
  };
  Limits limits_;
  std::int64_t vocab_size_;
  HeadScratch head_;
  AlignedBuffer memory_;
  float* x_ = nullptr;             // [n_tokens, hidden_dim] residual stream
  float* h_ = nullptr;             // [n_tokens, hidden_dim] normed input of a block half
  float* qkv_ = nullptr;           // [n_tokens, (n_heads + 2*n_kv_heads) * head_dim]
  float* attn_ = nullptr;          // [n_tokens, n_heads * head_dim]
  float* gate_ = nullptr;          // [n_tokens, ffn_dim]
  float* up_ = nullptr;            // [n_tokens, ffn_dim]
  float* gathered_ = nullptr;      // [max_logit_rows, hidden_dim] rows of x that want logits
  float* logits_ = nullptr;        // [max_logit_rows, vocab_size], by slot
  std::byte* prepared_ = nullptr;  // prepared rows of the matmul at hand
  std::byte* scratch_ = nullptr;   // [n_threads][scratch_bytes_]
  std::size_t scratch_bytes_ = 0;
  std::vector<Row> rows_;                               // [n_tokens]
  std::vector<WantedRow> wanted_;                       // [n_logit_rows] in batch order
  std::vector<std::int64_t> logit_slots_;               // [max_logit_rows] slot of a wanted row
  std::vector<const LogitRow*> head_rows_;              // [max_logit_rows] by slot
  std::vector<kernels::AttentionArgs> attention_jobs_;  // of layer 0; other layers add an offset
};

class Model {
 public:
  struct Options {
    const kernels::Kernels* kernels = nullptr;  // the rung; not null
    std::int64_t context = 0;                   // positions to prepare for; 0: min(model's, 4096)
    HeadMode head = HeadMode::kAuto;
    std::optional<WeightMode> weights = std::nullopt;  // exact, or what a packed file holds
  };
  /// Loads a Hugging Face directory or a .gguf file (opened by the caller). Packs with `pool`.
  /// Throws LoadError: what is missing, misshapen or unsupported, by tensor name.
  static std::unique_ptr<Model> load_directory(const std::string& dir, const Options& options,
                                               ThreadPool& pool);
  static std::unique_ptr<Model> load_gguf(const files::GgufFile& file, const Options& options,
                                          ThreadPool& pool);
  /// Takes the weights of a packed file as they are. The model keeps the file when they are mapped.
  static std::unique_ptr<Model> load_packed(const std::shared_ptr<const files::MuniaFile>& file,
                                            LoadWay way, const Options& options, ThreadPool& pool);

  /// `exact` with the weights of `mode`, made with what `moments` saw of `exact`, damped (INT4
  /// only). Of its head a copy is made as `head` says.
  static std::unique_ptr<Model> quantized(const Model& exact, WeightMode mode,
                                          const InputMoments& moments, double damping,
                                          HeadMode head, ThreadPool& pool);

  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  const HeadScreen& head_screen() const { return head_screen_; }
  const kernels::Kernels& kernels() const { return *kernels_; }
  std::int64_t context() const { return context_; }
  KvLayout kv_layout() const { return {config_.n_layers, config_.n_kv_heads, config_.head_dim}; }

  /// Runs the batch: writes and advances the KV caches, leaves the wanted logits in `activations`.
  /// The batch must respect activations.limits() and context().
  void forward(const Batch& batch, Activations& activations, ThreadPool& pool) const;

 private:
  friend class ForwardPass;
  Model(ModelConfig config, const Options& options);
  void load(const TensorSource& source, const Options& options, ThreadPool& pool);
  ModelConfig config_;
  const Architecture* architecture_;
  const kernels::Kernels* kernels_;
  std::int64_t context_;
  Weights weights_;
  HeadScreen head_screen_;   // of weights_.head; made last when loading
  std::vector<float> rope_;  // [context, head_dim]: cosines, then sines
};

}  // namespace munia::model
