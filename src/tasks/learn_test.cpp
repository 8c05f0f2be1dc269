#include "tasks/learn.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>

#include "tasks/lbfgs.h"

namespace munia::tasks {
namespace {

// ---- Minimizing ----

TEST(Minimize, FindsTheMinimumOfAStretchedBowl) {
  // f = sum of 10^i (x_i - i)^2 / 2
  std::vector<double> point(5, 0);
  minimize(
      [](const std::vector<double>& x, std::vector<double>& gradient) {
        gradient.resize(x.size());
        double value = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double steep = std::pow(10.0, static_cast<double>(i));
          const double distance = x[i] - static_cast<double>(i);
          value += steep * distance * distance / 2;
          gradient[i] = steep * distance;
        }
        return value;
      },
      point, 1e-9);
  for (std::size_t i = 0; i < point.size(); ++i) {
    EXPECT_NEAR(point[i], static_cast<double>(i), 1e-6);
  }
}

// ---- Logistic regression ----

constexpr std::size_t kFeatures = 6;

struct Sample {
  std::vector<float> features;
  std::vector<std::size_t> labels;
  std::vector<std::size_t> rows;
  TrainingSet set(std::size_t n_labels) const { return {features, labels, kFeatures, n_labels}; }
};

// Three overlapping clouds; feature 4 is constant, feature 5 has a large scale and says nothing.
Sample three_clouds(std::size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> noise;
  Sample sample;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t label = i % 3;
    for (std::size_t d = 0; d < 4; ++d) {
      sample.features.push_back(noise(random) + (d == label ? 1.5F : 0.0F));
    }
    sample.features.push_back(7);
    sample.features.push_back(1000 * noise(random) + 5000);
    sample.labels.push_back(label);
    sample.rows.push_back(i);
  }
  return sample;
}

double mean(const Sample& sample, std::size_t d) {
  double sum = 0;
  for (const std::size_t i : sample.rows) {
    sum += static_cast<double>(sample.features[i * kFeatures + d]);
  }
  return sum / static_cast<double>(sample.rows.size());
}

double deviation(const Sample& sample, std::size_t d) {
  double sum = 0;
  for (const std::size_t i : sample.rows) {
    const double distance =
        static_cast<double>(sample.features[i * kFeatures + d]) - mean(sample, d);
    sum += distance * distance;
  }
  return std::sqrt(sum / static_cast<double>(sample.rows.size()));
}

// What the header says is minimized, computed from its words.
double objective(const Sample& sample, const LogisticModel& model, double penalty) {
  double loss = 0;
  for (const std::size_t i : sample.rows) {
    const auto scores = model.scores(std::span(sample.features).subspan(i * kFeatures, kFeatures));
    double sum = 0;
    for (const double score : scores) sum += std::exp(score);
    loss -= scores[sample.labels[i]] - std::log(sum);
  }
  loss /= static_cast<double>(sample.rows.size());
  for (std::size_t d = 0; d < kFeatures; ++d) {
    for (std::size_t k = 0; k < model.n_labels(); ++k) {
      const double weight =
          static_cast<double>(model.weights[k * kFeatures + d]) * deviation(sample, d);
      loss += penalty / 2 * weight * weight;
    }
  }
  return loss;
}

TEST(Logistic, NoChangeOfAWeightOrBiasIsBetter) {
  const Sample sample = three_clouds(90);
  const LogisticModel model = train_logistic(sample.set(3), sample.rows, 0.05);
  const double least = objective(sample, model, 0.05);
  EXPECT_LT(least, std::log(3.0));  // better than knowing nothing
  for (std::size_t i = 0; i < model.weights.size(); ++i) {
    const std::size_t d = i % kFeatures;
    for (const double step : {-0.02, 0.02}) {
      LogisticModel other = model;
      // A step in standardized weights, with the bias that keeps the mean where it is.
      const double scale = deviation(sample, d) > 0 ? deviation(sample, d) : 1;
      other.weights[i] += static_cast<float>(step / scale);
      other.bias[i / kFeatures] -= static_cast<float>(step / scale * mean(sample, d));
      EXPECT_GT(objective(sample, other, 0.05), least - 1e-6) << i;
    }
  }
  for (std::size_t k = 0; k < 3; ++k) {
    for (const float step : {-0.02F, 0.02F}) {
      LogisticModel other = model;
      other.bias[k] += step;
      EXPECT_GT(objective(sample, other, 0.05), least - 1e-7);
    }
  }
  for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(model.weights[k * kFeatures + 4], 0);  // constant
}

