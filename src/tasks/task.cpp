#include "tasks/task.h"

#include "tasks/task_file.h"

namespace munia::tasks {
namespace {

constexpr const char* kReplySystem = "你是一个温暖、简洁、有同理心的助手。";
constexpr const char* kUserTemplate = "用户输入：{text}";

// The articles' prompts, word for word (mission rows M3 and M4).
constexpr const char* kPromptA =
    "你是一个冷酷的情感分析师，只输出\"正面\"或\"负面\"，不加解释、不加标点、不加空格，"
    "且必须以中文输出。";
constexpr const char* kPromptB =
    "你是一个冷酷的情感分析师，只做二分类：\n"
    "- 输入含明显积极词汇（如'棒''赞''开心'）→ 输出'Positive'\n"
    "- 输入含明显消极词汇（如'糟''差''讨厌'）→ 输出'Negative'\n"
    "- 其他情况一律输出'Neutral'\n"
    "不解释，不扩展，只输出一个单词。\n"
    "用户输入：{text}";

Task sentiment() {
  Task task = blank_task();
  task.name = "sentiment";
  task.labels = {{"正面", {"正面"}, "😄"}, {"负面", {"负面"}, "😞"}};
  task.system = kPromptA;
  task.question = default_question(task.labels);
  return task;
}

// Prompt A as the third article's code sends it to a base model: one plain text, no template.
Task sentiment_raw() {
  Task task = sentiment();
  task.name = "sentiment-raw";
  task.user_template = std::string("\n") + kUserTemplate;
  task.raw = true;
  return task;
}

Task sentiment_3() {
  Task task = blank_task();
  task.name = "sentiment-3";
  task.labels = {{"Positive", {"Positive"}, "😄"},
                 {"Neutral", {"Neutral"}, "😐"},
                 {"Negative", {"Negative"}, "😞"}};
  task.user_template = kPromptB;
  task.question = default_question(task.labels);
  return task;
}

}  // namespace

Task blank_task() {
  Task task;
  task.user_template = kUserTemplate;
  task.reply_system = kReplySystem;
  return task;
}

namespace {

// The wording that was right most often on labelled reviews (docs/labels.md): short, the text alone
// as the user's turn, and both labels explained by what the writer does.
Task sentiment_best() {
  Task task = sentiment();
  task.name = "sentiment-best";
  task.labels[0].texts = {"positive"};
  task.labels[1].texts = {"negative"};
  task.system =
      "You label customer reviews. If the customer is satisfied overall, answer positive. If the "
      "customer complains or criticizes, answer negative.";
  task.user_template = std::string(kTextSlot);
  task.question = "Is the sentiment of the text above positive or negative? Answer with one word.";
  return task;
}

}  // namespace

std::string default_emoji(const std::string& label) {
  for (const Task& task : {sentiment(), sentiment_3()}) {
    for (const Label& known : task.labels) {
      if (known.name == label) return known.emoji;
    }
  }
  return label == "中性" ? "😐" : "";
}

std::string default_question(const std::vector<Label>& labels) {
  std::string quoted;
  for (const Label& label : labels) {
    quoted += (quoted.empty() ? "\"" : "或\"") + label.texts.front() + "\"";
  }
  return "你是一个冷酷的情感分析师。判断以上用户输入，只输出" + quoted +
         "，不加解释、不加标点、不加空格。";
}

Status check_labels(const std::vector<Label>& labels, const std::string& where) {
  if (labels.size() < 2) {
    return Error{
        ErrorCode::kInvalidArgument,
        where + ": a task needs at least two labels, it has " + std::to_string(labels.size())};
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i].name.empty()) {
      return Error{ErrorCode::kInvalidArgument, where + ": a label is empty"};
    }
    if (labels[i].texts.empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   where + ": label \"" + labels[i].name + "\" has no text to score"};
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (labels[i].name == labels[j].name) {
        return Error{ErrorCode::kInvalidArgument,
                     where + ": label \"" + labels[i].name + "\" is given twice"};
      }
    }
  }
  return {};
}

std::vector<std::string> builtin_task_names() {
  return {"sentiment", "sentiment-best", "sentiment-raw", "sentiment-3"};
}

Result<Task> builtin_task(std::string_view name) {
  if (name == "sentiment") return sentiment();
  if (name == "sentiment-best") return sentiment_best();
  if (name == "sentiment-raw") return sentiment_raw();
  if (name == "sentiment-3") return sentiment_3();
  std::string known;
  for (const std::string& known_name : builtin_task_names()) {
    known += (known.empty() ? "" : ", ") + known_name;
  }
  return Error{ErrorCode::kInvalidArgument, "there is no task \"" + std::string(name) +
                                                "\"; built in are " + known +
                                                ", or give a task file (.toml)"};
}

Result<Task> task_from_labels(const std::vector<std::string>& labels,
                              const std::optional<std::string>& system) {
  Task task = sentiment();
  task.name = "labels";
  task.labels.clear();
  std::string quoted;
  for (const std::string& label : labels) {
    task.labels.push_back({label, {label}, default_emoji(label)});
    quoted += (quoted.empty() ? "\"" : "或\"") + label + "\"";
  }
  MUNIA_RETURN_IF_ERROR(check_labels(task.labels, "labels"));
  task.question = default_question(task.labels);
  task.system = system.value_or("你是一个冷酷的情感分析师，只输出" + quoted +
                                "，不加解释、不加标点、不加空格，且必须以中文输出。");
  return task;
}

Result<Task> find_task(const std::string& name_or_path) {
  Result<Task> builtin = builtin_task(name_or_path);
  const bool looks_like_path =
      name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".toml");
  return builtin || !looks_like_path ? builtin : load_task_file(name_or_path);
}

}  // namespace munia::tasks
