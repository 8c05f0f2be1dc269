// What a tokenizer's files say, in one form for all of them: the readers (tokenizer.json,
// vocab.json with merges.txt, GGUF metadata) fill it, Tokenizer is built from it.
#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "files/gguf.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pretokenize.h"

namespace munia::text {

/// The views borrow from the file's content: a spec lives only while a tokenizer is being built.
struct TokenizerSpec {
  std::string name;                                                   // of the file, for messages
  std::vector<std::pair<std::string_view, TokenId>> vocab;            // each text once in a JSON
  std::vector<std::pair<std::string_view, std::string_view>> merges;  // by rank
  std::vector<AddedToken> added;
  std::vector<SplitStep> steps;
  bool nfc = false;
  bool ignore_merges = false;
  bool fuse_unknown = false;
  std::optional<std::string> unknown;  // text of the token for bytes without one
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  bool adds_bos = false;
};

/// `what` shortened for a message, on a character boundary.
std::string shown(std::string_view what);
Error bad_data(const TokenizerSpec& spec, const std::string& what);
Error not_supported(const TokenizerSpec& spec, const std::string& what);

/// From a parsed tokenizer.json, which must outlive `spec`.
Status read_tokenizer_json(const boost::json::value& json, TokenizerSpec& spec);

/// The id that Hugging Face gives each added token must be the one its file writes.
Status check_added_ids(const TokenizerSpec& spec);

/// A merge written as "left right".
Status add_merge_line(std::string_view line, TokenizerSpec& spec);

/// tokenizer_config.json over what is read already: added tokens, bos and eos. With `vocab_files`
/// (no tokenizer.json) its class also tells how text is cut.
Status read_tokenizer_config(const boost::json::value& config, bool vocab_files,
                             TokenizerSpec& spec);
/// The lines of merges.txt.
Status read_merges_text(std::string_view text, TokenizerSpec& spec);

Status read_gguf_spec(const files::GgufFile& file, TokenizerSpec& spec);

}  // namespace munia::text
