// Keeps a reply within a grammar: which tokens may come next. The vocabulary's bytes make tries
// (TokenIndex), so that one walk over them tries each common beginning once and leaves out what the
// grammar cannot read; a state's answer is kept, since a reply comes back to few states. Tokens of
// each length have a trie of their own: a counter that is near its limit for the few long tokens is
// still far from it for nearly all others. Knows token ids and bytes, no text, no model.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/matcher.h"

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
  void add(const TokenMask& other);
  std::int64_t count() const;
  /// The ids, ascending.
  std::vector<std::int32_t> ids() const;
  /// Sets every logit of `logits` [vocab_size] whose token is not in the set to -inf.
  void apply(std::span<float> logits) const;

 private:
  static std::uint64_t bit(std::int32_t id) { return std::uint64_t{1} << (id % 64); }
  std::vector<std::uint64_t> words_;
};

/// The bytes of all tokens that may stand in a reply, as tries. Immutable.
class TokenIndex {
 public:
  /// Tokens of length class c have at most kLengths[c] bytes. (A vocabulary of 151,665 tokens has
  /// 8 to 12 bytes in most; the longest are runs of spaces or rules.)
  static constexpr std::array<std::uint32_t, 4> kLengths = {6, 12, 24, UINT16_MAX};

  /// `token_bytes` [vocab_size]; a token with empty bytes (special ones) never matches.
  explicit TokenIndex(std::vector<std::string> token_bytes);
  std::int64_t vocab_size() const { return static_cast<std::int64_t>(token_bytes_.size()); }
  std::string_view bytes(std::int32_t id) const;
  /// The length of the longest token of this length class or a shorter one.
  std::uint32_t max_bytes(std::size_t c) const { return tries_[c].max_bytes; }
  std::uint32_t max_bytes() const { return tries_.back().max_bytes; }
  /// Adds to `mask` the tokens of this length class whose bytes `matcher` can read from `state` on;
  /// as far as it came, where the matcher is exhausted then. Time: linear in the bytes that it can
  /// read.
  void allow(grammar::Matcher& matcher, grammar::Matcher::State state, std::size_t c,
             TokenMask& mask) const;

 private:
  struct Node {           // of a trie, in the order of a depth-first walk
    std::uint32_t skip;   // the next node that is not below this one
    std::int32_t token;   // that ends here, or -1
    std::uint16_t depth;  // bytes up to and with `byte`
    std::uint8_t byte;
  };
  struct Trie {
    std::vector<Node> nodes;
    std::unordered_map<std::int32_t, std::vector<std::int32_t>> twins;  // with the same bytes
    std::uint32_t max_bytes = 0;
  };
  /// `ids` by their bytes.
  void build(const std::vector<std::int32_t>& ids, Trie& trie) const;

  std::vector<std::string> token_bytes_;
  std::array<Trie, kLengths.size()> tries_;  // [length class]
};

/// The state of one reply. Not thread-safe.
class Constraint {
 public:
  /// A copy goes its own way, with what is known so far.
  Constraint(std::shared_ptr<const TokenIndex> index, grammar::GrammarPtr grammar);

  /// The tokens that may come next.
  const TokenMask& allowed() { return entry().mask; }
  /// The ids of allowed() where they are few enough to be worth a list; empty otherwise.
  std::span<const std::int32_t> few_allowed() { return entry().few; }
  /// True when the reply may end here; nothing but the end may come when must_end().
  bool can_end() const { return has_state() && matcher_.accepts(state_); }
  bool must_end() { return entry().n_allowed == 0; }
  /// Lets go of what a reply would only need again later, where it is much: for one that waits.
  void shrink();
  /// Goes on by the bytes of `id`, which must be allowed.
  void accept(std::int32_t id);
  /// kUnsupported when a step of the grammar, or all together, took too much work or memory: then
  /// allowed() lacks tokens. Also once allowed() has shown that the text must go on, but no token
  /// has the byte that must follow.
  Status status() const;
  /// Work done so far, as Matcher counts it.
  std::uint64_t work() const { return work_; }

 private:
  struct Entry {
    TokenMask mask;
    std::int64_t n_allowed;
    std::vector<std::int32_t> few;
  };
  enum class Failure : std::uint8_t { kNone, kWork, kNoToken };
  const Entry& entry();
  Entry new_entry(grammar::Matcher::State key);
  std::size_t n_masks() const;
  void forget_masks();
  bool has_state() const { return state_ != grammar::Matcher::kNone; }
  void begin_work();
  void end_work();

  std::shared_ptr<const TokenIndex> index_;
  grammar::Matcher matcher_;
  grammar::Matcher::State state_ = grammar::Matcher::kNone;  // kNone: it failed at once
  Failure failure_ = Failure::kNone;
  std::uint64_t work_ = 0;
  std::uint64_t work_allowed_;          // in all, so far
  std::uint64_t granted_ = 0;           // by begin_work()
  std::shared_ptr<const Entry> entry_;  // of state_, once it was asked for
  // By the state that is alike() for all tokens, and for those of each length class but the last.
  std::unordered_map<grammar::Matcher::State, std::shared_ptr<const Entry>> entries_;
  std::array<std::unordered_map<grammar::Matcher::State, TokenMask>,
             TokenIndex::kLengths.size() - 1>
      masks_;
};

}  // namespace munia::decode
