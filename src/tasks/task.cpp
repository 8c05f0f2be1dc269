#include "tasks/task.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <toml.hpp>

#include "base/mapped_file.h"

namespace munia::tasks {
namespace {

constexpr std::size_t kMaxTaskFileBytes = std::size_t{1} << 20;
constexpr std::string_view kTextSlot = "{text}";
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

// Behind a text, for predict's shared prompt.
std::string question_for(const std::vector<Label>& labels) {
  std::string quoted;
  for (const Label& label : labels) {
    quoted += (quoted.empty() ? "\"" : "或\"") + label.texts.front() + "\"";
  }
  return "你是一个冷酷的情感分析师。判断以上用户输入，只输出" + quoted +
         "，不加解释、不加标点、不加空格。";
}

Task sentiment() {
  Task task;
  task.name = "sentiment";
  task.labels = {{"正面", {"正面"}, "😄"}, {"负面", {"负面"}, "😞"}};
  task.system = kPromptA;
  task.user_template = kUserTemplate;
  task.reply_system = kReplySystem;
  task.question = question_for(task.labels);
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
  Task task;
  task.name = "sentiment-3";
  task.labels = {{"Positive", {"Positive"}, "😄"},
                 {"Neutral", {"Neutral"}, "😐"},
                 {"Negative", {"Negative"}, "😞"}};
  task.user_template = kPromptB;
  task.reply_system = kReplySystem;
  task.question = question_for(task.labels);
  return task;
}

std::string known_emoji(const std::string& label) {
  for (const Task& task : {sentiment(), sentiment_3()}) {
    for (const Label& known : task.labels) {
      if (known.name == label) return known.emoji;
    }
  }
  return label == "中性" ? "😐" : "";
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

Error at(const toml::value& value, const std::string& path, const std::string& what) {
  return {ErrorCode::kInvalidData,
          path + " line " + std::to_string(value.location().line()) + ": " + what};
}

Result<std::string> read_string(const toml::value& value, const std::string& path,
                                const std::string& key) {
  if (!value.is_string()) return at(value, path, "\"" + key + "\" must be a string");
  return std::string(value.as_string().str);
}

Result<Label> read_label(const toml::value& value, const std::string& path) {
  Label label;
  if (value.is_string()) {
    label.name = value.as_string().str;
    label.texts = {label.name};
    label.emoji = known_emoji(label.name);
    return label;
  }
  if (!value.is_table()) {
    return at(value, path, "a label must be a string or a table with name, texts, emoji");
  }
  for (const auto& [key, part] : value.as_table()) {
    if (key == "name") {
      MUNIA_ASSIGN_OR_RETURN(label.name, read_string(part, path, key));
    } else if (key == "emoji") {
      MUNIA_ASSIGN_OR_RETURN(label.emoji, read_string(part, path, key));
    } else if (key == "texts") {
      if (!part.is_array()) return at(part, path, "\"texts\" must be a list of strings");
      for (const toml::value& text : part.as_array()) {
        MUNIA_ASSIGN_OR_RETURN(std::string one, read_string(text, path, "texts"));
        label.texts.push_back(std::move(one));
      }
    } else {
      return at(part, path, "a label has no key \"" + key + "\"; it takes name, texts, emoji");
    }
  }
  if (label.texts.empty()) label.texts = {label.name};
  return label;
}

Status read_key(const std::string& key, const toml::value& value, const std::string& path,
                Task& task) {
  if (key == "labels") {
    if (!value.is_array()) return at(value, path, "\"labels\" must be a list");
    for (const toml::value& entry : value.as_array()) {
      MUNIA_ASSIGN_OR_RETURN(Label label, read_label(entry, path));
      task.labels.push_back(std::move(label));
    }
    return {};
  }
  if (key == "prior" || key == "threshold" || key == "head") {
    return at(value, path, "\"" + key + "\" is not supported by this version of munia");
  }
  MUNIA_ASSIGN_OR_RETURN(std::string text, read_string(value, path, key));
  if (key == "name") {
    task.name = std::move(text);
  } else if (key == "system") {
    task.system = std::move(text);
  } else if (key == "template") {
    if (text.find(kTextSlot) == std::string::npos) {
      return at(value, path, "\"template\" has no {text}");
    }
    task.user_template = std::move(text);
  } else if (key == "reply_system") {
    task.reply_system = std::move(text);
  } else if (key == "question") {
    task.question = std::move(text);
  } else if (key == "method") {
    if (text == "score") {
      task.method = Method::kScore;
    } else if (text == "generate") {
      task.method = Method::kGenerate;
    } else {
      return at(value, path, "method \"" + text + "\" is not known; it is score or generate");
    }
  } else {
    return at(value, path,
              "unknown key \"" + key +
                  "\"; a task has name, labels, system, template, reply_system, question, method");
  }
  return {};
}

}  // namespace

std::vector<std::string> builtin_task_names() {
  return {"sentiment", "sentiment-raw", "sentiment-3"};
}

Result<Task> builtin_task(std::string_view name) {
  if (name == "sentiment") return sentiment();
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
    task.labels.push_back({label, {label}, known_emoji(label)});
    quoted += (quoted.empty() ? "\"" : "或\"") + label + "\"";
  }
  MUNIA_RETURN_IF_ERROR(check_labels(task.labels, "labels"));
  task.question = question_for(task.labels);
  task.system = system.value_or("你是一个冷酷的情感分析师，只输出" + quoted +
                                "，不加解释、不加标点、不加空格，且必须以中文输出。");
  return task;
}

Result<Task> load_task_file(const std::string& path) {
  MUNIA_ASSIGN_OR_RETURN(const std::string content, read_file(path, kMaxTaskFileBytes));
  std::istringstream stream(content);
  toml::value root;
  try {
    root = toml::parse(stream, path);
  } catch (const toml::exception& error) {
    // toml11 reports by exception, in several lines; the first one names the mistake.
    const std::string what = error.what();
    return Error{ErrorCode::kInvalidData, path + " line " +
                                              std::to_string(error.location().line()) +
                                              ": not TOML: " + what.substr(0, what.find('\n'))};
  }
  Task task;
  task.user_template = kUserTemplate;
  task.reply_system = kReplySystem;
  for (const auto& [key, value] : root.as_table()) {
    MUNIA_RETURN_IF_ERROR(read_key(key, value, path, task));
  }
  if (task.name.empty()) return Error{ErrorCode::kInvalidData, path + ": \"name\" is missing"};
  MUNIA_RETURN_IF_ERROR(check_labels(task.labels, path));
  if (task.question.empty()) task.question = question_for(task.labels);
  return task;
}

Result<Task> find_task(const std::string& name_or_path) {
  Result<Task> builtin = builtin_task(name_or_path);
  const bool looks_like_path =
      name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".toml");
  return builtin || !looks_like_path ? builtin : load_task_file(name_or_path);
}

}  // namespace munia::tasks
