// Reads what stands beside the vocabulary in a Hugging Face directory: tokenizer_config.json, and
// merges.txt where there is no tokenizer.json. Follows how transformers builds its tokenizer.
#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "text/tokenizer_json.h"

namespace munia::text {
namespace {

namespace json = boost::json;

// A special token in the config: a string, or an object with its content.
Result<std::optional<AddedToken>> get_special(const TokenizerSpec& spec, const json::object& config,
                                              std::string_view key) {
  const json::value* value = find_member(config, key);
  if (value == nullptr) return std::optional<AddedToken>{};
  AddedToken token;
  if (value->is_string()) {
    token.content = std::string(value->get_string());
  } else {
    MUNIA_ASSIGN_OR_RETURN(token, read_added_token(spec, *value));
  }
  token.special = true;
  if (token.content.empty()) return std::optional<AddedToken>{};
  return std::optional<AddedToken>(std::move(token));
}

std::optional<TokenId> find_id(const TokenizerSpec& spec, std::string_view text) {
  for (const AddedToken& token : spec.added) {
    if (token.content == text) return token.id;
  }
  for (const auto& [token, id] : spec.vocab) {
    if (token == text) return id;
  }
  return std::nullopt;
}

// Adds a special token that the vocabulary may or may not have, as transformers does.
TokenId ensure_special(AddedToken token, TokenizerSpec& spec) {
  for (const AddedToken& known : spec.added) {
    if (known.content == token.content) return known.id;
  }
  if (const auto id = find_id(spec, token.content)) {
    token.id = *id;
  } else {
    TokenId highest = -1;
    for (const AddedToken& known : spec.added) highest = std::max(highest, known.id);
    token.id = std::max(highest + 1, static_cast<TokenId>(spec.vocab.size()));
  }
  spec.added.push_back(token);
  return token.id;
}

Status read_added_decoder(const json::value& value, TokenizerSpec& spec) {
  if (!value.is_object()) return bad_data(spec, "added_tokens_decoder is not an object");
  std::vector<AddedToken> tokens;
  for (const auto& [key, item] : value.get_object()) {
    MUNIA_ASSIGN_OR_RETURN(AddedToken token, read_added_token(spec, item));
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), token.id);
    if (parsed.ec != std::errc{} || parsed.ptr != key.data() + key.size() || token.id < 0 ||
        token.id > kMaxTokenId) {
      return bad_data(spec, "added_tokens_decoder has the key \"" + shown(key) +
                                "\", which is not an id in 0.." + std::to_string(kMaxTokenId));
    }
    if (!token.content.empty()) tokens.push_back(std::move(token));
  }
  std::sort(tokens.begin(), tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  std::unordered_map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < spec.added.size(); ++i) known[spec.added[i].content] = i;
  for (AddedToken& token : tokens) {
    const auto it = known.find(token.content);
    if (it == known.end()) {
      spec.added.push_back(std::move(token));
    } else if (spec.added[it->second].id == token.id) {
      spec.added[it->second] = std::move(token);
    } else {
      return bad_data(spec, "the added token \"" + shown(token.content) + "\" has id " +
                                std::to_string(token.id) + " in added_tokens_decoder and " +
                                std::to_string(spec.added[it->second].id) + " elsewhere");
    }
  }
  return check_added_ids(spec);
}

Status read_class(const json::object& config, TokenizerSpec& spec) {
  MUNIA_ASSIGN_OR_RETURN(const std::string_view name, get_text(spec, config, "tokenizer_class"));
  const bool qwen2 = name == "Qwen2Tokenizer" || name == "Qwen2TokenizerFast";
  if (!qwen2 && name != "GPT2Tokenizer" && name != "GPT2TokenizerFast") {
    return not_supported(spec, "tokenizer_class is \"" + shown(name) +
                                   "\"; from vocab.json munia knows Qwen2Tokenizer and "
                                   "GPT2Tokenizer; put the model's tokenizer.json there");
  }
  MUNIA_ASSIGN_OR_RETURN(const bool prefix, get_flag(spec, config, "add_prefix_space", false));
  if (qwen2) spec.steps.push_back(SplitStep::kQwen2);
  if (prefix) spec.steps.push_back(SplitStep::kPrefixSpace);
  if (!qwen2) spec.steps.push_back(SplitStep::kGpt2);
  spec.nfc = qwen2;
  return {};
}

}  // namespace

Status read_tokenizer_config(const json::value& root, bool vocab_files, TokenizerSpec& spec) {
  if (!root.is_object()) return bad_data(spec, "tokenizer_config.json is not an object");
  const json::object& config = root.get_object();
  if (vocab_files) MUNIA_RETURN_IF_ERROR(read_class(config, spec));
  if (const auto* decoder = find_member(config, "added_tokens_decoder")) {
    MUNIA_RETURN_IF_ERROR(read_added_decoder(*decoder, spec));
  }
  std::optional<TokenId> config_bos;
  for (const std::string_view key : {"bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token"}) {
    MUNIA_ASSIGN_OR_RETURN(std::optional<AddedToken> token, get_special(spec, config, key));
    // What the classes put where the config has no such key: all but Qwen2's bos.
    const bool named = config.contains(key);
    const bool gpt2 = vocab_files && !spec.nfc;
    if (!token && !named && vocab_files &&
        (key == "eos_token" || key == "unk_token" || (key == "bos_token" && gpt2) ||
         (key == "pad_token" && !gpt2))) {
      token = AddedToken{.content = "<|endoftext|>", .special = true};
    }
    if (!token) continue;
    const TokenId id = ensure_special(std::move(*token), spec);
    if (key == "eos_token") spec.eos = id;
    if (key == "bos_token") config_bos = id;
  }
  for (const std::string_view key : {"additional_special_tokens", "extra_special_tokens"}) {
    const json::value* list = find_member(config, key);
    if (list == nullptr || !list->is_array()) continue;
    for (const json::value& item : list->get_array()) {
      if (!item.is_string())
        return bad_data(spec, std::string(key) + " has an entry that is no string");
      if (item.get_string().empty()) continue;
      ensure_special({.content = std::string(item.get_string()), .special = true}, spec);
    }
  }
  MUNIA_ASSIGN_OR_RETURN(const bool adds_eos, get_flag(spec, config, "add_eos_token", false));
  if (adds_eos) {
    return not_supported(spec, "add_eos_token is set; munia adds no token after a text");
  }
  if (find_member(config, "add_bos_token") != nullptr) {  // overrides the post-processor
    MUNIA_ASSIGN_OR_RETURN(const bool adds_bos, get_flag(spec, config, "add_bos_token", false));
    spec.adds_bos = adds_bos && config_bos.has_value();
    if (spec.adds_bos) spec.bos = config_bos;
  }
  if (!spec.bos) spec.bos = config_bos;
  return {};
}

Status read_merges_text(std::string_view text, TokenizerSpec& spec) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line.substr(0, 8) == "#version") continue;
    MUNIA_RETURN_IF_ERROR(add_merge_line(line, spec));
  }
  return {};
}

}  // namespace munia::text
