// Reads a tokenizer from GGUF metadata into a TokenizerSpec. The metadata name the pre-tokenizer
// only (tokenizer.ggml.pre); what the original tokenizer does besides (NFC, digits) follows from
// the name.
#include <array>
#include <string>

#include "text/tokenizer_spec.h"

namespace munia::text {
namespace {

// tokenizer.ggml.token_type
constexpr std::int64_t kTypeUnknown = 2;
constexpr std::int64_t kTypeControl = 3;
constexpr std::int64_t kTypeUserDefined = 4;
constexpr std::int64_t kTypeUnused = 5;

struct PreTokenizer {
  std::string_view name;
  std::array<std::optional<SplitStep>, 2> steps;
  bool nfc;
  bool ignore_merges;
  bool adds_bos;  // where the file does not say
};

constexpr PreTokenizer kPreTokenizers[] = {
    {"qwen2", {SplitStep::kQwen2}, true, false, false},
    {"qwen35", {SplitStep::kQwen35}, true, false, false},
    {"smollm", {SplitStep::kDigits, SplitStep::kGpt2}, false, false, false},
    {"gpt-2", {SplitStep::kGpt2}, false, false, false},
    {"gpt2", {SplitStep::kGpt2}, false, false, false},
    {"llama-bpe", {SplitStep::kLlama3}, false, true, true},
    {"llama3", {SplitStep::kLlama3}, false, true, true},
    {"llama-v3", {SplitStep::kLlama3}, false, true, true},
};

Result<const PreTokenizer*> find_pre_tokenizer(const files::GgufFile& file,
                                               const TokenizerSpec& spec) {
  MUNIA_ASSIGN_OR_RETURN(const std::string model, file.get_string("tokenizer.ggml.model"));
  if (model != "gpt2") {
    return not_supported(spec, "tokenizer.ggml.model is \"" + shown(model) +
                                   "\"; munia knows gpt2 (byte-level BPE)");
  }
  MUNIA_ASSIGN_OR_RETURN(const std::string name, file.get_string("tokenizer.ggml.pre", ""));
  for (const PreTokenizer& known : kPreTokenizers) {
    if (known.name == name) return &known;
  }
  return not_supported(
      spec, name.empty() ? std::string("tokenizer.ggml.pre is absent, so how text is cut is not "
                                       "known; convert the model again with a newer converter")
                         : "tokenizer.ggml.pre is \"" + shown(name) +
                               "\"; munia knows qwen2, qwen35, smollm, llama-bpe and gpt-2");
}

Result<std::optional<TokenId>> get_token_id(const files::GgufFile& file, const TokenizerSpec& spec,
                                            const std::string& key, std::size_t n_tokens) {
  if (file.find(key) == nullptr) return std::optional<TokenId>{};
  MUNIA_ASSIGN_OR_RETURN(const std::int64_t id, file.get_int(key));
  if (id < 0 || id >= static_cast<std::int64_t>(n_tokens)) {
    return bad_data(spec, key + " is " + std::to_string(id) + ", outside the vocabulary of " +
                              std::to_string(n_tokens) + " tokens");
  }
  return std::optional<TokenId>(static_cast<TokenId>(id));
}

}  // namespace

Status read_gguf_spec(const files::GgufFile& file, TokenizerSpec& spec) {
  MUNIA_ASSIGN_OR_RETURN(const PreTokenizer* pre, find_pre_tokenizer(file, spec));
  for (const auto& step : pre->steps) {
    if (step) spec.steps.push_back(*step);
  }
  spec.nfc = pre->nfc;
  spec.ignore_merges = pre->ignore_merges;

  MUNIA_ASSIGN_OR_RETURN(const auto* tokens, file.get_strings("tokenizer.ggml.tokens"));
  MUNIA_ASSIGN_OR_RETURN(const auto* types, file.get_ints("tokenizer.ggml.token_type"));
  MUNIA_ASSIGN_OR_RETURN(const auto* merges, file.get_strings("tokenizer.ggml.merges"));
  if (tokens == nullptr || types == nullptr || merges == nullptr) {
    return bad_data(spec, "tokenizer.ggml.tokens, token_type or merges is absent");
  }
  if (tokens->size() != types->size()) {
    return bad_data(spec, "tokenizer.ggml.tokens has " + std::to_string(tokens->size()) +
                              " entries and token_type " + std::to_string(types->size()));
  }
  if (static_cast<std::int64_t>(tokens->size()) > kMaxTokenId) {
    return bad_data(spec, "tokenizer.ggml.tokens has " + std::to_string(tokens->size()) +
                              " entries; at most " + std::to_string(kMaxTokenId) + " are allowed");
  }
  spec.vocab.reserve(tokens->size());
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    const std::string& text = (*tokens)[i];
    const std::int64_t type = (*types)[i];
    const auto id = static_cast<TokenId>(i);
    if (type == kTypeControl || type == kTypeUserDefined || type == kTypeUnknown) {
      // All three families write their added tokens with normalized = false.
      if (!text.empty()) {
        spec.added.push_back({.content = text, .id = id, .special = type != kTypeUserDefined});
      }
    } else if (type == kTypeUnused && text == "[PAD" + std::to_string(i) + "]") {
      continue;  // the converter's filler up to the size of the embedding; not a token
    }
    spec.vocab.emplace_back(text, id);
  }
  spec.merges.reserve(merges->size());
  for (const std::string& merge : *merges) MUNIA_RETURN_IF_ERROR(add_merge_line(merge, spec));

  MUNIA_ASSIGN_OR_RETURN(spec.bos,
                         get_token_id(file, spec, "tokenizer.ggml.bos_token_id", tokens->size()));
  MUNIA_ASSIGN_OR_RETURN(spec.eos,
                         get_token_id(file, spec, "tokenizer.ggml.eos_token_id", tokens->size()));
  MUNIA_ASSIGN_OR_RETURN(spec.adds_bos,
                         file.get_bool("tokenizer.ggml.add_bos_token", pre->adds_bos));
  spec.adds_bos = spec.adds_bos && spec.bos.has_value();
  return {};
}

}  // namespace munia::text
