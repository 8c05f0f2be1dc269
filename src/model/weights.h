// The weights of a model, packed for the kernels in one arena (huge pages where possible). The
// files' bytes are streamed through and dropped: there is never a second whole copy. Weights of a
// packed file need no packing: they are copied into the arena or used where the file is mapped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "files/munia_file.h"
#include "files/tensor_file.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/head.h"
#include "model/weight_mode.h"

namespace munia::model {

class InputMoments;

/// A linear layer y = W x + b.
struct Linear {
  kernels::PackedMatrix w;  // [n_out, n_in]
  std::vector<float> bias;  // [n_out] or empty
  const float* bias_or_null() const { return bias.empty() ? nullptr : bias.data(); }
};

struct LayerWeights {
  std::vector<float> attn_norm;  // [hidden_dim]
  Linear q;                      // [n_heads*head_dim, hidden_dim]
  Linear k;                      // [n_kv_heads*head_dim, hidden_dim]
  Linear v;                      // [n_kv_heads*head_dim, hidden_dim]
  std::vector<float> q_norm;     // [head_dim], or empty: Architecture::qk_norm
  std::vector<float> k_norm;     // the same
  Linear o;                      // [hidden_dim, n_heads*head_dim]
  std::vector<float> ffn_norm;   // [hidden_dim]
  Linear gate;                   // [ffn_dim, hidden_dim]
  Linear up;                     // [ffn_dim, hidden_dim]
  Linear down;                   // [hidden_dim, ffn_dim]
};

struct Weights {
  kernels::PackedMatrix embedding;   // [vocab_size, hidden_dim]
  kernels::PackedMatrix head;        // [vocab_size, hidden_dim]; the embedding's bytes when tied
  std::vector<float> final_norm;     // [hidden_dim]
  std::vector<LayerWeights> layers;  // [n_layers]
  AlignedBuffer arena;               // all packed matrices, or empty when they are mapped
  std::shared_ptr<const files::MuniaFile> file;  // what mapped matrices borrow from
  std::size_t size_bytes = 0;                    // of all packed matrices
  std::string types;                             // "BF16" or, for a mixed file, "Q4_K+Q6_K+Q5_0"
  WeightMode mode = WeightMode::kExact;
};

/// Weights::types of these matrices: each type once, in the order of their names.
std::string types_of(std::span<kernels::PackedMatrix* const> matrices);

/// How an architecture finds its tensors: the names of one container and the order of its rows.
struct TensorSource {
  /// The tensor of a role ("q", "ffn_norm", "embedding", …; `layer` < 0 outside the blocks) with
  /// suffix "weight" or "bias", or nullptr.
  std::function<const files::TensorView*(const std::string& role, std::int64_t layer,
                                         const std::string& suffix)>
      find;
  /// The container's name of it, for messages.
  std::function<std::string(const std::string& role, std::int64_t layer, const std::string& suffix)>
      name;
  /// Tells that a tensor's bytes are not needed any more.
  std::function<void(const files::TensorView&)> drop;
  /// Row of the container that holds row `row` of q or k (GGUF of the llama architecture permutes
  /// them within each head).
  std::int64_t (*qk_row)(std::int64_t row, std::int64_t head_dim) = nullptr;
};

/// Loads and packs all tensors of a decoder of this family (q, k, v with optional bias), in the
/// form that `mode` asks for. Errors name the tensor, its shape or type and what was expected.
Result<Weights> load_weights(const ModelConfig& config, const TensorSource& source, WeightMode mode,
                             const kernels::Kernels& kernels, ThreadPool& pool);

/// How the matrices of a packed file come into memory.
enum class LoadWay {
  kCopy,  // into huge pages of this process, by all threads: fastest to compute with
  kMap,   // not at all: pages of the file, shared by all processes that map it; starts at once
};

/// Weights of a packed file. Errors name the file and the part. A file of exact weights also gives
/// those of another mode (then they are copied, whatever `way`); no mode: the file's own.
Result<Weights> weights_from_packed(const ModelConfig& config,
                                    const std::shared_ptr<const files::MuniaFile>& file,
                                    LoadWay way, std::optional<WeightMode> mode,
                                    const kernels::Kernels& kernels, ThreadPool& pool);
/// `exact` weights, wherever they lie, in the form of `mode`, in an arena. `moments` of the inputs
/// of these layers, and the `damping` of their spread, make INT4 weights better.
Weights quantized_weights(const Weights& exact, WeightMode mode, const InputMoments& moments,
                          double damping, const kernels::Kernels& kernels, ThreadPool& pool);
/// Announces all parts of `weights`, whose bytes must stay until the writer has written.
void add_weights(const ModelConfig& config, const Weights& weights, files::MuniaFileWriter& writer);
/// The same for the 8-bit copy of the head (nothing where there is none).
void add_head_screen(const HeadScreen& screen, files::MuniaFileWriter& writer);
/// The copy that `mode` asks for: the file's, or made from `head` where the file has none of this
/// form.
Result<HeadScreen> head_screen_from_packed(const files::MuniaFile& file, LoadWay way,
                                           const kernels::PackedMatrix& head, HeadMode mode,
                                           const kernels::Kernels& kernels, ThreadPool& pool);
/// Compares the sums of all parts of the file, with all threads; names the first that differs.
Status verify_packed(const files::MuniaFile& file, ThreadPool& pool);

}  // namespace munia::model
