// The forward pass on tiny models of every architecture and file format, against float64 as truth
// and torch float32 as yardstick (docs: numbers).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tiny_model.h"

namespace munia::test {
namespace {

struct Errors {
  double rms = 0;
  double max = 0;
  double largest_value = 0;
};

Errors errors_of(const float* values, const double* truth, std::size_t n) {
  Errors errors;
  for (std::size_t i = 0; i < n; ++i) {
    const double error = std::fabs(static_cast<double>(values[i]) - truth[i]);
    errors.rms += error * error;
    errors.max = std::max(errors.max, error);
    errors.largest_value = std::max(errors.largest_value, std::fabs(truth[i]));
  }
  errors.rms = std::sqrt(errors.rms / static_cast<double>(n));
  return errors;
}

// munia errs at most 1.5 times as much as torch float32 does (with a floor of one rounding of the
// largest value, where torch happens to hit the truth), and never by more than 1e-4 of it.
void expect_as_good_as_torch(const float* munia, const float* torch, const double* truth,
                             std::size_t n, const std::string& what) {
  const Errors ours = errors_of(munia, truth, n);
  const Errors theirs = errors_of(torch, truth, n);
  EXPECT_LE(ours.rms, 1.5 * theirs.rms + 3e-8 * ours.largest_value) << what;
  EXPECT_LE(ours.max, 1e-4 * ours.largest_value) << what;
}

class Exactness : public testing::TestWithParam<std::string> {};

TEST_P(Exactness, LogitsAndHiddenStates) {
  const Golden golden = load_golden(GetParam());
  ASSERT_FALSE(golden.models.empty());
  for (const std::string& name : golden.models) {
    SCOPED_TRACE(name);
    Runner runner(name, "", 1);
    const model::ModelConfig& config = runner.model().config();
    const auto vocab = static_cast<std::size_t>(config.vocab_size);
    const std::vector<std::int32_t>& prompt = golden.prompts[0];

    model::KvCache cache = runner.new_cache();
    const std::vector<float> all = runner.logits(cache, prompt, 320);
    ASSERT_EQ(all.size(), golden.logits_f32.size());
    expect_as_good_as_torch(all.data(), golden.logits_f32.data(), golden.logits_f64.data(),
                            all.size(), "all positions");

    const auto layer_floats = prompt.size() * static_cast<std::size_t>(config.hidden_dim);
    std::vector<float> hidden(layer_floats * static_cast<std::size_t>(config.n_layers + 1));
    cache = runner.new_cache();
    model::Batch batch;
    batch.sequences.push_back({&cache, prompt, {}});
    for (std::int64_t l = 0; l <= config.n_layers; ++l) {
      batch.taps.push_back({l, hidden.data() + static_cast<std::size_t>(l) * layer_floats});
    }
    runner.forward(batch);
    for (std::size_t l = 0; l <= static_cast<std::size_t>(config.n_layers); ++l) {
      expect_as_good_as_torch(hidden.data() + l * layer_floats,
                              golden.hidden_f32.data() + l * layer_floats,
                              golden.hidden_f64.data() + l * layer_floats, layer_floats,
                              "hidden states behind layer " + std::to_string(l));
    }

    for (std::size_t i = 0; i < golden.prompts.size(); ++i) {
      cache = runner.new_cache();
      const std::vector<float> rows = runner.logits(cache, golden.prompts[i], 320);
      expect_as_good_as_torch(rows.data() + rows.size() - vocab,
                              golden.last_logits_f32.data() + i * vocab,
                              golden.last_logits_f64.data() + i * vocab, vocab,
                              "last position of prompt " + std::to_string(i));
    }
  }
}

// The same weights in another container give the same bytes.
TEST_P(Exactness, EveryContainerOfTheSameWeightsGivesTheSameBytes) {
  const Golden golden = load_golden(GetParam());
  std::vector<float> first;
  for (const std::string& name : golden.models) {
    Runner runner(name, "", 1);
    model::KvCache cache = runner.new_cache();
    const std::vector<float> logits = runner.logits(cache, golden.prompts.back(), 320);
    if (first.empty()) {
      first = logits;
    } else {
      EXPECT_EQ(std::memcmp(first.data(), logits.data(), logits.size() * sizeof(float)), 0) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TinyModels, Exactness, testing::ValuesIn(golden_names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace munia::test
