#include "text/tokenizer.h"

#include <boost/json/monotonic_resource.hpp>
#include <unordered_map>

#include "base/mapped_file.h"
#include "base/utf8.h"
#include "text/normalize.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_spec.h"
#include "text/tokenizer_state.h"

namespace munia::text {
namespace {

constexpr std::size_t kMaxTokenizerFileBytes = std::size_t{128} << 20;
constexpr std::size_t kMaxConfigFileBytes = std::size_t{16} << 20;
// Far above any context: keeps the offsets of one text within 32 bits and its memory bounded.
constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;

Status check_text(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return Error{ErrorCode::kLimit, "the text has " + std::to_string(text.size()) +
                                        " bytes; at most " + std::to_string(kMaxTextBytes) +
                                        " can be tokenized at once"};
  }
  if (const auto offset = find_invalid_utf8(text)) {
    return Error{ErrorCode::kInvalidData, "the text is not valid UTF-8 at byte offset " +
                                              std::to_string(*offset) +
                                              "; convert it to UTF-8 first"};
  }
  return {};
}

}  // namespace

std::string shown(std::string_view what) {
  constexpr std::size_t kMaxBytes = 160;
  const std::string valid = replace_invalid_utf8(what.substr(0, kMaxBytes));
  return what.size() > kMaxBytes ? valid + "…" : valid;
}

Error bad_data(const TokenizerSpec& spec, const std::string& what) {
  return {ErrorCode::kInvalidData, spec.name + ": " + what};
}

Error not_supported(const TokenizerSpec& spec, const std::string& what) {
  return {ErrorCode::kUnsupported, spec.name + ": " + what};
}

Tokenizer::State::State(Bpe made, TokenizerSpec& spec)
    : bpe(std::move(made)),
      added(std::move(spec.added)),
      special(bpe.tokens().n_ids()),
      steps(std::move(spec.steps)),
      nfc(spec.nfc),
      bos(spec.bos),
      eos(spec.eos),
      adds_bos(spec.adds_bos) {
  std::vector<std::pair<std::string, const AddedToken*>> raw;
  std::vector<std::pair<std::string, const AddedToken*>> normalized;
  for (const AddedToken& token : added) {
    added_by_content[token.content] = &token;
    if (token.special) special[token.id] = true;
    if (!token.normalized) {
      raw.emplace_back(token.content, &token);
      continue;
    }
    std::string pattern;
    std::string unused;
    if (nfc) {
      normalize_nfc(token.content, {}, pattern, unused);
    } else {
      pattern = token.content;
    }
    normalized.emplace_back(std::move(pattern), &token);
  }
  raw_matcher = AddedTokenMatcher(raw);
  normalized_matcher = AddedTokenMatcher(normalized);
}

Result<std::unique_ptr<Tokenizer::State>> Tokenizer::State::make(TokenizerSpec& spec) {
  std::size_t n_ids = 0;
  std::size_t n_bytes = 0;
  const auto count = [&](TokenId id, std::size_t size) {
    n_ids = std::max(n_ids, static_cast<std::size_t>(id) + 1);
    n_bytes += size;
  };
  for (const auto& [text, id] : spec.vocab) count(id, text.size());
  for (const AddedToken& token : spec.added) {
    if (find_invalid_utf8(token.content)) {
      return bad_data(spec, "an added token is not valid UTF-8: \"" + shown(token.content) + "\"");
    }
    count(token.id, token.content.size());
  }
  if (n_ids == 0) return bad_data(spec, "the vocabulary is empty");
  if (n_bytes > ~std::uint32_t{0}) return bad_data(spec, "the vocabulary has more than 4 GiB");
  for (const auto& id : {spec.bos, spec.eos}) {
    if (id && static_cast<std::size_t>(*id) >= n_ids) {
      return bad_data(spec, "bos or eos has the id " + std::to_string(*id) +
                                ", outside the vocabulary of " + std::to_string(n_ids));
    }
  }
  TokenTable tokens(n_ids, spec.vocab.size(), n_bytes);
  for (const auto& [text, id] : spec.vocab) {
    if (!tokens.add(id, text)) {
      return bad_data(spec, "two tokens have the id " + std::to_string(id) + ", the second is \"" +
                                shown(text) + "\"");
    }
  }
  for (const AddedToken& token : spec.added) tokens.add_unlisted(token.id, token.content);

  Bpe::Options options;
  options.ignore_merges = spec.ignore_merges;
  options.fuse_unknown = spec.fuse_unknown;
  if (spec.unknown) {
    options.unknown = tokens.find_text(*spec.unknown);
    if (!options.unknown) {
      return bad_data(spec, "unk_token \"" + shown(*spec.unknown) + "\" is not in the vocabulary");
    }
  }
  Bpe bpe(std::move(tokens), spec.merges.size(), options);
  for (const AddedToken& token : spec.added) {
    if (token.special) bpe.forbid(token.id);
  }
  for (const auto& [left, right] : spec.merges) {
    if (const Status status = bpe.add_merge(left, right); !status) {
      return bad_data(spec, status.error().message);
    }
  }
  bpe.finish();
  return std::make_unique<State>(std::move(bpe), spec);
}

