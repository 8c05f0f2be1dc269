// The forward pass on tiny models of every architecture and file format, against float64 as truth
// and torch float32 as yardstick (docs: numbers).
#include <gtest/gtest.h>

#include <algorithm>
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
  std::fprintf(stderr, "ratio %.3f max %.2e %s\n", ours.rms / theirs.rms,
               ours.max / ours.largest_value, what.c_str());
  EXPECT_LE(ours.rms, 1.5 * theirs.rms + 3e-8 * ours.largest_value) << what;
  EXPECT_LE(ours.max, 1e-4 * ours.largest_value) << what;
}

class Exactness : public testing::TestWithParam<std::string> {};

// The rungs with different bytes: one for all that add as "scalar" does, and the AMX rung.
std::vector<std::string> orders_of_additions() {
  const std::vector<std::string> names = rung_names();
  const auto plain = std::find_if_not(names.rbegin(), names.rend(), has_own_order);
  std::vector<std::string> orders = {*plain};
  if (has_own_order(names.back())) orders.push_back(names.back());
  return orders;
}

void check_logits_and_hidden_states(const Golden& golden, const std::string& isa) {
  for (const std::string& name : golden.models) {
    SCOPED_TRACE(name);
    Runner runner(name, isa, 1);
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

    std::vector<float> last;
    for (const std::vector<std::int32_t>& tokens : golden.prompts) {
      cache = runner.new_cache();
      const std::vector<float> rows = runner.logits(cache, tokens, 320);
      last.insert(last.end(), rows.end() - static_cast<std::ptrdiff_t>(vocab), rows.end());
    }
    ASSERT_EQ(last.size(), golden.last_logits_f32.size());
    expect_as_good_as_torch(last.data(), golden.last_logits_f32.data(),
                            golden.last_logits_f64.data(), last.size(),
                            "last positions of all prompts");
  }
}

TEST_P(Exactness, LogitsAndHiddenStates) {
  const Golden golden = load_golden(GetParam());
  ASSERT_FALSE(golden.models.empty());
  for (const std::string& isa : orders_of_additions()) {
    SCOPED_TRACE(isa);
    check_logits_and_hidden_states(golden, isa);
  }
}

// The same weights in another container give the same bytes.
TEST_P(Exactness, EveryContainerOfTheSameWeightsGivesTheSameBytes) {
  const Golden golden = load_golden(GetParam());
  for (const std::string& isa : orders_of_additions()) {
    std::vector<float> first;
    for (const std::string& name : golden.models) {
      Runner runner(name, isa, 1);
      model::KvCache cache = runner.new_cache();
      const std::vector<float> logits = runner.logits(cache, golden.prompts.back(), 320);
      if (first.empty()) {
        first = logits;
      } else {
        EXPECT_EQ(std::memcmp(first.data(), logits.data(), logits.size() * sizeof(float)), 0)
            << name << " " << isa;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TinyModels, Exactness, testing::ValuesIn(golden_names()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace munia::test
