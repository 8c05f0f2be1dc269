// Reads tokenizer.json (Hugging Face tokenizers' own format) into a TokenizerSpec. What is not
// known exactly is refused by name: a wrong split changes the ids of every text without a sign.
#include "text/tokenizer_json.h"

#include <algorithm>
#include <boost/json/stream_parser.hpp>
#include <unordered_map>
#include <unordered_set>

namespace munia::text {
namespace {

namespace json = boost::json;

Result<const json::object*> as_object(const TokenizerSpec& spec, const json::value& value,
                                      std::string_view what) {
  if (!value.is_object()) return bad_data(spec, std::string(what) + " is not an object");
  return &value.get_object();
}

Result<std::string_view> get_type(const TokenizerSpec& spec, const json::value& value,
                                  std::string_view what) {
  MUNIA_ASSIGN_OR_RETURN(const json::object* object, as_object(spec, value, what));
  MUNIA_ASSIGN_OR_RETURN(const std::string_view type, get_text(spec, *object, "type"));
  if (type.empty()) return bad_data(spec, std::string(what) + " has no type");
  return type;
}

// The parts of a Sequence under `list_key`, or the value itself. Sequences are not nested in use.
Result<std::vector<const json::value*>> flatten(const TokenizerSpec& spec, const json::value& value,
                                                std::string_view what, std::string_view list_key) {
  std::vector<const json::value*> parts;
  MUNIA_ASSIGN_OR_RETURN(const std::string_view type, get_type(spec, value, what));
  if (type != "Sequence") {
    parts.push_back(&value);
    return parts;
  }
  const json::value* list = find_member(value.get_object(), list_key);
  if (list == nullptr || !list->is_array()) {
    return bad_data(spec,
                    std::string(what) + " Sequence has no list \"" + std::string(list_key) + "\"");
  }
  for (const json::value& part : list->get_array()) parts.push_back(&part);
  return parts;
}

Status read_normalizer(const json::value& value, TokenizerSpec& spec) {
  MUNIA_ASSIGN_OR_RETURN(const auto parts, flatten(spec, value, "normalizer", "normalizers"));
  for (const json::value* part : parts) {
    MUNIA_ASSIGN_OR_RETURN(const std::string_view type, get_type(spec, *part, "normalizer"));
    if (type != "NFC") {
      return not_supported(spec, "the normalizer \"" + shown(type) +
                                     "\" is not one that munia "
                                     "knows (NFC or none)");
    }
    spec.nfc = true;
  }
  return {};
}

Status read_split(const json::object& split, TokenizerSpec& spec) {
  const json::value* pattern = find_member(split, "pattern");
  if (pattern == nullptr || !pattern->is_object()) {
    return bad_data(spec, "the pre-tokenizer Split has no pattern");
  }
  MUNIA_ASSIGN_OR_RETURN(const std::string_view regex,
                         get_text(spec, pattern->get_object(), "Regex"));
  const auto step = split_step_of_regex(regex);
  if (!step) {
    return not_supported(spec, "the pre-tokenizer Split has a pattern that munia does not know: " +
                                   (regex.empty() ? "not a Regex" : shown(regex)));
  }
  MUNIA_ASSIGN_OR_RETURN(const std::string_view behavior, get_text(spec, split, "behavior"));
  MUNIA_ASSIGN_OR_RETURN(const bool invert, get_flag(spec, split, "invert", false));
  if (behavior != "Isolated" || invert) {
    return not_supported(spec, "the pre-tokenizer Split has behavior \"" + shown(behavior) +
                                   (invert ? "\" inverted" : "\"") + "; munia knows Isolated");
  }
  spec.steps.push_back(*step);
  return {};
}

Status read_pre_tokenizer(const json::value& value, TokenizerSpec& spec) {
  MUNIA_ASSIGN_OR_RETURN(const auto parts, flatten(spec, value, "pre_tokenizer", "pretokenizers"));
  bool byte_level = false;
  for (const json::value* part : parts) {
    MUNIA_ASSIGN_OR_RETURN(const std::string_view type, get_type(spec, *part, "pre_tokenizer"));
    const json::object& object = part->get_object();
    if (byte_level) {
      return not_supported(spec, "the pre-tokenizer \"" + shown(type) +
                                     "\" comes after ByteLevel; munia knows ByteLevel last");
    }
    if (type == "Split") {
      MUNIA_RETURN_IF_ERROR(read_split(object, spec));
    } else if (type == "Digits") {
      MUNIA_ASSIGN_OR_RETURN(const bool single, get_flag(spec, object, "individual_digits", false));
      spec.steps.push_back(single ? SplitStep::kDigits : SplitStep::kDigitRuns);
    } else if (type == "ByteLevel") {
      MUNIA_ASSIGN_OR_RETURN(const bool prefix, get_flag(spec, object, "add_prefix_space", true));
      MUNIA_ASSIGN_OR_RETURN(const bool regex, get_flag(spec, object, "use_regex", true));
      if (prefix) spec.steps.push_back(SplitStep::kPrefixSpace);
      if (regex) spec.steps.push_back(SplitStep::kGpt2);
      byte_level = true;
    } else {
      return not_supported(spec, "the pre-tokenizer \"" + shown(type) +
                                     "\" is not one that munia knows (Split, Digits, ByteLevel)");
    }
    if (spec.steps.size() > 8) return bad_data(spec, "pre_tokenizer has more than 8 steps");
  }
  if (!byte_level) {
    return not_supported(spec, "pre_tokenizer has no ByteLevel; munia knows byte-level BPE only");
  }
  return {};
}

// TemplateProcessing that puts one token before the text and nothing after it, or nothing at all.
Status read_template(const json::object& processor, TokenizerSpec& spec) {
  const json::value* single = find_member(processor, "single");
  if (single == nullptr || !single->is_array()) {
    return bad_data(spec, "the post-processor TemplateProcessing has no \"single\"");
  }
  std::vector<std::string_view> before;
  bool after_text = false;
  for (const json::value& piece : single->get_array()) {
    MUNIA_ASSIGN_OR_RETURN(const json::object* object, as_object(spec, piece, "a template's part"));
    const json::value* token = find_member(*object, "SpecialToken");
    if (token == nullptr) {
      if (find_member(*object, "Sequence") == nullptr || after_text) {
        return bad_data(spec, "TemplateProcessing has a part that is no token and no text");
      }
      after_text = true;
      continue;
    }
    MUNIA_ASSIGN_OR_RETURN(const json::object* fields, as_object(spec, *token, "SpecialToken"));
    MUNIA_ASSIGN_OR_RETURN(const std::string_view id, get_text(spec, *fields, "id"));
    if (after_text || !before.empty()) {
      return not_supported(spec, "the post-processor TemplateProcessing adds \"" + shown(id) +
                                     "\"; munia knows one token before the text only");
    }
    before.push_back(id);
  }
  if (!after_text) return bad_data(spec, "TemplateProcessing leaves the text out");
  if (before.empty()) return {};
  const json::value* tokens = find_member(processor, "special_tokens");
  const json::value* entry = nullptr;
  if (tokens != nullptr && tokens->is_object())
    entry = find_member(tokens->get_object(), before[0]);
  const json::value* ids = nullptr;
  if (entry != nullptr && entry->is_object()) ids = find_member(entry->get_object(), "ids");
  if (ids == nullptr || !ids->is_array() || ids->get_array().size() != 1) {
    return bad_data(spec, "TemplateProcessing has no single id for \"" + shown(before[0]) + "\"");
  }
  MUNIA_ASSIGN_OR_RETURN(spec.bos, as_token_id(spec, ids->get_array()[0], "TemplateProcessing"));
  spec.adds_bos = true;
  return {};
}

Status read_post_processor(const json::value& value, TokenizerSpec& spec) {
  MUNIA_ASSIGN_OR_RETURN(const auto parts, flatten(spec, value, "post_processor", "processors"));
  for (const json::value* part : parts) {
    MUNIA_ASSIGN_OR_RETURN(const std::string_view type, get_type(spec, *part, "post_processor"));
    if (type == "TemplateProcessing") {
      if (spec.adds_bos) return not_supported(spec, "two post-processors add a token");
      MUNIA_RETURN_IF_ERROR(read_template(part->get_object(), spec));
    } else if (type != "ByteLevel") {  // ByteLevel changes offsets only
      return not_supported(
          spec, "the post-processor \"" + shown(type) + "\" is not one that munia knows");
    }
  }
  return {};
}

Status read_merges(const json::value& value, TokenizerSpec& spec) {
  if (!value.is_array()) return bad_data(spec, "model.merges is not a list");
  spec.merges.reserve(value.get_array().size());
  for (const json::value& merge : value.get_array()) {
    if (merge.is_string()) {
      MUNIA_RETURN_IF_ERROR(add_merge_line(merge.get_string(), spec));
      continue;
    }
    if (!merge.is_array() || merge.get_array().size() != 2 || !merge.get_array()[0].is_string() ||
        !merge.get_array()[1].is_string()) {
      return bad_data(spec, "model.merges[" + std::to_string(spec.merges.size()) +
                                "] is not a pair of strings");
    }
    spec.merges.emplace_back(merge.get_array()[0].get_string(), merge.get_array()[1].get_string());
  }
  return {};
}

Status read_model(const json::object& model, TokenizerSpec& spec) {
  MUNIA_ASSIGN_OR_RETURN(const std::string_view type, get_text(spec, model, "type"));
  const json::value* vocab = find_member(model, "vocab");
  const json::value* merges = find_member(model, "merges");
  // Old files leave the type out; only BPE has merges.
  if (type != "BPE" && !(type.empty() && merges != nullptr)) {
    return not_supported(spec, "the model \"" + shown(type) + "\" is not BPE");
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    MUNIA_ASSIGN_OR_RETURN(const std::string_view affix, get_text(spec, model, key));
    if (!affix.empty()) {
      return not_supported(spec, "model." + std::string(key) + " is \"" + shown(affix) +
                                     "\"; munia knows byte-level BPE without it");
    }
  }
  if (find_member(model, "dropout") != nullptr) {
    return not_supported(spec, "model.dropout is set; its ids would be random");
  }
  MUNIA_ASSIGN_OR_RETURN(const bool fallback, get_flag(spec, model, "byte_fallback", false));
  if (fallback) return not_supported(spec, "model.byte_fallback is set; munia knows ByteLevel BPE");
  MUNIA_ASSIGN_OR_RETURN(spec.ignore_merges, get_flag(spec, model, "ignore_merges", false));
  MUNIA_ASSIGN_OR_RETURN(spec.fuse_unknown, get_flag(spec, model, "fuse_unk", false));
  if (find_member(model, "unk_token") != nullptr) {
    MUNIA_ASSIGN_OR_RETURN(const std::string_view unknown, get_text(spec, model, "unk_token"));
    spec.unknown = std::string(unknown);
  }
  if (vocab == nullptr || merges == nullptr) {
    return bad_data(spec, "the model has no vocab or no merges");
  }
  MUNIA_RETURN_IF_ERROR(read_vocab(*vocab, spec));
  return read_merges(*merges, spec);
}

Status read_added(const json::value& value, TokenizerSpec& spec) {
  if (!value.is_array()) return bad_data(spec, "added_tokens is not a list");
  for (const json::value& item : value.get_array()) {
    MUNIA_ASSIGN_OR_RETURN(AddedToken token, read_added_token(spec, item));
    const json::value* id = find_member(item.get_object(), "id");
    if (id == nullptr) {
      return bad_data(spec, "the added token \"" + shown(token.content) + "\" has no id");
    }
    MUNIA_ASSIGN_OR_RETURN(token.id, as_token_id(spec, *id, "an added token"));
    if (!token.content.empty()) spec.added.push_back(std::move(token));
  }
  return check_added_ids(spec);
}

}  // namespace

Result<json::value> parse_json(std::string_view text, const std::string& name,
                               json::storage_ptr storage) {
  // The parser counts bytes itself, so that the message can tell where it stopped.
  json::stream_parser parser(std::move(storage));
  boost::system::error_code error;
  const std::size_t used = parser.write_some(text.data(), text.size(), error);
  if (!error && used < text.size() &&
      text.find_first_not_of(" \t\r\n", used) != std::string_view::npos) {
    error = json::error::extra_data;
  }
  if (!error) parser.finish(error);
  if (error) {
    return Error{ErrorCode::kInvalidData, name + " is not valid JSON near byte " +
                                              std::to_string(used) + ": " + error.message()};
  }
  return parser.release();
}

const json::value* find_member(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<bool> get_flag(const TokenizerSpec& spec, const json::object& object, std::string_view key,
                      bool fallback) {
  const json::value* value = find_member(object, key);
  if (value == nullptr) return fallback;
  if (!value->is_bool()) return bad_data(spec, std::string(key) + " is not true or false");
  return value->get_bool();
}

Result<std::string_view> get_text(const TokenizerSpec& spec, const json::object& object,
                                  std::string_view key) {
  const json::value* value = find_member(object, key);
  if (value == nullptr) return std::string_view{};
  if (!value->is_string()) return bad_data(spec, std::string(key) + " is not a string");
  return std::string_view(value->get_string());
}

Result<TokenId> as_token_id(const TokenizerSpec& spec, const json::value& value,
                            std::string_view what) {
  if (!value.is_int64() || value.get_int64() < 0 || value.get_int64() > kMaxTokenId) {
    return bad_data(spec, std::string(what) + " has an id that is not an integer in 0.." +
                              std::to_string(kMaxTokenId));
  }
  return static_cast<TokenId>(value.get_int64());
}

Status read_vocab(const json::value& value, TokenizerSpec& spec) {
  if (!value.is_object()) return bad_data(spec, "the vocabulary is not an object");
  spec.vocab.reserve(value.get_object().size());
  for (const auto& [token, id_value] : value.get_object()) {
    MUNIA_ASSIGN_OR_RETURN(const TokenId id, as_token_id(spec, id_value, "the vocabulary"));
    spec.vocab.emplace_back(token, id);
  }
  return {};
}

Result<AddedToken> read_added_token(const TokenizerSpec& spec, const json::value& value) {
  MUNIA_ASSIGN_OR_RETURN(const json::object* object, as_object(spec, value, "an added token"));
  AddedToken token;
  MUNIA_ASSIGN_OR_RETURN(const std::string_view content, get_text(spec, *object, "content"));
  token.content = std::string(content);
  MUNIA_ASSIGN_OR_RETURN(token.special, get_flag(spec, *object, "special", false));
  MUNIA_ASSIGN_OR_RETURN(token.normalized, get_flag(spec, *object, "normalized", !token.special));
  MUNIA_ASSIGN_OR_RETURN(token.lstrip, get_flag(spec, *object, "lstrip", false));
  MUNIA_ASSIGN_OR_RETURN(token.rstrip, get_flag(spec, *object, "rstrip", false));
  MUNIA_ASSIGN_OR_RETURN(token.single_word, get_flag(spec, *object, "single_word", false));
  return token;
}

Status check_added_ids(const TokenizerSpec& spec) {
  std::unordered_map<std::string_view, TokenId> in_vocab;
  in_vocab.reserve(spec.vocab.size());
  std::unordered_set<std::string_view> wanted;
  for (const AddedToken& token : spec.added) {
    if (!wanted.insert(token.content).second) {
      return bad_data(spec, "the added token \"" + shown(token.content) + "\" is there twice");
    }
  }
  for (const auto& [text, id] : spec.vocab) {
    if (wanted.count(text) != 0) in_vocab[text] = id;
  }
  const auto size = static_cast<TokenId>(spec.vocab.size());
  TokenId highest = -1;
  for (const AddedToken& token : spec.added) {
    const auto known = in_vocab.find(token.content);
    const TokenId expected =
        known != in_vocab.end() ? known->second : (highest >= size ? highest + 1 : size);
    if (token.id != expected) {
      return bad_data(spec, "the added token \"" + shown(token.content) + "\" has id " +
                                std::to_string(token.id) + " where its place makes it " +
                                std::to_string(expected));
    }
    highest = std::max(highest, expected);
  }
  return {};
}

Status add_merge_line(std::string_view line, TokenizerSpec& spec) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    return bad_data(spec, "merge " + std::to_string(spec.merges.size()) + " (\"" + shown(line) +
                              "\") is not two parts with a space between");
  }
  spec.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  return {};
}

