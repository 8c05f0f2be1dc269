// Completing a conversation as apply_chat_template does, the shape checks, and finding templates.
#include "text/chat.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

namespace munia::text {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

const std::string kData = std::string(MUNIA_SOURCE_DIR) + "/tests/data/templates/";

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

ChatTemplate parse(std::string_view source) { return *ChatTemplate::parse(source); }

bool has_parts(const json::object& context) {
  for (auto& message : context.at("messages").get_array()) {
    auto content = message.get_object().if_contains("content");
    if (content && content->is_array()) return true;
  }
  return false;
}

// The same conversation with each list of text parts as one text, a line each.
json::object with_joined_parts(json::object context) {
  for (auto& item : context.at("messages").get_array()) {
    auto content = item.get_object().if_contains("content");
    if (!content || !content->is_array()) continue;
    std::string joined;
    for (auto& part : content->get_array()) {
      if (!joined.empty()) joined += "\n";
      joined += std::string(part.get_object().at("text").get_string());
    }
    *content = joined;
  }
  return context;
}

// What munia takes as a conversation: a role, and text or parts of text. The reference also renders
// numbers, images and objects, each template in its own way; munia says no before any template.
bool is_conversation(const json::object& context) {
  if (context.at("messages").get_array().empty()) return false;
  for (auto& item : context.at("messages").get_array()) {
    auto& message = item.get_object();
    auto role = message.if_contains("role");
    if (!role || !role->is_string()) return false;
    auto content = message.if_contains("content");
    if (!content || content->is_null() || content->is_string()) continue;
    if (!content->is_array()) return false;
    for (auto& part : content->get_array()) {
      auto type = part.get_object().if_contains("type");
      if (!type || *type != "text") return false;
    }
  }
  return true;
}

TEST(Chat, EqualsApplyChatTemplate) {
  auto goldens = json::parse(read_file(kData + "goldens.json"));
  auto& contexts = goldens.at("contexts").get_array();
  std::size_t compared = 0, joined = 0, refused = 0;
  for (auto& item : goldens.at("templates").get_object()) {
    auto chat_template = parse(read_file(kData + std::string(item.key())));
    auto& rows = item.value().get_array();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto& want = rows[i].get_array().back();
      auto& context = contexts[i].get_object();
      if (!is_conversation(context)) {
        auto got = render_chat(chat_template, context);
        ASSERT_FALSE(got.ok()) << item.key() << ", context " << i;
        EXPECT_TRUE(got.error().message.starts_with("messages")) << got.error().message;
        ++refused;
        continue;
      }
      if (has_parts(context) && !chat_template.walks_content_parts()) {
        ++joined;  // where the reference fails or prints a Python list, the text is joined instead
        auto parts = render_chat(chat_template, context);
        auto plain = render_chat(chat_template, with_joined_parts(context));
        ASSERT_EQ(parts.ok(), plain.ok()) << item.key() << ", context " << i;
        if (parts) {
          EXPECT_EQ(parts->bytes, plain->bytes) << item.key() << ", context " << i;
        }
        continue;
      }
      auto got = render_chat(chat_template, context);
      if (want.is_string()) {
        ASSERT_TRUE(got.ok()) << item.key() << ", context " << i << got.error().message;
        EXPECT_EQ(got->bytes, want.get_string()) << item.key() << ", context " << i;
      } else {
        EXPECT_FALSE(got.ok()) << item.key() << ", context " << i;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 300u);
  std::cout << compared << " conversations compared, " << joined << " with joined parts, "
            << refused << " refused\n";
}

TEST(Chat, JoinsPartsForTemplatesOfStrings) {
  json::object context = {
      {"messages",
       {{{"role", "user"},
         {"content", {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}}}}}};
  auto plain = parse("{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_FALSE(plain.walks_content_parts());
  EXPECT_EQ(render_chat(plain, context)->bytes, "a\nb");
  EXPECT_EQ(render_chat(plain, context)->trusted, std::string(3, '\0'));
  auto parts = parse(
      "{% for m in messages %}{% for p in m['content'] %}[{{ p.text }}]{% endfor %}{% endfor %}");
  EXPECT_TRUE(parts.walks_content_parts());
  EXPECT_EQ(render_chat(parts, context)->bytes, "[a][b]");
}

TEST(Chat, FillsInWhatIsAbsent) {
  auto shown = parse(
      "{{ tools is none }} {{ documents is none }} {{ add_generation_prompt }} "
      "{{ messages[0] }}");
  json::object context = {
      {"messages", {{{"role", "user"}, {"content", nullptr}, {"reasoning", "r"}}}}};
  EXPECT_EQ(render_chat(shown, context)->bytes,
            "True True False {'thinking': 'r', 'role': 'user', 'reasoning': 'r', "
            "'reasoning_content': 'r'}");
  ChatMessage messages[] = {{"system", "s"}, {"user", "u"}};
  EXPECT_EQ(json::serialize(to_json(messages)),
            R"([{"role":"system","content":"s"},{"role":"user","content":"u"}])");
}

TEST(Chat, ChecksTheShape) {
  auto plain = parse("x");
  auto message = [&](std::string_view context) {
    auto result = render_chat(plain, json::parse(context).get_object());
    return result ? std::string("ok") : result.error().message;
  };
  EXPECT_EQ(message("{}"), "messages must be a list with at least one message");
  EXPECT_EQ(message(R"({"messages": []})"), "messages must be a list with at least one message");
  EXPECT_EQ(message(R"({"messages": {}})"), "messages must be a list with at least one message");
  EXPECT_EQ(message(R"({"messages": ["x"]})"),
            "messages[0] must be an object with \"role\" and \"content\"");
  EXPECT_EQ(message(R"({"messages": [{"role": "user"}, {"content": "x"}]})"),
            "messages[1].role must be a string");
  EXPECT_EQ(message(R"({"messages": [{"role": 1}]})"), "messages[0].role must be a string");
  EXPECT_EQ(message(R"({"messages": [{"role": "user", "content": 5}]})"),
            "messages[0].content must be a string or a list of {\"type\": \"text\", \"text\": …}");
  EXPECT_EQ(message(R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})"),
            "messages[0].content[0].text must be a string");
  EXPECT_EQ(message(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})"),
            "messages[0].content[0].type is \"image\": this model reads \"text\" only");
  EXPECT_EQ(message(R"({"messages": [{"role": "user", "content": ["x"]}]})"),
            "messages[0].content[0] must be an object with a \"type\"");
  EXPECT_EQ(message(R"({"messages": [{"role": "user"}], "tools": {}})"),
            "tools must be a list of objects");
  EXPECT_EQ(message(R"({"messages": [{"role": "user"}], "tools": [1]})"),
            "tools[0] must be an object");
  EXPECT_EQ(message(R"({"messages": [{"role": "user", "content": null}], "tools": null})"), "ok");
}

class ChatTemplateFiles : public testing::Test {
 protected:
  void SetUp() override {
    auto name = testing::UnitTest::GetInstance()->current_test_info()->name();
    dir_ = fs::path(testing::TempDir()) / (std::string("munia_chat_") + name);
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name, std::ios::binary) << text;
  }
  std::string found() {
    auto source = find_chat_template_source(dir_);
    return source ? *source : "error " + std::to_string(static_cast<int>(source.error().code));
  }
  std::string code(ErrorCode c) { return "error " + std::to_string(static_cast<int>(c)); }
  fs::path dir_;
};

