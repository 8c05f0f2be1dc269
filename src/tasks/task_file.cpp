#include "tasks/task_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <toml.hpp>
#include <utility>

#include "base/json_writer.h"
#include "base/mapped_file.h"

namespace munia::tasks {
namespace {

constexpr std::size_t kMaxTaskFileBytes = std::size_t{1} << 20;

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
    label.emoji = default_emoji(label.name);
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

// What refers to labels by their names waits until all labels are read: the keys of a table come in
// no order.
class TaskReader {
 public:
  explicit TaskReader(const std::string& path) : path_(path) { task_ = blank_task(); }

  Result<Task> read(const toml::value& root) {
    for (const auto& [key, value] : root.as_table()) {
      MUNIA_RETURN_IF_ERROR(read_key(key, value));
    }
    if (task_.name.empty()) return Error{ErrorCode::kInvalidData, path_ + ": \"name\" is missing"};
    MUNIA_RETURN_IF_ERROR(check_labels(task_.labels, path_));
    if (task_.question.empty()) task_.question = default_question(task_.labels);
    MUNIA_RETURN_IF_ERROR(read_shares("prior", prior_, task_.calibration.prior));
    MUNIA_RETURN_IF_ERROR(read_shares("threshold", threshold_, task_.calibration.threshold));
    MUNIA_RETURN_IF_ERROR(read_examples());
    MUNIA_RETURN_IF_ERROR(read_head());
    if (task_.raw && !task_.examples.empty()) {
      return Error{ErrorCode::kInvalidData,
                   path_ + ": examples are turns of a chat, and raw means no chat template"};
    }
    if (task_.method == Method::kGenerate && !task_.calibration.is_plain()) {
      return Error{ErrorCode::kInvalidData,
                   path_ +
                       ": prior, temperature and threshold have no meaning with method generate, "
                       "which has no probabilities"};
    }
    return std::move(task_);
  }

 private:
  Status read_key(const std::string& key, const toml::value& value) {
    if (key == "labels") return read_labels(value);
    if (key == "prior") return keep(value, prior_);
    if (key == "threshold") return keep(value, threshold_);
    if (key == "examples") return keep(value, examples_);
    if (key == "fit") return {};  // a record for people
    if (key == "raw") {
      if (!value.is_boolean()) return at(value, path_, "\"raw\" must be true or false");
      task_.raw = value.as_boolean();
      return {};
    }
    if (key == "temperature") {
      MUNIA_ASSIGN_OR_RETURN(task_.calibration.temperature, read_number(value, key));
      if (task_.calibration.temperature > 0) return {};
      return at(value, path_, "\"temperature\" must be above 0");
    }
    MUNIA_ASSIGN_OR_RETURN(std::string text, read_string(value, path_, key));
    if (key == "name") {
      task_.name = std::move(text);
    } else if (key == "system") {
      task_.system = std::move(text);
    } else if (key == "template") {
      if (text.find(kTextSlot) == std::string::npos) {
        return at(value, path_, "\"template\" has no {text}");
      }
      task_.user_template = std::move(text);
    } else if (key == "reply_system") {
      task_.reply_system = std::move(text);
    } else if (key == "question") {
      task_.question = std::move(text);
    } else if (key == "head") {
      head_file_ = std::move(text);
    } else if (key == "method") {
      return read_method(value, text);
    } else {
      return at(value, path_,
                "unknown key \"" + key +
                    "\"; a task has name, labels, system, template, raw, reply_system, "
                    "question, method, prior, temperature, threshold, examples, head");
    }
    return {};
  }

  static Status keep(const toml::value& value, std::optional<toml::value>& place) {
    place = value;
    return {};
  }

  Status read_labels(const toml::value& value) {
    if (!value.is_array()) return at(value, path_, "\"labels\" must be a list");
    for (const toml::value& entry : value.as_array()) {
      MUNIA_ASSIGN_OR_RETURN(Label label, read_label(entry, path_));
      task_.labels.push_back(std::move(label));
    }
    return {};
  }

