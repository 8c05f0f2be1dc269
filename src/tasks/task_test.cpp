#include "tasks/task.h"

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

TEST(Task, TheArticlesPromptsStandWordForWord) {
  const Task a = builtin_task("sentiment").value_or_throw();
  EXPECT_EQ(*a.system,
            "你是一个冷酷的情感分析师，只输出\"正面\"或\"负面\"，不加解释、不加标点、不加空格，"
            "且必须以中文输出。");
  EXPECT_EQ(a.user_template, "用户输入：{text}");
  EXPECT_EQ(a.reply_system, "你是一个温暖、简洁、有同理心的助手。");
  const Task b = builtin_task("sentiment-3").value_or_throw();
  ASSERT_EQ(b.labels.size(), 3U);
  EXPECT_EQ(b.labels[0].name, "Positive");
  EXPECT_EQ(b.labels[1].name, "Neutral");
  EXPECT_EQ(b.labels[2].name, "Negative");
  EXPECT_TRUE(b.user_template.ends_with("不解释，不扩展，只输出一个单词。\n用户输入：{text}"));
  EXPECT_TRUE(builtin_task("sentiment-raw").value_or_throw().raw);
}

TEST(Task, AnUnknownNameListsTheKnownOnes) {
  const Result<Task> task = find_task("feelings");
  ASSERT_FALSE(task);
  EXPECT_NE(task.error().message.find("feelings"), std::string::npos);
  EXPECT_NE(task.error().message.find("sentiment-3"), std::string::npos);
}

TEST(Task, LabelsMustBeTwoAndDistinct) {
  EXPECT_FALSE(task_from_labels({"好"}, {}));
  EXPECT_FALSE(task_from_labels({"好", "好"}, {}));
  EXPECT_FALSE(task_from_labels({"好", ""}, {}));
  const Task task = task_from_labels({"愤怒", "喜悦", "中性"}, {}).value_or_throw();
  EXPECT_NE(task.system->find("\"愤怒\"或\"喜悦\"或\"中性\""), std::string::npos);
  EXPECT_EQ(*task_from_labels({"a", "b"}, "Choose.").value_or_throw().system, "Choose.");
}

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
      {"name = \"x\"\nlabels = [\"a\", \"b\"]\nhead = \"h.bin\"\n", "not supported"},
  };
  for (const auto& c : cases) {
    const Result<Task> task = load_task_file(write(c.content));
    ASSERT_FALSE(task) << c.content;
    EXPECT_NE(task.error().message.find(c.said), std::string::npos) << task.error().message;
    EXPECT_NE(task.error().message.find(path_.string()), std::string::npos);
  }
}

}  // namespace
}  // namespace munia::tasks
