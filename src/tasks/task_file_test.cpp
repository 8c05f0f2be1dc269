#include "tasks/task_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace munia::tasks {
namespace {

class TaskFile : public testing::Test {
 protected:
  std::string write(const std::string& content) {
    path_ = std::filesystem::temp_directory_path() /
            ("munia_task_test_" + std::to_string(getpid()) + ".toml");
    std::ofstream(path_) << content;
    return path_.string();
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::filesystem::path path_;
};

TEST_F(TaskFile, IsRead) {
  const Task task =
      load_task_file(write("name = \"weibo\"\n"
                           "labels = [\"喜悦\", {name = \"愤怒\", texts = [\"愤怒\", \"生气\"], "
                           "emoji = \"😠\"}]\n"
                           "system = \"判断情绪。\"\n"
                           "template = \"微博：{text}\"\n"
                           "method = \"generate\"\n"))
          .value_or_throw();
  EXPECT_EQ(task.name, "weibo");
  ASSERT_EQ(task.labels.size(), 2U);
  EXPECT_EQ(task.labels[0].texts, std::vector<std::string>{"喜悦"});
  EXPECT_EQ(task.labels[1].texts, (std::vector<std::string>{"愤怒", "生气"}));
  EXPECT_EQ(task.labels[1].emoji, "😠");
  EXPECT_EQ(task.method, Method::kGenerate);
  EXPECT_NE(task.question.find("\"喜悦\"或\"愤怒\""), std::string::npos);
  const Task asked = load_task_file(write("name = \"x\"\nlabels = [\"a\", \"b\"]\n"
                                          "question = \"a or b?\"\n"))
                         .value_or_throw();
  EXPECT_EQ(asked.question, "a or b?");
}

TEST_F(TaskFile, MistakesNameFileLineAndKey) {
  const struct {
    const char* content;
    const char* said;
  } cases[] = {
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\ncolour = \"red\"\n",
       "line 3: unknown key \"colour\""},
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\ntemplate = \"no slot\"\n", "line 3"},
      {"name = \"x\"\nlabels = \"a\"\n", "line 2"},
      {"name = \"x\"\nlabels = [\"a\"]\n", "at least two labels"},
      {"labels = [\"a\", \"b\"]\n", "\"name\" is missing"},
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\nmethod = \"guess\"\n", "method \"guess\""},
      {"name = \"x\nlabels = [", "not TOML"},
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\nhead = \"h.bin\"\n", "belong together"},
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\nmethod = \"head\"\n", "belong together"},
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\nprior = 0.5\n", "line 3"},
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\nprior = { a = 0.5 }\n", "label \"b\""},
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\nprior = { a = 0.5, c = 0.5 }\n", "\"c\""},
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\nprior = { a = 0, b = 1 }\n", "above 0"},
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\nthreshold = { a = 1.5, b = 1 }\n", "at most 1"},
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\ntemperature = 0\n", "above 0"},
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\ntemperature = \"hot\"\n", "must be a number"},
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\nraw = 1\n", "true or false"},
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\n[[examples]]\ntext = \"t\"\n", "text and label"},
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\n[[examples]]\ntext = \"t\"\nlabel = \"c\"\n",
       "\"c\" is not one of"},
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\nmethod = \"generate\"\ntemperature = 2\n",
       "no meaning"},
  };
  for (const auto& c : cases) {
    const Result<Task> task = load_task_file(write(c.content));
    ASSERT_FALSE(task) << c.content;
    EXPECT_NE(task.error().message.find(c.said), std::string::npos) << task.error().message;
    EXPECT_NE(task.error().message.find(path_.string()), std::string::npos);
  }
}

TEST_F(TaskFile, WhatIsWrittenIsRead) {
  Task task = task_from_labels({"喜悦 \"a\"", "愤\\怒\n"}, "一\n二\t\x7F").value_or_throw();
  task.name = "mine";
  task.labels[1].texts.push_back("生气");
  task.labels[1].emoji = "😠";
  task.calibration.temperature = 2;
  task.calibration.prior = {0.75, 0.25};
  task.calibration.threshold = {0.1, 1};
  task.examples = {{"第一，\"好\"", 0}, {"# 不是注释\n", 1}};
  const Task same =
      load_task_file(write(task_file_text(task, "", "rows = 3\nnote = \"x\"\n"))).value_or_throw();
  EXPECT_EQ(same.name, "mine");
  ASSERT_EQ(same.labels.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(same.labels[i].name, task.labels[i].name);
    EXPECT_EQ(same.labels[i].texts, task.labels[i].texts);
    EXPECT_EQ(same.labels[i].emoji, task.labels[i].emoji);
  }
  EXPECT_EQ(same.system, task.system);
  EXPECT_EQ(same.user_template, task.user_template);
  EXPECT_EQ(same.reply_system, task.reply_system);
  EXPECT_EQ(same.question, task.question);
  EXPECT_EQ(same.calibration.temperature, 2);
  EXPECT_EQ(same.calibration.prior, task.calibration.prior);
  EXPECT_EQ(same.calibration.threshold, task.calibration.threshold);
  ASSERT_EQ(same.examples.size(), 2U);
  EXPECT_EQ(same.examples[1].text, task.examples[1].text);
  EXPECT_EQ(same.examples[1].label, 1U);
  for (const std::string& name : builtin_task_names()) {
    const Task builtin = builtin_task(name).value_or_throw();
    const Task read = load_task_file(write(task_file_text(builtin, "", ""))).value_or_throw();
    EXPECT_EQ(read.raw, builtin.raw);
    EXPECT_EQ(read.system, builtin.system);
  }
}

TEST_F(TaskFile, TheHeadStandsBesideIt) {
  Task task = task_from_labels({"a", "b"}, {}).value_or_throw();
  LinearHead head;
  head.hidden_dim = 1;
  head.layers = {0};
  head.logistic = {2, {1, 2, 3, 4}, {5, 6}};
  const std::string head_name = "munia_task_test_" + std::to_string(getpid()) + ".head.safetensors";
  const std::string text = [&] {
    task.method = Method::kHead;
    return task_file_text(task, head_name, "");
  }();
  const std::string path = write(text);
  const auto head_path = path_.parent_path() / head_name;
  EXPECT_FALSE(load_task_file(path));  // not there yet
  ASSERT_TRUE(save_head(head, {"a", "b"}, head_path.string()).ok());
  const Task same = load_task_file(path).value_or_throw();
  std::filesystem::remove(head_path);
  EXPECT_EQ(same.method, Method::kHead);
  ASSERT_NE(same.head, nullptr);
  EXPECT_EQ(same.head->logistic.weights, head.logistic.weights);
}

}  // namespace
}  // namespace munia::tasks
