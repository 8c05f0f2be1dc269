// Byte-level BPE over one piece of text: the token table (id <-> bytes) and the merges. Knows
// nothing of pieces, added tokens or files. Equal to Hugging Face's BPE: always the merge of lowest
// rank, the leftmost of equals; short pieces by scanning, long ones with a heap, so no text takes
// quadratic time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"

namespace munia::text {

/// Highest id a tokenizer may have: the largest vocabularies known have about 262,000 tokens.
inline constexpr std::int64_t kMaxTokenId = (1 << 20) - 1;

/// Bytes of a token's text in a file, where GPT-2's alphabet writes each byte as one character;
/// nothing if a character is not in the alphabet.
std::optional<std::string> bytes_of_token_text(std::string_view text);

/// Open addressing over 64-bit keys, sized once. kEmptyKey may not be a key.
class FlatMap {
 public:
  struct Value {
    std::uint32_t rank;
    TokenId id;
  };
  static constexpr std::uint64_t kEmptyKey = ~std::uint64_t{0};

  explicit FlatMap(std::size_t n_keys = 0);
  void set(std::uint64_t key, Value value);  // a later value for a key replaces the earlier
  const Value* find(std::uint64_t key) const {
    for (std::size_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return &slots_[slot].value;
      if (slots_[slot].key == kEmptyKey) return nullptr;
    }
  }
  template <class Body>  // body(key, value), in no particular order
  void for_each(Body&& body) const {
    for (const Slot& slot : slots_) {
      if (slot.key != kEmptyKey) body(slot.key, slot.value);
    }
  }

 private:
  struct Slot {
    std::uint64_t key = kEmptyKey;
    Value value{};
  };
  std::size_t slot_of(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> 20) & mask_;
  }
  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
};

/// id -> bytes and bytes -> id, all bytes in one arena.
class TokenTable {
 public:
  TokenTable() = default;
  /// Room for ids 0..n_ids-1 and `n_bytes` of token text in all: the arena never moves.
  TokenTable(std::size_t n_ids, std::size_t n_tokens, std::size_t n_bytes);

  /// Adds a token by its text in the file. False if the id has one already.
  bool add(TokenId id, std::string_view text);
  /// Sets the bytes of a token that is found otherwise (added tokens), if the id has none.
  void add_unlisted(TokenId id, std::string_view text);

  /// How a token is found; with its bytes, all that a packed file needs of it.
  enum class Kind : std::uint8_t {
    kAbsent = 0,    // the id has no token
    kBytes = 1,     // by its bytes: spelt in GPT-2's alphabet
    kText = 2,      // by its text, which is outside that alphabet
    kUnlisted = 3,  // not at all, or another token of the same text is found instead
  };
  Kind kind(TokenId id) const;
  /// Adds a token by kind and bytes, as another table told them. False if the id has one already.
  bool add(TokenId id, Kind kind, std::string_view bytes);

  std::string_view bytes(TokenId id) const;  // empty outside the vocabulary
  std::size_t n_ids() const { return spans_.size(); }
  /// The token whose bytes these are (of tokens spelt in GPT-2's alphabet).
  std::optional<TokenId> find_bytes(std::string_view bytes) const;
  /// The token of this text as the file spells it.
  std::optional<TokenId> find_text(std::string_view text) const;

 private:
  struct Span {
    std::uint32_t begin = 0;
    std::uint32_t size = 0;
  };
  std::string_view store(TokenId id, std::string_view text, bool& in_alphabet);
  void list_bytes(TokenId id);

  std::string arena_;
  std::vector<Span> spans_;                         // [n_ids]
  std::vector<bool> present_;                       // [n_ids]
  std::vector<TokenId> slots_;                      // hash of bytes -> id, kNoToken where empty
  std::unordered_map<std::string, TokenId> other_;  // texts outside the alphabet
};

class Bpe {
 public:
  struct Options {
    bool ignore_merges = false;      // a piece that is a token is that token
    std::optional<TokenId> unknown;  // for bytes without a token; none: they are left out
    bool fuse_unknown = false;       // one `unknown` for several such characters in a row
  };
  /// Lookups of one call; made once per text, reused for its pieces.
  struct Scratch;

  Bpe(TokenTable tokens, std::size_t n_merges, Options options);
  /// Makes a special token unreachable from text: no merge forms it, no piece is taken for it.
  /// To be called before the merges are added.
  void forbid(TokenId id) { forbidden_[id] = true; }
  /// The next merge in order of rank, as texts; an Error if a part or the whole is not a token.
  Status add_merge(std::string_view left, std::string_view right);
  /// The next merge as ids, all of which must be in the vocabulary.
  void add_merge(TokenId left, TokenId right, TokenId joined);
  struct Merge {
    TokenId left, right, joined;
  };
  std::vector<Merge> merges() const;  // by rank
  const Options& options() const { return options_; }
  /// To be called after the last merge.
  void finish();

  const TokenTable& tokens() const { return tokens_; }
  TokenTable& tokens() { return tokens_; }

  /// Appends the ids of one piece.
  void encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& ids) const;

 private:
  void split_to_symbols(std::string_view piece, std::vector<TokenId>& symbols) const;
  void merge_by_scan(Scratch& scratch) const;
  void merge_by_heap(Scratch& scratch) const;
  const FlatMap::Value* find_merge(TokenId left, TokenId right) const;

  TokenTable tokens_;
  FlatMap merges_;
  std::uint32_t n_merges_ = 0;
  Options options_;
  std::vector<bool> forbidden_;  // [n_ids]
  TokenId byte_ids_[256];
  // Per token: 0 not known yet, 1 merging its bytes gives the token itself, 2 it does not. Filled
  // as texts come by; every writer stores the same value, so relaxed order is enough.
  std::unique_ptr<std::atomic<std::uint8_t>[]> is_whole_;
};

struct Bpe::Scratch {
  struct Node {
    TokenId id;
    std::int32_t prev;
    std::int32_t next;
  };
  struct Candidate {
    std::uint32_t rank;
    std::int32_t pos;
    TokenId left;  // the pair that was there when this was queued
    TokenId right;
  };
  std::vector<TokenId> symbols;
  std::vector<FlatMap::Value> pairs;
  std::vector<Node> nodes;
  std::vector<Candidate> heap;
};

}  // namespace munia::text
