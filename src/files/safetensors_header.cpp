#include "files/safetensors_header.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/error.hpp>
#include <utility>

#include "files/describe.h"

namespace munia::files {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxTensors = 100'000;
constexpr std::size_t kMaxDims = 8;
constexpr std::size_t kMaxDepth = 4;

/// Takes the parser's events. A document tree would hide doubled keys and cost many times the
/// header's size, so none is built.
class HeaderHandler {
 public:
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = 1U << 16;
  static constexpr std::size_t max_string_size = 1U << 24;

  std::vector<SafetensorsEntry> entries;
  std::string message;  // why the handler stopped the parser

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }

  bool on_object_begin(json::error_code& code) {
    switch (level_) {
      case Level::kStart:
        level_ = Level::kTop;
        return true;
      case Level::kTop:
        if (key_ == "__metadata__") {
          level_ = Level::kMetadata;
          return true;
        }
        if (entries.size() == kMaxTensors) {
          return stop(code,
                      "the header lists more than " + std::to_string(kMaxTensors) + " tensors");
        }
        entries.emplace_back().name = std::exchange(key_, {});
        has_dtype_ = has_shape_ = has_offsets_ = false;
        level_ = Level::kTensor;
        return true;
      default:
        return unexpected(code, "an object");
    }
  }

  bool on_object_end(std::size_t, json::error_code& code) {
    if (level_ == Level::kTensor && !(has_dtype_ && has_shape_ && has_offsets_)) {
      return stop(code, tensor() + " lacks " +
                            (!has_dtype_   ? "\"dtype\""
                             : !has_shape_ ? "\"shape\""
                                           : "\"data_offsets\""));
    }
    level_ = level_ == Level::kTop ? Level::kDone : Level::kTop;
    return true;
  }

  bool on_array_begin(json::error_code& code) {
    if (level_ != Level::kTensor) return unexpected(code, "an array");
    if (key_ == "shape") {
      if (std::exchange(has_shape_, true)) return doubled(code);
      level_ = Level::kShape;
    } else if (key_ == "data_offsets") {
      if (std::exchange(has_offsets_, true)) return doubled(code);
      n_offsets_ = 0;
      level_ = Level::kOffsets;
    } else {
      return unexpected(code, "an array");
    }
    return true;
  }

  bool on_array_end(std::size_t, json::error_code& code) {
    if (level_ == Level::kOffsets && n_offsets_ != 2) {
      return stop(
          code, tensor() + " has " + std::to_string(n_offsets_) + " data_offsets; it must have 2");
    }
    level_ = Level::kTensor;
    return true;
  }

  bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool on_key(json::string_view part, std::size_t, json::error_code& code) {
    text_.append(part.data(), part.size());
    key_ = std::exchange(text_, {});
    if (level_ == Level::kTop && key_ == "__metadata__" && std::exchange(has_metadata_, true)) {
      return stop(code, "\"__metadata__\" stands twice in the header");
    }
    return true;
  }

  bool on_string_part(json::string_view part, std::size_t, json::error_code&) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool on_string(json::string_view part, std::size_t, json::error_code& code) {
    text_.append(part.data(), part.size());
    std::string text = std::exchange(text_, {});
    if (level_ == Level::kMetadata) return true;
    if (level_ != Level::kTensor || key_ != "dtype") return unexpected(code, "a string");
    if (std::exchange(has_dtype_, true)) return doubled(code);
    entries.back().dtype = std::move(text);
    return true;
  }

  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t value, json::string_view, json::error_code& code) {
    if (value < 0 && (level_ == Level::kShape || level_ == Level::kOffsets)) {
      return stop(code, tensor() + " has the negative number " + std::to_string(value) + " in " +
                            in_quotes(key_));
    }
    if (level_ == Level::kShape) {
      if (entries.back().shape.size() == kMaxDims) {
        return stop(code, tensor() + " has more than " + std::to_string(kMaxDims) + " dimensions");
      }
      entries.back().shape.push_back(value);
      return true;
    }
    if (level_ == Level::kOffsets) {
      if (n_offsets_ == 0) entries.back().begin = static_cast<std::uint64_t>(value);
      if (n_offsets_ == 1) entries.back().end = static_cast<std::uint64_t>(value);
      ++n_offsets_;
      return true;
    }
    return unexpected(code, "a number");
  }
  bool on_uint64(std::uint64_t value, json::string_view, json::error_code& code) {
    return unexpected(code, "the number " + std::to_string(value));
  }
  bool on_double(double, json::string_view, json::error_code& code) {
    return unexpected(code, "a number that is not an integer below 2^63");
  }
  bool on_bool(bool, json::error_code& code) { return unexpected(code, "a truth value"); }
  bool on_null(json::error_code& code) { return unexpected(code, "null"); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  enum class Level { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kDone };

  std::string tensor() const { return "tensor " + in_quotes(entries.back().name); }

  bool stop(json::error_code& code, std::string why) {
    message = std::move(why);
    code = json::make_error_code(json::error::syntax);
    return false;
  }
  bool doubled(json::error_code& code) {
    return stop(code, tensor() + " has " + in_quotes(key_) + " twice");
  }
  bool unexpected(json::error_code& code, const std::string& what) {
    switch (level_) {
      case Level::kStart:
      case Level::kDone:
        return stop(code, "the header is " + what + "; it must be an object");
      case Level::kTop:
        return stop(code, in_quotes(key_) + " is " + what + "; it must be an object");
      case Level::kMetadata:
        return stop(code, "\"__metadata__\" holds " + what + "; it must hold strings only");
      default:
        return stop(code, tensor() + " has " + what + " in " + in_quotes(key_) +
                              "; it must have dtype (a string), shape and data_offsets (integers)");
    }
  }

  Level level_ = Level::kStart;
  std::string key_;
  std::string text_;  // the parts of a string or key so far
  bool has_metadata_ = false;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  int n_offsets_ = 0;
};

}  // namespace

Result<std::vector<SafetensorsEntry>> parse_safetensors_header(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::basic_parser<HeaderHandler> parser(options);
  json::error_code code;
  const std::size_t consumed = parser.write_some(false, text.data(), text.size(), code);
  if (!parser.handler().message.empty()) {
    return Error{ErrorCode::kInvalidData, std::move(parser.handler().message)};
  }
  if (!code && text.find_first_not_of(" \t\r\n", consumed) != std::string_view::npos) {
    code = json::make_error_code(json::error::extra_data);
  }
  if (code) {
    return Error{ErrorCode::kInvalidData,
                 "the header is not the JSON it must be: " + code.message() + " at byte " +
                     std::to_string(consumed) + " of the header"};
  }
  return std::move(parser.handler().entries);
}

}  // namespace munia::files
