// What the linear layers of a model are multiplied with: the second moments of their inputs over
// some texts, from which comes how the rounding of one weight is made good by the others of its row
// (kernels/quantize.cpp). Kept in blocks of 256 columns, the blocks of the packed form: whole ones
// would be hundreds of megabytes, and most of the gain is had within a block.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/thread_pool.h"
#include "model/model.h"

namespace munia::model {

class InputMoments : public InputObserver {
 public:
  /// Adds the rows x [n_rows, n_cols] f32 that `layer` is multiplied with.
  void see(const Linear& layer, const float* x, std::int64_t n_rows, ThreadPool& pool) override;

  std::int64_t n_rows() const { return n_rows_; }  // of the first layer seen
  /// The `spread` of Kernels::quantize_panel for `layer`, [n_cols][256] f32; empty for a layer that
  /// was not seen. `damping` is added to the diagonal, as a share of its mean: what so few texts
  /// say is not believed to the last.
  std::vector<float> spread(const Linear& layer, double damping, ThreadPool& pool) const;

 private:
  std::map<const Linear*, std::vector<float>> sums_;  // [n_cols][256]: upper triangles by block
  const Linear* first_ = nullptr;
  std::int64_t n_rows_ = 0;
};

}  // namespace munia::model
