// Text to token ids and back: added tokens, normalization, pretokenization, byte-level BPE, equal
// to Hugging Face tokenizers. Immutable once made; every method is safe from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "files/gguf.h"
#include "text/marked_text.h"

namespace munia::text {

using TokenId = std::int32_t;

class Tokenizer {
 public:
  /// From a Hugging Face directory: tokenizer.json, or vocab.json + merges.txt with
  /// tokenizer_config.json. An unknown pre-tokenizer, normalizer or model is an Error that names
  /// it.
  static Result<std::unique_ptr<Tokenizer>> from_directory(const std::string& dir);
  /// From the metadata of a GGUF file (tokenizer.ggml.*); an unknown tokenizer.ggml.pre is an
  /// Error.
  static Result<std::unique_ptr<Tokenizer>> from_gguf(const files::GgufFile& file);
  /// From the content of a tokenizer.json (tests, fuzzers); `name` is for messages.
  static Result<std::unique_ptr<Tokenizer>> from_json(std::string_view json, std::string name);
  /// From what pack() gave, in a few milliseconds: nothing is parsed. `name` is for messages.
  static Result<std::unique_ptr<Tokenizer>> from_packed(std::span<const std::byte> bytes,
                                                        std::string name);
  /// The tokenizer in a flat form of its own; deterministic.
  std::string pack() const;
  ~Tokenizer();

  /// No encode adds bos or eos: a caller that wants bos where the files ask for it reads
  /// adds_bos(). A text may have 64 MiB. Time is linear in it, but for a logarithm on very long
  /// words. Ids of plain text: special tokens in it are data; added tokens that are not special
  /// match. `text` must be valid UTF-8 (invalid bytes are an Error that names the byte offset).
  Result<std::vector<TokenId>> encode(std::string_view text) const;
  /// As encode, but special tokens in the text are parsed as such, like Hugging Face does.
  Result<std::vector<TokenId>> encode_with_special(std::string_view text) const;
  /// Ids of a rendered template: a special token matches only where every byte of it is trusted.
  Result<std::vector<TokenId>> encode(const MarkedText& text) const;

  /// The bytes that a token stands for (raw, perhaps not whole UTF-8); special tokens give their
  /// text. Empty for an id outside the vocabulary.
  std::string_view token_bytes(TokenId id) const;
  /// Joined bytes of `ids`, invalid UTF-8 replaced by U+FFFD; skip_special leaves special tokens
  /// out.
  std::string decode(std::span<const TokenId> ids, bool skip_special) const;

  bool is_special(TokenId id) const;
  /// The id of a token by its exact text (added or ordinary), for example "<|im_end|>".
  /// Ordinary tokens are spelt as in the files: "Ġthe" for " the".
  std::optional<TokenId> find(std::string_view token) const;
  std::int64_t vocab_size() const;  // highest id + 1

  /// Ids that end a turn as the tokenizer's own files tell (eos_token), if any; likewise bos.
  std::optional<TokenId> eos_token() const;
  std::optional<TokenId> bos_token() const;
  /// True when the files ask that bos be put before every text (Hugging Face add_bos semantics).
  bool adds_bos() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace munia::text
