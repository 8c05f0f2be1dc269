#include "model/model.h"

#include <algorithm>
#include <utility>

#include "files/safetensors.h"
#include "model/architecture.h"
#include "model/forward.h"
#include "model/rope.h"

namespace munia::model {
namespace {

constexpr std::int64_t kDefaultContext = 4096;

std::int64_t choose_context(const ModelConfig& config, std::int64_t wanted) {
  if (wanted == 0) return std::min(config.context_length, kDefaultContext);
  if (wanted < 1 || wanted > config.context_length) {
    throw LoadError({ErrorCode::kInvalidArgument,
                     "context " + std::to_string(wanted) + " is outside 1 to " +
                         std::to_string(config.context_length) +
                         ", the positions of this model (or of its attention window)"});
  }
  return wanted;
}

template <class Container>
TensorSource source_of(const Container& container,
                       std::string (*name)(const std::string&, std::int64_t, const std::string&)) {
  TensorSource source;
  source.name = name;
  source.find = [&container, name](const std::string& role, std::int64_t layer,
                                   const std::string& suffix) {
    return container.find_tensor(name(role, layer, suffix));
  };
  source.drop = [&container](const files::TensorView& tensor) { container.drop(tensor); };
  return source;
}

// Sizes an arena: take() notes an aligned part, bind() hands out the addresses.
class ArenaPlan {
 public:
  template <class T>
  void take(T*& pointer, std::int64_t n) {
    parts_.push_back({reinterpret_cast<void**>(&pointer), size_});
    size_ += (static_cast<std::size_t>(n) * sizeof(T) + 63) / 64 * 64;
  }
  AlignedBuffer allocate() const {
    AlignedBuffer memory(size_);
    for (const Part& part : parts_) *part.pointer = memory.data() + part.offset;
    return memory;
  }

 private:
  struct Part {
    void** pointer;
    std::size_t offset;
  };
  std::vector<Part> parts_;
  std::size_t size_ = 0;
};

}  // namespace

Activations::Activations(const ModelConfig& c, const kernels::Kernels& kernels, int n_threads,
                         const Limits& limits)
    : limits_(limits),
      vocab_size_(c.vocab_size),
      head_(kernels, c.vocab_size, c.hidden_dim, n_threads, limits.max_logit_rows) {
  const std::int64_t n = std::max(limits.max_tokens, limits.max_logit_rows);
  const std::int64_t q_dim = c.n_heads * c.head_dim;
  const std::int64_t widest = std::max({c.hidden_dim, q_dim, c.ffn_dim});
  const std::int64_t n_rep = c.n_heads / c.n_kv_heads;
  std::size_t prepared_bytes = 0;
  for (const std::int64_t cols : {c.hidden_dim, q_dim, c.ffn_dim}) {
    prepared_bytes = std::max(prepared_bytes, kernels.prepared_bytes(n, cols));
  }
  scratch_bytes_ =
      std::max({kernels.matmul_scratch_bytes(1, widest), kernels.matmul_scratch_bytes(n, widest),
                kernels.attention_scratch_bytes(std::min(n, attention_tile_tokens(n_rep)), n_rep,
                                                c.head_dim, limits.max_keys)});
  scratch_bytes_ = (scratch_bytes_ + 63) / 64 * 64;

  ArenaPlan plan;
  plan.take(x_, n * c.hidden_dim);
  plan.take(h_, n * c.hidden_dim);
  plan.take(qkv_, n * (c.n_heads + 2 * c.n_kv_heads) * c.head_dim);
  plan.take(attn_, n * q_dim);
  plan.take(gate_, n * c.ffn_dim);
  plan.take(up_, n * c.ffn_dim);
  plan.take(gathered_, limits.max_logit_rows * c.hidden_dim);
  plan.take(logits_, limits.max_logit_rows * c.vocab_size);
  plan.take(prepared_, static_cast<std::int64_t>(prepared_bytes));
  plan.take(scratch_, static_cast<std::int64_t>(scratch_bytes_) * n_threads);
  memory_ = plan.allocate();
  rows_.reserve(static_cast<std::size_t>(n));
  attention_jobs_.reserve(static_cast<std::size_t>(
      (n / attention_tile_tokens(n_rep) + limits.max_sequences + limits.max_logit_rows + 1) *
      c.n_kv_heads));
  const auto max_logit_rows = static_cast<std::size_t>(limits.max_logit_rows);
  wanted_.reserve(max_logit_rows);
  logit_slots_.resize(max_logit_rows);
  head_rows_.resize(max_logit_rows);
}

Model::Model(ModelConfig config, const Options& options)
    : config_(std::move(config)),
      architecture_(find_architecture(config_.architecture)),
      kernels_(options.kernels),
      context_(choose_context(config_, options.context)),
      rope_(
          make_rope_table(context_, config_.rope_inv_freq.empty()
                                        ? inverse_frequencies(config_.head_dim, config_.rope_theta)
                                        : config_.rope_inv_freq)) {}

void Model::load(const TensorSource& source, const Options& options, ThreadPool& pool) {
  weights_ = load_weights(config_, source, options.weights.value_or(WeightMode::kExact),
                          *options.kernels, pool)
                 .value_or_throw();
  head_screen_ = make_head_screen(weights_.head, options.head, *options.kernels, pool);
}

std::unique_ptr<Model> Model::load_directory(const std::string& dir, const Options& options,
                                             ThreadPool& pool) {
  std::unique_ptr<Model> model(new Model(config_from_directory(dir).value_or_throw(), options));
  const auto file = files::Safetensors::open_directory(dir).value_or_throw();
  const TensorSource source = source_of(*file, hf_tensor_name);
  model->load(source, options, pool);
  return model;
}

std::unique_ptr<Model> Model::load_gguf(const files::GgufFile& file, const Options& options,
                                        ThreadPool& pool) {
  std::unique_ptr<Model> model(new Model(config_from_gguf(file).value_or_throw(), options));
  TensorSource source = source_of(file, gguf_tensor_name);
  source.qk_row = model->architecture_->gguf_qk_row;
  model->load(source, options, pool);
  return model;
}

std::unique_ptr<Model> Model::load_packed(const std::shared_ptr<const files::MuniaFile>& file,
                                          LoadWay way, const Options& options, ThreadPool& pool) {
  std::unique_ptr<Model> model(new Model(config_from_packed(*file).value_or_throw(), options));
  model->weights_ =
      weights_from_packed(model->config_, file, way, options.weights, *options.kernels, pool)
          .value_or_throw();
  model->head_screen_ = head_screen_from_packed(*file, way, model->weights_.head, options.head,
                                                *options.kernels, pool)
                            .value_or_throw();
  return model;
}

std::unique_ptr<Model> Model::quantized(const Model& exact, WeightMode mode,
                                        const InputMoments& moments, double damping, HeadMode head,
                                        ThreadPool& pool) {
  const Options options = {exact.kernels_, exact.context_, head, mode};
  std::unique_ptr<Model> model(new Model(exact.config_, options));
  model->weights_ =
      quantized_weights(exact.weights_, mode, moments, damping, *exact.kernels_, pool);
  model->head_screen_ = make_head_screen(model->weights_.head, head, *exact.kernels_, pool);
  return model;
}

void Model::forward(const Batch& batch, Activations& activations, ThreadPool& pool) const {
  ForwardPass(*this, batch, activations, pool).run();
}

}  // namespace munia::model
