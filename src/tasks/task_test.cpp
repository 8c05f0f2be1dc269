#include "tasks/task.h"

#include <gtest/gtest.h>

namespace munia::tasks {
namespace {

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

TEST(Task, TheBestWordingHasTheLabelsOfTheArticles) {
  const Task best = builtin_task("sentiment-best").value_or_throw();
  EXPECT_EQ(best.labels[0].name, "正面");
  EXPECT_EQ(best.labels[1].name, "负面");
  EXPECT_EQ(best.labels[0].emoji, "😄");
  EXPECT_EQ(best.user_template, "{text}");
  // What is asked for is what is scored.
  for (const Label& label : best.labels) {
    EXPECT_NE(best.system->find("answer " + label.texts.front()), std::string::npos);
    EXPECT_NE(best.question.find(label.texts.front()), std::string::npos);
  }
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

}  // namespace
}  // namespace munia::tasks
