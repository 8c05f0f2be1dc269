#include "server/constraint_request.h"

#include <boost/json/array.hpp>
#include <utility>

#include "base/json_value.h"
#include "grammar/choices.h"
#include "grammar/json_parts.h"
#include "grammar/regex.h"
#include "grammar/schema.h"

namespace munia::server {
namespace {

namespace json = boost::json;

class ConstraintReader {
 public:
  explicit ConstraintReader(BodyReader& body) : body_(body) {}

  RequestedForm read() {
    for (const char* key : {"guided_grammar", "grammar"}) {
      if (body_.has(key)) {
        body_.reject("\"" + std::string(key) +
                         "\" is not supported; use \"response_format\" with a JSON schema or a "
                         "regular expression",
                     key, "unsupported_parameter");
      }
    }
    read_format();
    read_members(body_.object(), "", {"guided_json", "json_schema"}, "guided_regex",
                 "guided_choice");
    if (const json::value* outputs = body_.find("structured_outputs")) {
      if (!outputs->is_object()) {
        body_.reject("\"structured_outputs\" must be an object", "structured_outputs");
      } else {
        read_outputs(outputs->get_object());
      }
    }
    return std::move(form_);
  }

 private:
  void set(std::string_view param, Result<grammar::GrammarPtr> grammar) {
    const std::string name(param);
    if (!grammar) return body_.reject(grammar.error().message, name);
    if (!form_.param.empty()) {
      return body_.reject(
          "\"" + name + "\" is a second rule for the form of the reply; give one only", name);
    }
    form_ = {*std::move(grammar), name};
  }

  void set_choices(std::string_view param, const json::value* value) {
    std::vector<std::string> choices;
    bool good = value != nullptr && value->is_array();
    for (std::size_t i = 0; good && i < value->get_array().size(); ++i) {
      const json::value& item = value->get_array()[i];
      good = item.is_string();
      if (good) choices.emplace_back(view_of(item.get_string()));
    }
    if (!good) {
      const std::string name(param);
      return body_.reject("\"" + name + "\" must have its choices as a list of strings", name);
    }
    set(param, grammar::choice_grammar(std::move(choices)));
  }

  void set_regex(std::string_view param, const json::value* value) {
    if (value == nullptr || !value->is_string()) {
      const std::string name(param);
      return body_.reject("\"" + name + "\" must have its regular expression as a string", name);
    }
    set(param, grammar::regex_grammar(view_of(value->get_string())));
  }

  // A schema may be JSON in a string, too, as vLLM allows it.
  void set_schema(std::string_view param, const json::value* value) {
    if (value == nullptr) {
      return body_.reject("\"" + std::string(param) + "\" has no schema", std::string(param));
    }
    set(param, value->is_string() ? grammar::schema_text_grammar(view_of(value->get_string()))
                                  : grammar::schema_grammar(*value));
  }

  /// `prefix` is the object's own name and a point, for messages.
  void read_members(const json::object& object, const std::string& prefix,
                    std::initializer_list<const char*> schema_keys, const char* regex_key,
                    const char* choice_key) {
    for (const char* key : schema_keys) {
      if (const json::value* value = find_member(object, key)) set_schema(prefix + key, value);
    }
    if (const json::value* value = find_member(object, regex_key)) {
      set_regex(prefix + regex_key, value);
    }
    if (const json::value* value = find_member(object, choice_key)) {
      set_choices(prefix + choice_key, value);
    }
  }

  void read_outputs(const json::object& outputs) {
    for (const char* key : {"grammar", "structural_tag"}) {
      if (find_member(outputs, key) != nullptr) {
        body_.reject("\"structured_outputs\" has \"" + std::string(key) +
                         "\", which is not supported; use \"json\", \"regex\" or \"choice\"",
                     "structured_outputs", "unsupported_parameter");
      }
    }
    if (const json::value* any = find_member(outputs, "json_object");
        any != nullptr && any->is_bool() && any->get_bool()) {
      set("structured_outputs.json_object", grammar::json_object_grammar());
    }
    read_members(outputs, "structured_outputs.", {"json"}, "regex", "choice");
  }

  void read_format() {
    const json::value* format = body_.find("response_format");
    if (format == nullptr) return;
    const json::value* type =
        format->is_object() ? find_member(format->get_object(), "type") : nullptr;
    if (type == nullptr || !type->is_string()) {
      return body_.reject("\"response_format\" must be an object with a \"type\"",
                          "response_format");
    }
    const json::object& object = format->get_object();
    const std::string_view name = view_of(type->get_string());
    if (name == "text") return;
    if (name == "json_object") {
      const json::value* schema = find_member(object, "schema");  // llama.cpp's way
      if (schema != nullptr) return set_schema("response_format", schema);
      set("response_format", grammar::json_object_grammar());
    } else if (name == "json_schema") {
      const json::value* named = find_member(object, "json_schema");
      if (named == nullptr || !named->is_object()) {
        return body_.reject(
            "\"response_format\" of type \"json_schema\" must have an object \"json_schema\" with "
            "a \"schema\" in it",
            "response_format");
      }
      set_schema("response_format", find_member(named->get_object(), "schema"));
    } else if (name == "regex") {
      const json::value* pattern = find_member(object, "pattern");
      set_regex("response_format",
                pattern != nullptr ? pattern : find_member(object, "value"));  // TGI's name
    } else if (name == "choice") {
      set_choices("response_format", find_member(object, "choices"));
    } else {
      body_.reject("\"response_format\" has the type \"" + std::string(name) +
                       "\"; it must be \"text\", \"json_object\", \"json_schema\", \"regex\" or "
                       "\"choice\"",
                   "response_format");
    }
  }

  BodyReader& body_;
  RequestedForm form_;
};

}  // namespace

RequestedForm read_constraint(BodyReader& body) {
  return body.ok() ? ConstraintReader(body).read() : RequestedForm{};
}

}  // namespace munia::server