  Status read_method(const toml::value& value, const std::string& text) {
    static constexpr std::pair<std::string_view, Method> kMethods[] = {
        {"score", Method::kScore}, {"generate", Method::kGenerate}, {"head", Method::kHead}};
    for (const auto& [name, method] : kMethods) {
      if (text != name) continue;
      task_.method = method;
      return {};
    }
    return at(value, path_, "method \"" + text + "\" is not known; it is score, generate or head");
  }

  Result<double> read_number(const toml::value& value, const std::string& key) const {
    const double number = value.is_floating()  ? value.as_floating()
                          : value.is_integer() ? static_cast<double>(value.as_integer())
                                               : std::nan("");
    if (std::isfinite(number)) return number;
    return at(value, path_, "\"" + key + "\" must be a number");
  }

  Result<std::size_t> label_index(const toml::value& value, const std::string& name) const {
    for (std::size_t i = 0; i < task_.labels.size(); ++i) {
      if (task_.labels[i].name == name) return i;
    }
    return at(value, path_, "\"" + name + "\" is not one of the task's labels");
  }

  // A share above 0 and at most 1 for every label.
  Status read_shares(const std::string& key, const std::optional<toml::value>& value,
                     std::vector<double>& out) {
    if (!value) return {};
    if (!value->is_table()) {
      return at(*value, path_, "\"" + key + "\" must be a table with a number for every label");
    }
    out.assign(task_.labels.size(), 0);
    for (const auto& [name, part] : value->as_table()) {
      MUNIA_ASSIGN_OR_RETURN(const std::size_t i, label_index(part, name));
      MUNIA_ASSIGN_OR_RETURN(out[i], read_number(part, key + "." + name));
      if (out[i] <= 0 || out[i] > 1 || !std::isnormal(out[i])) {
        return at(part, path_, "\"" + key + "." + name + "\" must be above 0 and at most 1");
      }
    }
    const auto missing = std::find(out.begin(), out.end(), 0.0);
    if (missing == out.end()) return {};
    return at(*value, path_,
              "\"" + key + "\" has no number for the label \"" +
                  task_.labels[static_cast<std::size_t>(missing - out.begin())].name + "\"");
  }

  Status read_examples() {
    if (!examples_) return {};
    if (!examples_->is_array())
      return at(*examples_, path_, "\"examples\" must be a list of tables");
    for (const toml::value& entry : examples_->as_array()) {
      if (!entry.is_table() || entry.size() != 2 || !entry.contains("text") ||
          !entry.contains("label")) {
        return at(entry, path_, "an example is a table with text and label");
      }
      Example example;
      MUNIA_ASSIGN_OR_RETURN(example.text, read_string(entry.at("text"), path_, "text"));
      MUNIA_ASSIGN_OR_RETURN(const std::string label,
                             read_string(entry.at("label"), path_, "label"));
      MUNIA_ASSIGN_OR_RETURN(example.label, label_index(entry.at("label"), label));
      task_.examples.push_back(std::move(example));
    }
    return {};
  }

  Status read_head() {
    if (head_file_.empty() != (task_.method != Method::kHead)) {
      return Error{ErrorCode::kInvalidData,
                   path_ + ": method \"head\" and the key \"head\" belong together"};
    }
    if (head_file_.empty()) return {};
    std::vector<std::string> names;
    for (const Label& label : task_.labels) names.push_back(label.name);
    const auto file = std::filesystem::path(path_).parent_path() / head_file_;
    MUNIA_ASSIGN_OR_RETURN(LinearHead head, load_head(file.string(), names));
    task_.head = std::make_shared<const LinearHead>(std::move(head));
    return {};
  }

