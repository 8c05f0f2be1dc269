// The edge of the template engine: checks the source, turns JSON into values with their marks, and
// turns the engine's exceptions into Errors.
#include "text/chat_template.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <new>

#include "base/utf8.h"
#include "text/template_eval.h"
#include "text/template_lexer.h"
#include "text/template_parser.h"

namespace munia::text {

namespace tmpl {

namespace {
Value from_json_string(std::string_view text, bool trusted) {
  if (find_invalid_utf8(text)) raise("a string of the template's variables is not valid UTF-8");
  return trusted ? make_template_str(text) : make_engine_str(text);
}
}  // namespace

Value from_json(const boost::json::value& json, bool trusted, std::uint32_t depth) {
  if (depth > kMaxValueDepth) {
    raise("the template's variables nest deeper than " + std::to_string(kMaxValueDepth) + " levels",
          ErrorCode::kLimit);
  }
  switch (json.kind()) {
    case boost::json::kind::null:
      return Value();
    case boost::json::kind::bool_:
      return Value(json.get_bool());
    case boost::json::kind::int64:
      return Value(static_cast<Int>(json.get_int64()));
    case boost::json::kind::uint64:
      return Value(static_cast<Int>(json.get_uint64()));
    case boost::json::kind::double_:
      return Value(json.get_double());
    case boost::json::kind::string:
      return from_json_string(json.get_string(), trusted);
    case boost::json::kind::array: {
      std::vector<Value> items;
      items.reserve(json.get_array().size());
      for (auto& item : json.get_array()) items.push_back(from_json(item, trusted, depth + 1));
      return make_list(std::move(items));
    }
    case boost::json::kind::object: {
      Dict dict;
      std::uint64_t work = 0;  // bounded by the JSON's own size: keys are found by an index
      for (auto& [key, value] : json.get_object()) {
        dict.set(from_json_string(key, false), from_json(value, trusted, depth + 1), work);
      }
      return make_dict(std::move(dict));
    }
  }
  return Value();
}

}  // namespace tmpl

struct ChatTemplate::Program {
  tmpl::ScopedBody root;
  bool content_parts = false;
};

bool ChatTemplate::walks_content_parts() const { return program_ && program_->content_parts; }

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return Error{ErrorCode::kLimit, "line 1, column 1: the template has " +
                                        std::to_string(source.size()) + " bytes; at most " +
                                        std::to_string(kMaxSourceBytes) + " are allowed"};
  }
  if (auto bad = find_invalid_utf8(source)) {
    return Error{ErrorCode::kInvalidData,
                 "line 1, column 1: the template is not valid UTF-8 at "
                 "byte " +
                     std::to_string(*bad)};
  }
  try {
    auto program = std::make_shared<Program>();
    program->root = tmpl::parse_template(tmpl::tokenize_template(source));
    program->content_parts = tmpl::walks_content(program->root);
    ChatTemplate result;
    result.program_ = std::move(program);
    return result;
  } catch (const tmpl::Failure& failure) {
    return failure.error;
  }
}

Result<MarkedText> ChatTemplate::render(const boost::json::object& context) const {
  return render(context, TemplateLimits());
}

Result<MarkedText> ChatTemplate::render(const boost::json::object& context,
                                        const TemplateLimits& limits) const {
  if (!program_) return Error{ErrorCode::kInvalidArgument, "the chat template was not parsed"};
  tmpl::Position at;
  try {
    tmpl::Dict variables;
    std::uint64_t work = 0;
    for (auto& [key, value] : context) {
      bool trusted =
          key == "bos_token" || key == "eos_token" || key == "pad_token" || key == "unk_token";
      variables.set(tmpl::make_engine_str(key), tmpl::from_json(value, trusted), work);
    }
    tmpl::Interp interp(std::move(variables), limits);
    try {
      return interp.run(program_->root);
    } catch (...) {
      at = interp.position();
      throw;
    }
  } catch (const tmpl::Unplaced& error) {
    return Error{error.code, "line " + std::to_string(at.line) + ", column " +
                                 std::to_string(at.column) + ": " + error.message};
  } catch (const tmpl::Failure& failure) {
    return failure.error;
  }
}

}  // namespace munia::text
