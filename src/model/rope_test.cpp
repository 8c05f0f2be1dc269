#include "model/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <string>

#include "base/mapped_file.h"

namespace munia::model {
namespace {

TEST(Rope, SineAndCosineAgreeWithTheCLibraryInLongDouble) {
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const double x = static_cast<double>(i) * 1.37 + 0.001 * static_cast<double>(i % 997);
    double sine = 0;
    double cosine = 0;
    sin_cos(x, sine, cosine);
    worst = std::max(worst,
                     std::fabs(sine - static_cast<double>(std::sin(static_cast<long double>(x)))));
    worst = std::max(
        worst, std::fabs(cosine - static_cast<double>(std::cos(static_cast<long double>(x)))));
  }
  EXPECT_LT(worst, 1e-15);
}

TEST(Rope, TableHoldsCosinesThenSinesOfFloat32Angles) {
  const std::int64_t head_dim = 64;
  const std::vector<float> table = make_rope_table(100, inverse_frequencies(head_dim, 10000.0F));
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    EXPECT_EQ(table[static_cast<std::size_t>(i)], 1.0F);  // position 0
    EXPECT_EQ(table[static_cast<std::size_t>(32 + i)], 0.0F);
  }
  // Pair 0 turns by one radian per position: exponent 0, inverse frequency 1.
  EXPECT_FLOAT_EQ(table[static_cast<std::size_t>(99 * head_dim)], std::cos(99.0F));
  EXPECT_FLOAT_EQ(table[static_cast<std::size_t>(99 * head_dim + 32)], std::sin(99.0F));
  // Pair 16 of 32 has the frequency 10000^(-1/2).
  EXPECT_FLOAT_EQ(table[static_cast<std::size_t>(50 * head_dim + 16)], std::cos(50.0F * 0.01F));
}

// Goldens: tools/make_rope_goldens.py. A float32 power of the reference may differ in its last bit
// from the rounded float64 one, and the smooth part of llama3 carries that on.
TEST(Rope, InverseFrequenciesAreThoseOfTransformers) {
  const std::string path = MUNIA_SOURCE_DIR "/tests/goldens/rope/inv_freq.json";
  const std::string text = read_file(path, std::size_t{1} << 20).value_or_throw();
  const boost::json::value cases = boost::json::parse(text);
  std::size_t n_equal = 0;
  std::size_t n = 0;
  for (const boost::json::value& value : cases.as_array()) {
    const boost::json::object& c = value.as_object();
    SCOPED_TRACE(boost::json::serialize(c));
    const auto number = [&c](const char* key) { return c.at(key).to_number<double>(); };
    const auto theta = static_cast<float>(number("rope_theta"));
    std::vector<float> found = inverse_frequencies(c.at("head_dim").as_int64(), theta);
    const std::string type(c.at("rope_type").as_string());
    if (type == "linear") scale_linear(number("factor"), found);
    if (type == "llama3") {
      scale_llama3({number("factor"), number("low_freq_factor"), number("high_freq_factor"),
                    number("original_max_position_embeddings")},
                   found);
    }
    const auto expected = boost::json::value_to<std::vector<double>>(c.at("inv_freq"));
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i, ++n) {
      const auto golden = static_cast<float>(expected[i]);
      EXPECT_LE(std::fabs(found[i] - golden), 2e-7F * golden) << i;
      if (found[i] == golden) ++n_equal;
    }
  }
  EXPECT_GE(n_equal * 100, n * 95) << n_equal << " of " << n << " are the same bits";
}

}  // namespace
}  // namespace munia::model
