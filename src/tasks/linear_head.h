// A linear head: labels from hidden states of a prompt, learned from labelled rows (fit.h). Kept as
// a safetensors file beside the task file, so that other programs can read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "tasks/logistic.h"

namespace munia::tasks {

struct LinearHead {
  std::int64_t hidden_dim = 0;
  /// Whose states it reads (engine::Features): of each layer the last token's and the mean.
  std::vector<std::int64_t> layers;
  LogisticModel logistic;  // of [layers, 2, hidden_dim] states
};

/// Writes a safetensors file with, for every label, "LABEL/layers.N.last" and "LABEL/layers.N.mean"
/// [hidden_dim] and "LABEL/bias" [1], all F32. `labels` name the rows of the weights. kIo.
Status save_head(const LinearHead& head, const std::vector<std::string>& labels,
                 const std::string& path);
/// The head for `labels`, in their order. kNotFound, kIo, or kInvalidData with the file's name and
/// what is wrong: no safetensors file, a label or a layer that is missing, a number that is none.
Result<LinearHead> load_head(const std::string& path, const std::vector<std::string>& labels);

}  // namespace munia::tasks
