#include "tasks/prompts.h"

#include "tasks/task.h"

namespace munia::tasks {

namespace json = boost::json;

std::string fill_template(const std::string& user_template, std::string_view text) {
  std::string filled;
  std::size_t begin = 0;
  while (true) {
    const std::size_t slot = user_template.find(kTextSlot, begin);
    filled += user_template.substr(begin, slot - begin);
    if (slot == std::string::npos) return filled;
    filled += text;
    begin = slot + kTextSlot.size();
  }
}

json::object chat_message(const char* role, const std::string& content) {
  return json::object{{"role", role}, {"content", content}};
}

json::object chat_context(const std::optional<std::string>& system, const std::string& user,
                          json::array turns) {
  json::array messages;
  if (system) messages.push_back(chat_message("system", *system));
  messages.insert(messages.end(), turns.begin(), turns.end());
  messages.push_back(chat_message("user", user));
  return json::object{{"messages", std::move(messages)},
                      {"add_generation_prompt", true},
                      {"enable_thinking", false}};
}

}  // namespace munia::tasks
