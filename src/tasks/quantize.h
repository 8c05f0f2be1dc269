// INT4 weights that suit what a model reads: some texts are run through the exact model first, in
// the prompts of both jobs, emotion and reply, and the weights are rounded so that the layers'
// outputs on these texts change least (model/input_moments.h). That is done with several dampings,
// and the model whose next tokens behind the prompts are nearest to the exact ones is kept: what
// the errors of all layers add up to is a matter of luck.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/model_bundle.h"

namespace munia::tasks {

/// Short texts of many kinds, Chinese and English, for those who have none of their own at hand.
std::span<const char* const> sample_texts();

struct QuantizeOptions {
  model::WeightMode mode = model::WeightMode::kInt4;
  model::HeadMode head = model::HeadMode::kAuto;
  std::int64_t max_tokens = 16384;  // of all prompts; texts beyond are not read
  std::vector<double> dampings = {0.02, 0.05, 0.1, 0.2, 0.4};
  /// Asked between prompts.
  std::function<bool()> cancelled = [] { return false; };
};

struct Quantized {
  std::unique_ptr<model::Model> model;
  std::int64_t n_texts = 0;   // that were read
  std::int64_t n_tokens = 0;  // of their prompts
  double damping = 0;         // that was kept
  double divergence = 0;      // mean KL of the next token behind a prompt, in nats
};

/// The model of `bundle`, whose weights are exact, as one with INT4 weights. kCancelled; kLimit
/// where memory is short; kInvalidArgument without a text; kUnsupported for a model that INT4
/// weights make overflow.
Result<Quantized> quantize_with_texts(const engine::ModelBundle& bundle,
                                      std::span<const std::string> texts,
                                      const QuantizeOptions& options, ThreadPool& pool);

}  // namespace munia::tasks
