// Keeps a reply within an automaton: which tokens may come next. The vocabulary's bytes are sorted
// once (TokenIndex), so that one walk over it tries each common beginning once; a state's answer is
// kept, since a reply comes back to few states. Knows token ids and bytes, no text, no model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "decode/automaton.h"

namespace munia::decode {

/// A set of token ids.
class TokenMask {
 public:
  explicit TokenMask(std::int64_t vocab_size)
      : words_(static_cast<std::size_t>((vocab_size + 63) / 64), 0) {}
  void set(std::int32_t id) { words_[static_cast<std::size_t>(id) / 64] |= bit(id); }
  bool has(std::int32_t id) const {
    const auto word = static_cast<std::size_t>(id) / 64;
    return id >= 0 && word < words_.size() && (words_[word] & bit(id)) != 0;
  }
  /// Sets every logit of `logits` [vocab_size] whose token is not in the set to -inf.
  void apply(std::span<float> logits) const;

 private:
  static std::uint64_t bit(std::int32_t id) { return std::uint64_t{1} << (id % 64); }
  std::vector<std::uint64_t> words_;
};

/// The bytes of all tokens that may stand in a reply, sorted. Immutable.
class TokenIndex {
 public:
  /// `token_bytes` [vocab_size]; a token with empty bytes (special ones) never matches.
  explicit TokenIndex(std::vector<std::string> token_bytes);
  std::int64_t vocab_size() const { return static_cast<std::int64_t>(token_bytes_.size()); }
  std::string_view bytes(std::int32_t id) const;
  /// The tokens whose bytes `automaton` can read from `state` on. Time: linear in the bytes that it
  /// can read.
  TokenMask allowed(const Automaton& automaton, const AutomatonState& state) const;

 private:
  std::vector<std::string> token_bytes_;
  std::vector<std::int32_t> sorted_;   // ids by their bytes
  std::vector<std::uint32_t> common_;  // [i]: bytes that sorted_[i] shares with sorted_[i - 1]
};

/// The state of one reply. Not thread-safe.
class Constraint {
 public:
  Constraint(std::shared_ptr<const TokenIndex> index, std::shared_ptr<const Automaton> automaton);

  /// The tokens that may come next.
  const TokenMask& allowed();
  /// True when the reply may end here; nothing but the end may come when must_end().
  bool can_end() const { return automaton_->accepts(state_); }
  bool must_end();
  /// Goes on by the bytes of `id`, which must be allowed.
  void accept(std::int32_t id);

 private:
  struct Entry {
    TokenMask mask;
    bool empty;
  };
  const Entry& entry();

  std::shared_ptr<const TokenIndex> index_;
  std::shared_ptr<const Automaton> automaton_;
  AutomatonState state_;
  std::unordered_map<AutomatonState, Entry, AutomatonStateHash> entries_;
};

}  // namespace munia::decode