TEST(Logistic, TheStartChangesTheWayNotTheEnd) {
  const Sample sample = three_clouds(90);
  const LogisticModel cold = train_logistic(sample.set(3), sample.rows, 0.05);
  const LogisticModel strong = train_logistic(sample.set(3), sample.rows, 5);
  const LogisticModel warm = train_logistic(sample.set(3), sample.rows, 0.05, &strong);
  EXPECT_NEAR(objective(sample, cold, 0.05), objective(sample, warm, 0.05), 1e-5);
  EXPECT_GT(objective(sample, strong, 0.05), objective(sample, cold, 0.05) + 1e-3);
}

// ---- Recipes ----

// Rows whose scores lean to the first label by `lean` and tell the labels apart by `strength`, and
// whose states tell them apart better.
LearningRows leaning_rows(std::size_t n, double lean, double strength, unsigned seed = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise;
  LearningRows rows;
  rows.n_labels = 2;
  rows.layers = {1, 2};
  rows.hidden_dim = 4;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t label = i % 2;
    const double side = label == 0 ? 1 : -1;
    const double score = lean + strength * (side + noise(random));
    rows.labels.push_back(label);
    rows.logprobs.push_back({score / 2, -score / 2});
    for (std::size_t d = 0; d < 16; ++d) {
      // The second layer's mean knows; all else is noise.
      const double known = d >= 12 ? 2 * side : 0;
      rows.states.push_back(static_cast<float>(known + noise(random)));
    }
  }
  return rows;
}

std::vector<std::size_t> all_of(const LearningRows& rows) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < rows.n_rows(); ++i) all.push_back(i);
  return all;
}

double accuracy(const Learned& learned, const LearningRows& rows) {
  std::size_t n_right = 0;
  for (std::size_t i = 0; i < rows.n_rows(); ++i) {
    n_right += judge(learned, rows, i).is_right() ? 1U : 0U;
  }
  return static_cast<double>(n_right) / static_cast<double>(rows.n_rows());
}

class Learn : public testing::Test {
 protected:
  ThreadPool pool_{ThreadPool::Options{.n_threads = 2, .cpus = {}, .spin_us = 50}};
};

TEST_F(Learn, PriorUndoesALean) {
  const LearningRows rows = leaning_rows(400, 4, 1);
  const LearningRows fresh = leaning_rows(400, 4, 1, 4);
  const Learned prior = learn(Recipe::kPrior, rows, all_of(rows), pool_).value_or_throw();
  EXPECT_LT(accuracy({}, fresh), 0.55);
  EXPECT_GT(accuracy(prior, fresh), 0.80);
  ASSERT_EQ(prior.calibration.prior.size(), 2U);
  EXPECT_GT(prior.calibration.prior[0], 0.9);
  EXPECT_NEAR(prior.calibration.prior[0] + prior.calibration.prior[1], 1, 1e-9);
}

TEST_F(Learn, TemperatureMakesConfidenceTrue) {
  // Ten times too sure of itself.
  LearningRows rows = leaning_rows(1000, 0, 1);
  for (auto& scores : rows.logprobs) {
    for (double& score : scores) score *= 10;
  }
  const Learned prior = learn(Recipe::kPrior, rows, all_of(rows), pool_).value_or_throw();
  EXPECT_GT(prior.calibration.temperature, 3);
  Evaluation before(2);
  Evaluation after(2);
  for (std::size_t i = 0; i < rows.n_rows(); ++i) {
    before.add(judge({}, rows, i));
    after.add(judge(prior, rows, i));
  }
  EXPECT_GT(before.calibration_error(), 0.1);
  EXPECT_LT(after.calibration_error(), 0.05);
}

TEST_F(Learn, ThresholdHasTheMostRowsRight) {
  const LearningRows rows = leaning_rows(60, 2, 1);
  const Learned learned = learn(Recipe::kThreshold, rows, all_of(rows), pool_).value_or_throw();
  const double best = accuracy(learned, rows);
  for (double t = 0.01; t < 1; t += 0.01) {
    Learned other;
    other.calibration.threshold = {t, 1 - t};
    EXPECT_LE(accuracy(other, rows), best) << t;
  }
  // The probabilities are left alone.
  const auto p = learned.calibration.probabilities(rows.logprobs[0]);
  EXPECT_EQ(p, Calibration().probabilities(rows.logprobs[0]));
}

