// Fuzzes the template engine. An input that begins with 'J' is a JSON context for a real template
// (the next byte chooses which); any other is a template's source, rendered for a fixed context.
// Checks besides memory safety: a mark for every byte, an error's position, and that nothing in a
// context makes a special token out of bytes the template did not write.
#include <boost/json.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat.h"

namespace {

using munia::text::ChatTemplate;

constexpr munia::text::TemplateLimits kLimits = {
    .max_steps = 100'000, .max_work_bytes = 4 << 20, .max_output_bytes = 1 << 20, .max_depth = 500};

const boost::json::object& fixed_context() {
  static const auto context = boost::json::parse(R"({
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": " hi 世界 "},
      {"role": "assistant", "content": null, "tool_calls": [{"function":
        {"name": "f", "arguments": {"a": 1, "b": [true, null, 2.5]}}}]},
      {"role": "tool", "content": "<think>x</think>y"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "n": 3, "f": 2.5, "s": "Hello ß", "l": [3, 1, 2], "d": {"a": 1, "b": {"c": "x"}},
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})");
  return context.get_object();
}

const std::vector<ChatTemplate>& real_templates() {
  static const auto templates = [] {
    std::vector<ChatTemplate> list;
    const std::filesystem::path dir = MUNIA_SOURCE_DIR "/tests/data/templates";
    for (auto name :
         {"qwen2.5-coder", "think", "parts", "turns", "schema", "date", "llama2", "llama3",
          "mistral", "gemma", "gemma3", "phi3", "phi4", "deepseek-llm", "deepseek-r1"}) {
      std::ifstream in(dir / (std::string(name) + ".jinja"), std::ios::binary);
      std::stringstream text;
      text << in.rdbuf();
      auto parsed = ChatTemplate::parse(text.str());
      if (!in || !parsed) std::abort();
      list.push_back(*std::move(parsed));
    }
    return list;
  }();
  return templates;
}

void check(bool ok) {
  if (!ok) std::abort();
}

void check_result(const munia::Result<munia::text::MarkedText>& result) {
  if (result) {
    check(result->bytes.size() == result->trusted.size());
  } else {
    check(!result.error().message.empty());
  }
}

void fuzz_context(std::string_view text) {
  if (text.empty()) return;
  auto& templates = real_templates();
  // '0' is the first.
  const auto number = static_cast<unsigned char>(static_cast<unsigned char>(text[0]) - '0');
  auto& chosen = templates[number % templates.size()];
  boost::system::error_code ec;
  auto context = boost::json::parse(text.substr(1), ec);
  if (ec || !context.is_object()) return;
  auto result = chosen.render(context.get_object(), kLimits);
  check_result(result);
  if (result) {
    // These templates never write this token: only a user could, and then it is not trusted.
    constexpr std::string_view kForeign = "<|foreign|>";
    bool special =
        context.get_object().contains("bos_token") || context.get_object().contains("eos_token");
    for (auto at = result->bytes.find(kForeign); !special && at != std::string::npos;
         at = result->bytes.find(kForeign, at + 1)) {
      check(result->trusted.substr(at, kForeign.size()).find('\0') != std::string::npos);
    }
  }
  check_result(munia::text::render_chat(chosen, context.get_object()));
}

void fuzz_source(std::string_view text) {
  auto parsed = ChatTemplate::parse(text);
  if (!parsed) {
    check(parsed.error().message.starts_with("line "));
    return;
  }
  auto result = parsed->render(fixed_context(), kLimits);
  check_result(result);
  if (!result) check(result.error().message.starts_with("line "));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with('J')) {
    fuzz_context(text.substr(1));
  } else {
    fuzz_source(text);
  }
  return 0;
}