  const std::string& path_;
  Task task_;
  std::optional<toml::value> prior_;
  std::optional<toml::value> threshold_;
  std::optional<toml::value> examples_;
  std::string head_file_;
};

}  // namespace

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
  return TaskReader(path).read(root);
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      constexpr char kHex[] = "0123456789ABCDEF";
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[static_cast<unsigned char>(c) & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

namespace {

std::string toml_number(double number) {
  JsonWriter writer;
  std::string text = writer.value(number).text();
  // TOML wants a point or an exponent in a number that is no integer.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string shares_line(const char* key, const Task& task, const std::vector<double>& shares) {
  if (shares.empty()) return "";
  std::string line = std::string(key) + " = {";
  for (std::size_t i = 0; i < shares.size(); ++i) {
    line +=
        (i == 0 ? " " : ", ") + toml_string(task.labels[i].name) + " = " + toml_number(shares[i]);
  }
  return line + " }\n";
}

std::string label_entry(const Label& label) {
  std::string texts;
  for (const std::string& text : label.texts) {
    texts += (texts.empty() ? "" : ", ") + toml_string(text);
  }
  return "  { name = " + toml_string(label.name) + ", texts = [" + texts +
         "], emoji = " + toml_string(label.emoji) + " },\n";
}

}  // namespace

std::string task_file_text(const Task& task, const std::string& head_file,
                           const std::string& record) {
  std::string out = "name = " + toml_string(task.name) + "\nlabels = [\n";
  for (const Label& label : task.labels) out += label_entry(label);
  out += "]\n";
  if (task.system) out += "system = " + toml_string(*task.system) + "\n";
  out += "template = " + toml_string(task.user_template) + "\n";
  if (task.raw) out += "raw = true\n";
  out += "reply_system = " + toml_string(task.reply_system) + "\n";
  out += "question = " + toml_string(task.question) + "\n";
  const char* const methods[] = {"score", "generate", "head"};
  out += std::string("method = \"") + methods[static_cast<std::size_t>(task.method)] + "\"\n";
  if (task.method == Method::kHead) out += "head = " + toml_string(head_file) + "\n";
  out += shares_line("prior", task, task.calibration.prior);
  if (task.calibration.temperature != 1) {
    out += "temperature = " + toml_number(task.calibration.temperature) + "\n";
  }
  out += shares_line("threshold", task, task.calibration.threshold);
  for (const Example& example : task.examples) {
    out += "\n[[examples]]\ntext = " + toml_string(example.text) +
           "\nlabel = " + toml_string(task.labels[example.label].name) + "\n";
  }
  if (!record.empty()) out += "\n[fit]\n" + record;
  return out;
}

namespace {

template <class Write>
Status replace_file(const std::filesystem::path& path, const Write& write_part) {
  const std::string part = path.string() + ".partial";
  Status status = write_part(part);
  std::error_code error;
  if (status) std::filesystem::rename(part, path, error);
  if (status && error) {
    status = Error{ErrorCode::kIo, "cannot write " + path.string() + ": " + error.message()};
  }
  if (!status) std::filesystem::remove(part, error);
  return status;
}

}  // namespace

Status save_task(const Task& task, const std::string& path, const std::string& record) {
  if (!path.ends_with(".toml")) {
    return Error{ErrorCode::kInvalidArgument, path + ": a task file must end in .toml"};
  }
  const std::filesystem::path head_path =
      std::filesystem::path(path).replace_extension(".head.safetensors");
  if (task.head != nullptr) {
    std::vector<std::string> labels;
    for (const Label& label : task.labels) labels.push_back(label.name);
    MUNIA_RETURN_IF_ERROR(replace_file(
        head_path, [&](const std::string& part) { return save_head(*task.head, labels, part); }));
  }
  const std::string text = task_file_text(task, head_path.filename().string(), record);
  return replace_file(path, [&](const std::string& part) -> Status {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    if (!out) return Error{ErrorCode::kIo, "cannot write " + part};
    return {};
  });
}

}  // namespace munia::tasks