Status read_tokenizer_json(const json::value& root, TokenizerSpec& spec) {
  MUNIA_ASSIGN_OR_RETURN(const json::object* top, as_object(spec, root, "the file"));
  const json::value* model = find_member(*top, "model");
  if (model == nullptr || !model->is_object()) return bad_data(spec, "the file has no model");
  MUNIA_RETURN_IF_ERROR(read_model(model->get_object(), spec));
  if (const auto* value = find_member(*top, "normalizer")) {
    MUNIA_RETURN_IF_ERROR(read_normalizer(*value, spec));
  }
  const json::value* pre_tokenizer = find_member(*top, "pre_tokenizer");
  if (pre_tokenizer == nullptr) return not_supported(spec, "the file has no pre_tokenizer");
  MUNIA_RETURN_IF_ERROR(read_pre_tokenizer(*pre_tokenizer, spec));
  if (const auto* value = find_member(*top, "added_tokens")) {
    MUNIA_RETURN_IF_ERROR(read_added(*value, spec));
  }
  if (const auto* value = find_member(*top, "post_processor")) {
    MUNIA_RETURN_IF_ERROR(read_post_processor(*value, spec));
  }
  if (const auto* value = find_member(*top, "decoder")) {
    MUNIA_ASSIGN_OR_RETURN(const auto parts, flatten(spec, *value, "decoder", "decoders"));
    for (const json::value* part : parts) {
      MUNIA_ASSIGN_OR_RETURN(const std::string_view type, get_type(spec, *part, "decoder"));
      if (type != "ByteLevel") {
        return not_supported(spec, "the decoder \"" + shown(type) + "\" is not ByteLevel");
      }
    }
  }
  return {};
}

}  // namespace munia::text