TEST_F(ChatTemplateFiles, AreFoundInAllTheirPlaces) {
  EXPECT_EQ(found(), code(ErrorCode::kNotFound));
  write("tokenizer_config.json", R"({"model_max_length": 1})");
  EXPECT_EQ(found(), code(ErrorCode::kNotFound));
  write("tokenizer_config.json", R"({"chat_template": "A"})");
  EXPECT_EQ(found(), "A");
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "D"},
                              {"name": "rag", "template": "R"},
                              {"name": "tool_use", "template": "T"}]})");
  EXPECT_EQ(found(), "D");
  auto sources = find_chat_template_sources(dir_);
  EXPECT_EQ(sources->pick(true), "T");
  EXPECT_EQ(sources->pick(false), "D");
  write("chat_template.jinja", "J\n");
  EXPECT_EQ(found(), "J\n");
  EXPECT_EQ(find_chat_template_sources(dir_)->pick(true), "J\n");
  write("additional_chat_templates/tool_use.jinja", "JT");
  EXPECT_EQ(find_chat_template_sources(dir_)->pick(true), "JT");
}

TEST_F(ChatTemplateFiles, ThatAreWrongAreErrors) {
  for (auto text : {"", "{", "[]", R"({"chat_template": 1})", R"({"chat_template": [1]})",
                    R"({"chat_template": [{"name": "rag", "template": "R"}]})",
                    R"({"chat_template": [{"name": "default"}]})"}) {
    write("tokenizer_config.json", text);
    EXPECT_EQ(found(), code(ErrorCode::kInvalidData)) << text;
  }
  write("chat_template.jinja", std::string(ChatTemplate::kMaxSourceBytes + 1, 'x'));
  EXPECT_EQ(found(), code(ErrorCode::kLimit));
}

}  // namespace
}  // namespace munia::text
