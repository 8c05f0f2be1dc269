// What a tokenizer holds once it is made; shared by the files that make, use and pack it.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

namespace munia::text {

struct Tokenizer::State {
  Bpe bpe;
  std::vector<AddedToken> added;
  AddedTokenMatcher raw_matcher;         // tokens looked for in the text as it came
  AddedTokenMatcher normalized_matcher;  // and in the normalized text
  std::unordered_map<std::string_view, const AddedToken*> added_by_content;
  std::vector<bool> special;  // [n_ids]
  std::vector<SplitStep> steps;
  bool nfc;
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  bool adds_bos;

  State(Bpe made, TokenizerSpec& spec);

  std::vector<TokenId> encode(std::string_view text, std::string_view trusted,
                              SpecialMatch match) const;
  void encode_raw(std::string_view text, std::string_view trusted, SpecialMatch match,
                  Bpe::Scratch& scratch, std::vector<TokenId>& ids) const;
  void encode_pieces(std::string_view text, std::size_t step, Bpe::Scratch& scratch,
                     std::vector<TokenId>& ids) const;
  static Result<std::unique_ptr<State>> make(TokenizerSpec& spec);
};

}  // namespace munia::text
