// From a conversation to the text that the model reads: checks the messages' shape, fills in what
// transformers' apply_chat_template fills in, and renders the model's own template. Also finds
// that template in a model's folder. (A GGUF file has it in its metadata, tokenizer.chat_template.)
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <filesystem>
#include <span>
#include <string>

#include "base/error.h"
#include "text/chat_template.h"

namespace munia::text {

struct ChatMessage {
  std::string role;
  std::string content;
};

boost::json::array to_json(std::span<const ChatMessage> messages);

/// Checks a context's "messages": a list with at least one object, each with a string "role" and a
/// "content" that is a string, null or absent, or a list of {"type": "text", "text": "…"}; and
/// "tools", if there: a list of objects. Errors name the message: "messages[2].role …".
Status check_chat(const boost::json::object& context);

/// Renders a conversation as apply_chat_template does. The tokens bos_token, eos_token, pad_token
/// and unk_token count as the template's text (chat_template.h): take them from the model's files,
/// never from a request. `context` has "messages" and may have
/// "add_generation_prompt", "tools", "enable_thinking", "bos_token" and whatever else the template
/// reads, all passed on as they are, but:
///  - tools, documents and add_generation_prompt are null, null and false where absent;
///  - keys of a message that are null are dropped;
///  - a message's reasoning is found under reasoning_content, whether it came as that, as
///    "thinking" or as "reasoning", and under "thinking";
///  - text parts are joined by newlines to one string if the template does not walk over parts.
Result<MarkedText> render_chat(const ChatTemplate& chat_template, boost::json::object context);

struct ChatTemplateSources {
  std::string source;    // the default template
  std::string tool_use;  // the one for conversations with tools, or empty: then use `source`
  const std::string& pick(bool with_tools) const {
    return with_tools && !tool_use.empty() ? tool_use : source;
  }
};

/// The templates of a Hugging Face model folder: chat_template.jinja (and
/// additional_chat_templates/tool_use.jinja), else "chat_template" of tokenizer_config.json, a
/// string or a list of {"name", "template"}. kNotFound if there is none.
Result<ChatTemplateSources> find_chat_template_sources(const std::filesystem::path& dir);
/// The default one of them.
Result<std::string> find_chat_template_source(const std::filesystem::path& dir);

}  // namespace munia::text
