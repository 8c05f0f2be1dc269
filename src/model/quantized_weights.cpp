// Exact weights in memory to INT8 or INT4 ones, with what is known of their inputs.
#include <vector>

#include "model/input_moments.h"
#include "model/weights.h"

namespace munia::model {
namespace {

using kernels::PackedMatrix;

/// Matrices that are multiplied with the same rows.
struct Inputs {
  const Linear* seen = nullptr;  // as InputObserver is shown them; nullptr: embedding and head
  std::vector<PackedMatrix*> matrices;
};

/// All matrices of `weights`, a copy of `exact`.
std::vector<Inputs> all_inputs(const Weights& exact, Weights& weights, bool has_head) {
  std::vector<Inputs> all = {{nullptr, {&weights.embedding}}};
  if (has_head) all.front().matrices.push_back(&weights.head);
  for (std::size_t l = 0; l < weights.layers.size(); ++l) {
    const LayerWeights& from = exact.layers[l];
    LayerWeights& to = weights.layers[l];
    all.push_back({&from.q, {&to.q.w, &to.k.w, &to.v.w}});
    all.push_back({&from.o, {&to.o.w}});
    all.push_back({&from.gate, {&to.gate.w, &to.up.w}});
    all.push_back({&from.down, {&to.down.w}});
  }
  return all;
}

}  // namespace

Weights quantized_weights(const Weights& exact, WeightMode mode, const InputMoments& moments,
                          double damping, const kernels::Kernels& kernels, ThreadPool& pool) {
  Weights weights;
  weights.embedding = exact.embedding;
  weights.head = exact.head;
  weights.final_norm = exact.final_norm;
  weights.layers = exact.layers;
  weights.mode = mode;
  const bool has_head = exact.head.data != exact.embedding.data;
  const std::vector<Inputs> all = all_inputs(exact, weights, has_head);

  std::vector<PackedMatrix*> matrices;
  for (const Inputs& inputs : all) {
    for (PackedMatrix* matrix : inputs.matrices) {
      const PackedMatrix target = stored_form(mode, inputs.seen == nullptr, *matrix);
      weights.size_bytes += target.size_bytes();
      matrices.push_back(matrix);
    }
  }
  weights.arena = AlignedBuffer(weights.size_bytes);
  std::byte* to = weights.arena.data();
  for (const Inputs& inputs : all) {
    std::vector<float> spread;
    if (inputs.seen != nullptr) spread = moments.spread(*inputs.seen, damping, pool);
    for (PackedMatrix* matrix : inputs.matrices) {
      PackedMatrix target = stored_form(mode, inputs.seen == nullptr, *matrix);
      store_matrix(kernels, *matrix, spread.empty() ? nullptr : spread.data(), target, to, pool);
      to += target.size_bytes();
      *matrix = target;
    }
  }
  if (!has_head) weights.head = weights.embedding;
  weights.types = types_of(matrices);
  return weights;
}

}  // namespace munia::model