TEST_F(Learn, ThresholdOfAModelThatLeansFar) {
  for (const double lean : {-25.0, 25.0}) {
    const LearningRows rows = leaning_rows(60, lean, 1);
    const Learned learned = learn(Recipe::kThreshold, rows, all_of(rows), pool_).value_or_throw();
    EXPECT_LT(accuracy({}, rows), 0.51);
    EXPECT_GT(accuracy(learned, rows), 0.75) << lean;
  }
}

TEST_F(Learn, HeadFindsTheLayerThatKnows) {
  const LearningRows rows = leaning_rows(80, 1, 0.3);
  const LearningRows fresh = leaning_rows(400, 1, 0.3, 4);
  const Learned head = learn(Recipe::kHead, rows, all_of(rows), pool_).value_or_throw();
  EXPECT_GT(accuracy(head, fresh), 0.95);
  EXPECT_GT(accuracy(head, fresh), accuracy({}, fresh) + 0.1);
  EXPECT_EQ(head.head->layers.back(), 2);
  EXPECT_EQ(head.head->logistic.n_features, head.head->layers.size() * 8);
  const Learned again = learn(Recipe::kHead, rows, all_of(rows), pool_).value_or_throw();
  EXPECT_EQ(again.head->logistic.weights, head.head->logistic.weights);
}

TEST_F(Learn, CrossValidationJudgesEveryRowByOthers) {
  // States that say nothing: learned by heart they would be right, judged by others half of the
  // time.
  LearningRows rows = leaning_rows(60, 0, 0);
  for (std::size_t i = 0; i < rows.n_rows(); ++i) {
    for (std::size_t d = 12; d < 16; ++d) {
      rows.states[i * 16 + d] -= rows.labels[i] == 0 ? 2.0F : -2.0F;
    }
  }
  const auto judged = cross_validate(Recipe::kHead, rows, all_of(rows), 5, pool_).value_or_throw();
  ASSERT_EQ(judged.size(), 60U);
  int n_right = 0;
  for (std::size_t i = 0; i < judged.size(); ++i) {
    EXPECT_EQ(judged[i].wanted, rows.labels[i]);
    n_right += judged[i].is_right() ? 1 : 0;
  }
  EXPECT_GT(n_right, 15);
  EXPECT_LT(n_right, 45);
}

TEST_F(Learn, TooFewRowsAreRefused) {
  const LearningRows rows = leaning_rows(40, 0, 1);
  for (const Recipe recipe : {Recipe::kPrior, Recipe::kThreshold, Recipe::kHead}) {
    std::vector<std::size_t> picked;
    for (std::size_t i = 0; picked.size() < 2 * least_rows(recipe) - 1; ++i) picked.push_back(i);
    const auto learned = learn(recipe, rows, picked, pool_);
    ASSERT_FALSE(learned);
    EXPECT_EQ(learned.error().code, ErrorCode::kInvalidArgument);
    picked.push_back(picked.size());
    EXPECT_TRUE(learn(recipe, rows, picked, pool_)) << recipe_name(recipe);
  }
  LearningRows three = rows;
  three.n_labels = 3;
  for (auto& scores : three.logprobs) scores.push_back(-5);
  EXPECT_FALSE(learn(Recipe::kThreshold, three, all_of(three), pool_));
}

TEST(ShuffledEvenly, EveryBeginningHasTheSharesOfAll) {
  std::vector<std::size_t> labels(100, 0);
  for (std::size_t i = 0; i < 20; ++i) labels[i] = 1;
  const auto order = shuffled_evenly(labels, 2, 7);
  EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), 100U);
  for (std::size_t n = 5; n <= 100; n += 5) {
    std::size_t n_ones = 0;
    for (std::size_t i = 0; i < n; ++i) n_ones += labels[order[i]];
    EXPECT_NEAR(static_cast<double>(n_ones), 0.2 * static_cast<double>(n), 1.01);
  }
  EXPECT_NE(order, shuffled_evenly(labels, 2, 8));
  EXPECT_EQ(order, shuffled_evenly(labels, 2, 7));
}

// ---- Calibration ----