std::vector<TokenId> Tokenizer::State::encode(std::string_view text, std::string_view trusted,
                                              SpecialMatch match) const {
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 4 + 8);
  Bpe::Scratch scratch;
  for (const AddedSpan& span : raw_matcher.split(text, trusted, match)) {
    if (span.token != nullptr) {
      ids.push_back(span.token->id);
      continue;
    }
    const std::size_t size = span.end - span.begin;
    encode_raw(text.substr(span.begin, size),
               trusted.empty() ? trusted : trusted.substr(span.begin, size), match, scratch, ids);
  }
  return ids;
}

// Text without raw added tokens: normalized, then cut at those that are looked for afterwards.
void Tokenizer::State::encode_raw(std::string_view text, std::string_view trusted,
                                  SpecialMatch match, Bpe::Scratch& scratch,
                                  std::vector<TokenId>& ids) const {
  std::string normalized;
  std::string normalized_trusted;
  if (nfc && !is_surely_nfc(text)) {
    normalized.reserve(text.size());
    normalize_nfc(text, trusted, normalized, normalized_trusted);
    text = normalized;
    trusted = normalized_trusted;
  }
  if (normalized_matcher.empty()) {
    encode_pieces(text, 0, scratch, ids);
    return;
  }
  for (const AddedSpan& span : normalized_matcher.split(text, trusted, match)) {
    if (span.token != nullptr) {
      ids.push_back(span.token->id);
    } else {
      encode_pieces(text.substr(span.begin, span.end - span.begin), 0, scratch, ids);
    }
  }
}

