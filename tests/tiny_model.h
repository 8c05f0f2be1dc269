// The tiny models of tests/models and what the reference makes of them (tests/goldens/tiny), for
// tests of the forward pass.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "model/model.h"

namespace munia::test {

struct Golden {
  std::string name;                 // directory below tests/goldens/tiny
  std::vector<std::string> models;  // below tests/models; all hold the same weights
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<float> hidden_f32;  // [n_layers + 2, n_tokens, hidden_dim] of prompt 0
  std::vector<double> hidden_f64;
  std::vector<float> logits_f32;  // [n_tokens, vocab_size] of prompt 0
  std::vector<double> logits_f64;
  std::vector<float> last_logits_f32;  // [n_prompts, vocab_size]
  std::vector<double> last_logits_f64;
};

/// Names of all goldens; at least one.
std::vector<std::string> golden_names();
Golden load_golden(const std::string& name);

/// Loads a model of tests/models, or of an absolute path, for a rung. Throws LoadError.
std::unique_ptr<model::Model> load_tiny_model(const std::string& name, const std::string& isa,
                                              ThreadPool& pool,
                                              model::HeadMode head = model::HeadMode::kAuto);
/// All rungs of this machine by name, and "amx-emulated" where it runs, last.
std::vector<std::string> rung_names();
/// Whether the rung has an order of additions of its own for some weight type.
bool has_own_order(const std::string& isa);

/// One model with scratch for small batches.
class Runner {
 public:
  Runner(const std::string& model_name, const std::string& isa, int n_threads,
         model::HeadMode head = model::HeadMode::kAuto);
  const model::Model& model() const { return *model_; }
  model::KvCache new_cache() const { return model::KvCache(kv_pool_); }
  model::Activations& activations() { return activations_; }
  /// Computes `tokens` behind what `cache` holds, in chunks of `chunk`; logits of every row:
  /// [n_tokens, vocab_size].
  std::vector<float> logits(model::KvCache& cache, const std::vector<std::int32_t>& tokens,
                            std::int64_t chunk);
  /// One step over a batch whose slices the caller made; reserves their caches.
  void forward(model::Batch& batch);

 private:
  ThreadPool pool_;
  std::unique_ptr<model::Model> model_;
  std::shared_ptr<model::KvPool> kv_pool_;
  model::Activations activations_;
};

}  // namespace munia::test
