// JSON with its types checked, for the readers of tokenizer files.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/tokenizer_spec.h"

namespace munia::text {

/// Parses `text` into memory of `storage`; an Error says where the JSON is broken.
Result<boost::json::value> parse_json(std::string_view text, const std::string& name,
                                      boost::json::storage_ptr storage);

/// object[key]; nullptr when absent or null.
const boost::json::value* find_member(const boost::json::object& object, std::string_view key);
Result<bool> get_flag(const TokenizerSpec& spec, const boost::json::object& object,
                      std::string_view key, bool fallback);
/// The string at object[key]; empty when absent or null.
Result<std::string_view> get_text(const TokenizerSpec& spec, const boost::json::object& object,
                                  std::string_view key);
/// A token id: an integer in 0..kMaxTokenId.
Result<TokenId> as_token_id(const TokenizerSpec& spec, const boost::json::value& value,
                            std::string_view what);
/// {"token": id, …} into spec.vocab.
Status read_vocab(const boost::json::value& value, TokenizerSpec& spec);
/// content and flags of one added token (without its id).
Result<AddedToken> read_added_token(const TokenizerSpec& spec, const boost::json::value& value);

}  // namespace munia::text