// Each step cuts the pieces of the step before it.
void Tokenizer::State::encode_pieces(std::string_view text, std::size_t step, Bpe::Scratch& scratch,
                                     std::vector<TokenId>& ids) const {
  if (step == steps.size()) {
    bpe.encode(text, scratch, ids);
    return;
  }
  if (steps[step] == SplitStep::kPrefixSpace) {
    if (text.starts_with(' ')) return encode_pieces(text, step + 1, scratch, ids);
    std::string prefixed(1, ' ');
    prefixed += text;
    return encode_pieces(prefixed, step + 1, scratch, ids);
  }
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = piece_end(steps[step], text, begin);
    encode_pieces(text.substr(begin, end - begin), step + 1, scratch, ids);
    begin = end;
  }
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json(std::string_view json, std::string name) {
  TokenizerSpec spec;
  spec.name = std::move(name);
  boost::json::monotonic_resource memory;
  MUNIA_ASSIGN_OR_RETURN(const boost::json::value root, parse_json(json, spec.name, &memory));
  MUNIA_RETURN_IF_ERROR(read_tokenizer_json(root, spec));
  MUNIA_ASSIGN_OR_RETURN(auto state, State::make(spec));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(state)));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_gguf(const files::GgufFile& file) {
  TokenizerSpec spec;
  spec.name = file.path();
  MUNIA_RETURN_IF_ERROR(read_gguf_spec(file, spec));
  MUNIA_ASSIGN_OR_RETURN(auto state, State::make(spec));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(state)));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_directory(const std::string& dir) {
  TokenizerSpec spec;
  boost::json::monotonic_resource memory;
  std::string merges;
  boost::json::value root;
  boost::json::value config;
  const auto absent = [](const Result<std::string>& file) {
    return !file && file.error().code == ErrorCode::kNotFound;
  };

  spec.name = dir + "/tokenizer.json";
  const auto whole = read_file(spec.name, kMaxTokenizerFileBytes);
  const bool vocab_files = absent(whole);
  if (!vocab_files) {
    if (!whole) return whole.error();
    MUNIA_ASSIGN_OR_RETURN(root, parse_json(*whole, spec.name, &memory));
    MUNIA_RETURN_IF_ERROR(read_tokenizer_json(root, spec));
  } else {
    spec.name = dir + "/vocab.json";
    const auto vocab = read_file(spec.name, kMaxTokenizerFileBytes);
    if (absent(vocab)) {
      return Error{ErrorCode::kNotFound,
                   dir +
                       " has no tokenizer.json and no vocab.json; a Hugging Face directory needs "
                       "one of them"};
    }
    if (!vocab) return vocab.error();
    MUNIA_ASSIGN_OR_RETURN(root, parse_json(*vocab, spec.name, &memory));
    MUNIA_RETURN_IF_ERROR(read_vocab(root, spec));
    MUNIA_ASSIGN_OR_RETURN(merges, read_file(dir + "/merges.txt", kMaxTokenizerFileBytes));
    if (const auto offset = find_invalid_utf8(merges)) {
      return bad_data(spec,
                      "merges.txt is not valid UTF-8 at byte offset " + std::to_string(*offset));
    }
    MUNIA_RETURN_IF_ERROR(read_merges_text(merges, spec));
  }
  spec.name = dir + "/tokenizer_config.json";
  const auto config_text = read_file(spec.name, kMaxConfigFileBytes);
  if (!absent(config_text)) {
    if (!config_text) return config_text.error();
    MUNIA_ASSIGN_OR_RETURN(config, parse_json(*config_text, spec.name, {}));
    MUNIA_RETURN_IF_ERROR(read_tokenizer_config(config, vocab_files, spec));
  } else if (vocab_files) {
    return Error{ErrorCode::kNotFound, spec.name +
                                           " does not exist; with vocab.json it is needed "
                                           "to know how the tokenizer cuts text"};
  }
  spec.name = dir;
  MUNIA_ASSIGN_OR_RETURN(auto state, State::make(spec));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(state)));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text) const {
  MUNIA_RETURN_IF_ERROR(check_text(text));
  return state_->encode(text, {}, SpecialMatch::kNone);
}

Result<std::vector<TokenId>> Tokenizer::encode_with_special(std::string_view text) const {
  MUNIA_RETURN_IF_ERROR(check_text(text));
  return state_->encode(text, {}, SpecialMatch::kAll);
}

Result<std::vector<TokenId>> Tokenizer::encode(const MarkedText& text) const {
  MUNIA_CHECK(text.trusted.size() == text.bytes.size());
  MUNIA_RETURN_IF_ERROR(check_text(text.bytes));
  return state_->encode(text.bytes, text.trusted, SpecialMatch::kWhereTrusted);
}

std::string_view Tokenizer::token_bytes(TokenId id) const { return state_->bpe.tokens().bytes(id); }

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes;
  for (const TokenId id : ids) {
    if (!(skip_special && is_special(id))) bytes += token_bytes(id);
  }
  return replace_invalid_utf8(bytes);
}

bool Tokenizer::is_special(TokenId id) const {
  return id >= 0 && static_cast<std::size_t>(id) < state_->special.size() && state_->special[id];
}

std::optional<TokenId> Tokenizer::find(std::string_view token) const {
  const auto it = state_->added_by_content.find(token);
  if (it != state_->added_by_content.end()) return it->second->id;
  return state_->bpe.tokens().find_text(token);
}

std::int64_t Tokenizer::vocab_size() const {
  return static_cast<std::int64_t>(state_->bpe.tokens().n_ids());
}

std::optional<TokenId> Tokenizer::eos_token() const { return state_->eos; }
std::optional<TokenId> Tokenizer::bos_token() const { return state_->bos; }
bool Tokenizer::adds_bos() const { return state_->adds_bos; }

}  // namespace munia::text
