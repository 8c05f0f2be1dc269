// Checking and completing a conversation before the template sees it; reading template files.
#include "text/chat.h"

#include <boost/json/parse.hpp>
#include <fstream>
#include <utility>

namespace munia::text {

namespace {

namespace json = boost::json;

Error bad(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Status check_parts(const json::array& parts, const std::string& where) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto at = where + "[" + std::to_string(i) + "]";
    auto part = parts[i].if_object();
    if (!part) return bad(at + " must be an object with a \"type\"");
    auto type = part->if_contains("type");
    if (!type || !type->is_string()) return bad(at + ".type must be a string");
    if (type->get_string() != "text") {
      auto name = std::string(type->get_string().subview(0, 40));
      return Error{ErrorCode::kUnsupported,
                   at + ".type is \"" + name + "\": this model reads \"text\" only"};
    }
    auto text = part->if_contains("text");
    if (!text || !text->is_string()) return bad(at + ".text must be a string");
  }
  return {};
}

Status check_message(const json::value& message, const std::string& where) {
  auto object = message.if_object();
  if (!object) return bad(where + " must be an object with \"role\" and \"content\"");
  auto role = object->if_contains("role");
  if (!role || !role->is_string()) return bad(where + ".role must be a string");
  auto content = object->if_contains("content");
  if (!content || content->is_null() || content->is_string()) return {};
  if (!content->is_array()) {
    return bad(where + ".content must be a string or a list of {\"type\": \"text\", \"text\": …}");
  }
  return check_parts(content->get_array(), where + ".content");
}

void drop_nulls(json::object& message) {
  json::object kept(message.storage());
  for (auto& item : message) {
    if (!item.value().is_null()) kept.emplace(item.key(), std::move(item.value()));
  }
  message = std::move(kept);
}

void alias_reasoning(json::object& message) {
  for (auto name : {"reasoning_content", "thinking", "reasoning"}) {
    auto found = message.if_contains(name);
    if (!found) continue;
    json::value reasoning = *found;
    if (!message.contains("thinking")) {  // becomes the first key, as in the reference
      json::object with(message.storage());
      with.emplace("thinking", reasoning);
      for (auto& item : message) with.emplace(item.key(), std::move(item.value()));
      message = std::move(with);
    }
    message["reasoning_content"] = std::move(reasoning);
    return;
  }
}

void join_parts(json::object& message) {
  auto content = message.if_contains("content");
  if (!content || !content->is_array()) return;
  json::string joined(message.storage());
  bool first = true;
  for (auto& part : content->get_array()) {
    if (!std::exchange(first, false)) joined.push_back('\n');
    joined.append(part.get_object().at("text").get_string());
  }
  *content = std::move(joined);
}

constexpr std::size_t kMaxConfigBytes = 64u << 20;  // a tokenizer_config.json lists added tokens

Result<std::string> read_text(const std::filesystem::path& path, std::size_t max_bytes) {
  std::error_code ec;
  auto size = std::filesystem::file_size(path, ec);
  if (ec) {
    return Error{ErrorCode::kIo, "cannot read " + path.string() + ": " + ec.message()};
  }
  if (size > max_bytes) {
    return Error{ErrorCode::kLimit, path.string() + " has " + std::to_string(size) +
                                        " bytes; at most " + std::to_string(max_bytes) +
                                        " are read"};
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(size, '\0');
  if (!in || !in.read(text.data(), static_cast<std::streamsize>(size))) {
    return Error{ErrorCode::kIo, "cannot read " + path.string()};
  }
  return text;
}

Result<ChatTemplateSources> from_config(const std::filesystem::path& path) {
  MUNIA_ASSIGN_OR_RETURN(auto text, read_text(path, kMaxConfigBytes));
  boost::system::error_code ec;
  auto config = json::parse(text, ec);
  auto wrong = [&](const std::string& what) {
    return Error{ErrorCode::kInvalidData, path.string() + ": " + what};
  };
  if (ec) return wrong("not valid JSON: " + ec.message());
  auto object = config.if_object();
  if (!object) return wrong("not a JSON object");
  auto entry = object->if_contains("chat_template");
  if (!entry || entry->is_null()) {
    return Error{ErrorCode::kNotFound, path.string() + " has no chat_template"};
  }
  ChatTemplateSources sources;
  if (auto source = entry->if_string()) {
    sources.source = std::string(source->subview());
    return sources;
  }
  auto list = entry->if_array();
  if (!list) return wrong("chat_template must be a string or a list");
  bool found = false;
  for (auto& item : *list) {
    auto named = item.if_object();
    auto name = named ? named->if_contains("name") : nullptr;
    auto source = named ? named->if_contains("template") : nullptr;
    if (!name || !name->is_string() || !source || !source->is_string()) {
      return wrong("an entry of chat_template has no string \"name\" and \"template\"");
    }
    if (name->get_string() == "default") {
      sources.source = std::string(source->get_string().subview());
      found = true;
    } else if (name->get_string() == "tool_use") {
      sources.tool_use = std::string(source->get_string().subview());
    }
  }
  if (!found) return wrong("chat_template has no entry named \"default\"");
  return sources;
}

}  // namespace

json::array to_json(std::span<const ChatMessage> messages) {
  json::array array;
  for (auto& message : messages) {
    array.push_back(json::object{{"role", message.role}, {"content", message.content}});
  }
  return array;
}

Status check_chat(const json::object& context) {
  auto messages = context.if_contains("messages");
  if (!messages || !messages->is_array() || messages->get_array().empty()) {
    return bad("messages must be a list with at least one message");
  }
  auto& list = messages->get_array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    MUNIA_RETURN_IF_ERROR(check_message(list[i], "messages[" + std::to_string(i) + "]"));
  }
  auto tools = context.if_contains("tools");
  if (!tools || tools->is_null()) return {};
  if (!tools->is_array()) return bad("tools must be a list of objects");
  for (std::size_t i = 0; i < tools->get_array().size(); ++i) {
    if (!tools->get_array()[i].is_object()) {
      return bad("tools[" + std::to_string(i) + "] must be an object");
    }
  }
  return {};
}