TEST(Calibration, OrderOfLabelsChangesNoBit) {
  Calibration forward;
  forward.temperature = 1.7;
  forward.prior = {0.6, 0.3, 0.1};
  Calibration backward = forward;
  backward.prior = {0.1, 0.3, 0.6};
  const auto a = forward.probabilities(std::vector<double>{-1.25, -0.5, -3});
  const auto b = backward.probabilities(std::vector<double>{-3, -0.5, -1.25});
  EXPECT_EQ(a[0], b[2]);
  EXPECT_EQ(a[1], b[1]);
  EXPECT_EQ(a[2], b[0]);
  EXPECT_NEAR(a[0] + a[1] + a[2], 1, 1e-15);
  // Softened first, then divided by the prior.
  EXPECT_NEAR(a[0] / a[1], std::exp(-0.75 / 1.7) * 0.3 / 0.6, 1e-12);
}

TEST(Calibration, WithoutAnyScoreAllLabelsAreEqual) {
  const auto p = Calibration().probabilities(std::vector<double>(4, -INFINITY));
  for (const double one : p) EXPECT_EQ(one, 0.25);
}

TEST(Calibration, ThresholdDecides) {
  Calibration calibration;
  calibration.threshold = {0.8, 0.2};
  EXPECT_EQ(calibration.choose(std::vector<double>{0.79, 0.21}), 1U);
  EXPECT_EQ(calibration.choose(std::vector<double>{0.81, 0.19}), 0U);
  EXPECT_EQ(Calibration().choose(std::vector<double>{0.5, 0.5}), 0U);
}

// ---- The file of a head ----

class HeadFile : public testing::Test {
 protected:
  HeadFile()
      : path_(testing::TempDir() + "munia_head_" + std::to_string(getpid()) + ".safetensors") {}
  ~HeadFile() override { std::remove(path_.c_str()); }
  static LinearHead small_head() {
    LinearHead head;
    head.hidden_dim = 3;
    head.layers = {4, 12};
    head.logistic.n_features = 12;
    for (int i = 0; i < 24; ++i) head.logistic.weights.push_back(static_cast<float>(i) / 7);
    head.logistic.bias = {0.5F, -0.25F};
    return head;
  }
  std::string read() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  std::string path_;
};

TEST_F(HeadFile, ComesBackByTheNamesOfTheLabels) {
  const LinearHead head = small_head();
  ASSERT_TRUE(save_head(head, {"正面", "负 \"面\""}, path_).ok());
  const LinearHead same = load_head(path_, {"正面", "负 \"面\""}).value_or_throw();
  EXPECT_EQ(same.hidden_dim, 3);
  EXPECT_EQ(same.layers, head.layers);
  EXPECT_EQ(same.logistic.weights, head.logistic.weights);
  EXPECT_EQ(same.logistic.bias, head.logistic.bias);
  const LinearHead turned = load_head(path_, {"负 \"面\"", "正面"}).value_or_throw();
  EXPECT_EQ(turned.logistic.bias, (std::vector<float>{-0.25F, 0.5F}));
  EXPECT_EQ(turned.logistic.weights[0], head.logistic.weights[12]);
}

TEST_F(HeadFile, WhatIsWrongIsSaid) {
  EXPECT_EQ(load_head(path_ + ".not", {"a", "b"}).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(save_head(small_head(), {"a", "b"}, path_).ok());
  EXPECT_EQ(load_head(path_, {"a", "c"}).error().code, ErrorCode::kInvalidData);
  EXPECT_EQ(load_head(path_, {"c", "a"}).error().code, ErrorCode::kInvalidData);
  const std::string whole = read();
  write(whole.substr(0, whole.size() - 1));
  EXPECT_EQ(load_head(path_, {"a", "b"}).error().code, ErrorCode::kInvalidData);
  // The last number, a bias, is not finite.
  std::string broken = whole;
  broken.replace(broken.size() - 4, 4, std::string("\x00\x00\xC0\x7F", 4));
  write(broken);
  const auto head = load_head(path_, {"a", "b"});
  ASSERT_FALSE(head);
  EXPECT_NE(head.error().message.find("\"b/bias\""), std::string::npos) << head.error().message;
  write("");
  EXPECT_EQ(load_head(path_, {"a", "b"}).error().code, ErrorCode::kInvalidData);
}

}  // namespace
}  // namespace munia::tasks
