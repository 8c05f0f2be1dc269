// The prompts of tasks: user templates filled in, and the JSON that chat templates are rendered
// with.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace munia::tasks {

/// Every {text} of a user template replaced by the text.
std::string fill_template(const std::string& user_template, std::string_view text);

boost::json::object chat_message(const char* role, const std::string& content);

/// The system message where there is one, `turns`, then the user's message; the model answers.
boost::json::object chat_context(const std::optional<std::string>& system, const std::string& user,
                                 boost::json::array turns = {});

}  // namespace munia::tasks