Result<MarkedText> render_chat(const ChatTemplate& chat_template, json::object context) {
  MUNIA_RETURN_IF_ERROR(check_chat(context));
  for (auto& message : context["messages"].get_array()) {
    auto& object = message.get_object();
    drop_nulls(object);
    alias_reasoning(object);
    if (!chat_template.walks_content_parts()) join_parts(object);
  }
  context.emplace("tools", nullptr);  // emplace keeps what is there
  context.emplace("documents", nullptr);
  context.emplace("add_generation_prompt", false);
  return chat_template.render(context);
}

Result<ChatTemplateSources> find_chat_template_sources(const std::filesystem::path& dir) {
  std::error_code ec;
  auto jinja = dir / "chat_template.jinja";
  if (std::filesystem::is_regular_file(jinja, ec)) {
    ChatTemplateSources sources;
    MUNIA_ASSIGN_OR_RETURN(sources.source, read_text(jinja, ChatTemplate::kMaxSourceBytes));
    auto tool_use = dir / "additional_chat_templates" / "tool_use.jinja";
    if (std::filesystem::is_regular_file(tool_use, ec)) {
      MUNIA_ASSIGN_OR_RETURN(sources.tool_use, read_text(tool_use, ChatTemplate::kMaxSourceBytes));
    }
    return sources;
  }
  auto config = dir / "tokenizer_config.json";
  if (std::filesystem::is_regular_file(config, ec)) return from_config(config);
  return Error{ErrorCode::kNotFound, "no chat template in " + dir.string() +
                                         ": neither chat_template.jinja nor "
                                         "tokenizer_config.json is there"};
}

Result<std::string> find_chat_template_source(const std::filesystem::path& dir) {
  MUNIA_ASSIGN_OR_RETURN(auto sources, find_chat_template_sources(dir));
  return std::move(sources.source);
}

}  // namespace munia::text
