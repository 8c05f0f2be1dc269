// The public interface on a tiny model: what goes in comes out, errors are the documented types.
#include "munia/munia.h"

#include <gtest/gtest.h>

#include <cmath>

namespace munia {
namespace {

const std::string kModel = MUNIA_SOURCE_DIR "/tests/models/qwen2-tied-bf16";
const std::string kText = "今天天气真好";

class ApiTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    LoadOptions options;
    options.threads = 2;
    model_ = std::make_unique<Model>(kModel, options);
  }
  static void TearDownTestSuite() { model_.reset(); }
  static std::unique_ptr<Model> model_;
};
std::unique_ptr<Model> ApiTest::model_;

TEST_F(ApiTest, InfoTellsTheModel) {
  const ModelInfo info = model_->info();
  EXPECT_EQ(info.name, "qwen2-tied-bf16");
  EXPECT_EQ(info.architecture, "qwen2");
  EXPECT_EQ(info.weights, "BF16");
  EXPECT_EQ(info.n_layers, 2);
  EXPECT_EQ(info.threads, 2);
}

TEST_F(ApiTest, TextComesBack) {
  const Ids ids = model_->tokenize(kText);
  EXPECT_EQ(model_->detokenize(ids), kText);
  const Rendered rendered = model_->render({{"user", kText}});
  EXPECT_EQ(model_->detokenize(rendered.ids), rendered.text);
  EXPECT_LT(model_->render({{"user", kText}}, false).ids.size(), rendered.ids.size());
}

TEST_F(ApiTest, GenerateStreamsWhatItReturns) {
  GenerateOptions options;
  options.max_tokens = 12;
  std::string streamed;
  const Generated result =
      model_->generate(kText, options, [&streamed](std::string_view piece) { streamed += piece; });
  EXPECT_EQ(streamed, result.text);
  EXPECT_LE(result.ids.size(), 12U);
  EXPECT_EQ(model_->generate(model_->tokenize(kText), options).ids, result.ids);
}

TEST_F(ApiTest, BeamsComeBestFirst) {
  GenerateOptions options;
  options.max_tokens = 12;
  EXPECT_TRUE(model_->generate(kText, options).beams.empty());
  options.num_beams = 4;
  options.num_return_sequences = 3;
  options.length_penalty = 0.5F;
  options.early_stopping = EarlyStopping::kNever;
  std::string told;
  const Generated result =
      model_->generate(kText, options, [&told](std::string_view piece) { told += piece; });
  ASSERT_EQ(result.beams.size(), 3U);
  EXPECT_EQ(result.beams[0].ids, result.ids);
  EXPECT_EQ(result.beams[0].text, result.text);
  EXPECT_EQ(told, result.text);
  EXPECT_GE(result.beams[0].score, result.beams[1].score);
  EXPECT_GE(result.beams[1].score, result.beams[2].score);
  EXPECT_FALSE(model_->predict(kText, "sentiment", options).reply.empty());
  options.temperature = 1;
  EXPECT_THROW(model_->generate(kText, options), RequestError);
  options.temperature = 0;
  options.num_beams = 2;
  EXPECT_THROW(model_->generate(kText, options), RequestError);
}

TEST_F(ApiTest, ScoreAgreesWithLogits) {
  const Ids prompt = model_->tokenize(kText);
  const std::vector<float> logits = model_->logits(prompt);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  const std::vector<double> scores = model_->score(prompt, {{30}, {31}});
  EXPECT_NEAR(scores[0], static_cast<double>(logits[30]) - std::log(sum), 1e-5);
  EXPECT_NEAR(scores[1], static_cast<double>(logits[31]) - std::log(sum), 1e-5);
}

TEST_F(ApiTest, ClassifyAndPredictAgree) {
  const std::vector<Labelled> labels = model_->classify({kText, "很差"});
  ASSERT_EQ(labels.size(), 2U);
  EXPECT_EQ(labels[0].probabilities.size(), 2U);
  EXPECT_NEAR(labels[0].probabilities[0].second + labels[0].probabilities[1].second, 1, 1e-12);
  GenerateOptions options;
  options.max_tokens = 4;
  const Predicted predicted = model_->predict(kText, "sentiment", options);
  EXPECT_EQ(predicted.emotion.label, labels[0].label);
  EXPECT_EQ(predicted.emotion.probabilities, labels[0].probabilities);
  EXPECT_FALSE(predicted.emoji.empty());
  EXPECT_EQ(model_->classify({kText}, std::vector<std::string>{"好", "坏", "一般"})[0]
                .probabilities.size(),
            3U);
}

TEST_F(ApiTest, CancelEndsAGeneration) {
  GenerateOptions options;
  options.max_tokens = 100000;
  Generation generation = model_->start(model_->tokenize(kText), options);
  generation.cancel();
  try {
    generation.wait();  // a very fast model may have ended before
  } catch (const Cancelled&) {
  }
  EXPECT_THROW(generation.wait(), RequestError);
  GenerateOptions one_token;
  one_token.max_tokens = 1;
  { const Generation dropped = model_->start(model_->tokenize(kText), options); }
  EXPECT_EQ(model_->generate(kText, one_token).usage.completion_tokens, 1);
}

TEST_F(ApiTest, WeightsInSmallerFormsAreNearTheExactOnes) {
  const std::vector<float> exact = model_->logits(model_->tokenize(kText));
  for (const char* weights : {"exact", "int8", "int4"}) {
    LoadOptions options;
    options.weights = weights;
    const std::vector<float> found = Model(kModel, options).logits(model_->tokenize(kText));
    EXPECT_EQ(found == exact, std::string(weights) == "exact") << weights;
  }
}

TEST_F(ApiTest, ErrorsHaveTheirTypes) {
  EXPECT_THROW(Model(kModel + "-none"), ModelLoadError);
  LoadOptions options;
  options.isa = "mmx";
  EXPECT_THROW(Model(kModel, options), ModelLoadError);
  options = {};
  options.weights = "int2";
  EXPECT_THROW(Model(kModel, options), ModelLoadError);
  options = {};
  options.threads = -1;
  EXPECT_THROW(Model(kModel, options), ModelLoadError);
  EXPECT_THROW(model_->generate(Ids{}), RequestError);
  EXPECT_THROW(model_->generate(Ids{-1}), RequestError);
  EXPECT_THROW(model_->tokenize("ab\xff"), RequestError);
  EXPECT_THROW(model_->classify({kText, " "}), RequestError);
  EXPECT_THROW(model_->classify({kText}, std::string("no-such-task")), RequestError);
  EXPECT_THROW(model_->generate(Ids(1000000, 30)), RequestError);
  GenerateOptions wrong;
  wrong.top_p = 0;
  EXPECT_THROW(model_->generate(kText, wrong), RequestError);
}

}  // namespace
}  // namespace munia
