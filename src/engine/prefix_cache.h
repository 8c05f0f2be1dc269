// KV pages of tokens that were computed before, found again by their tokens: a later prompt that
// begins with them takes the pages instead of computing them. A radix tree: a node is one page and
// the tokens that it stands for, below the node of the tokens before it; tokens are compared, never
// only hashes of them. A whole page is shared by reference, a part of one is copied, so every
// common token counts.
//
// Memory: pages that running sequences use cost nothing extra and stay. Pages that only the cache
// holds are bounded by a byte budget, least recently used ones leave first; when a running sequence
// needs memory (KvPool's limit) they are given back one by one, pinned ones last.
//
// Owned by the engine thread; not thread-safe. Knows no model and no jobs.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "model/kv_cache.h"

namespace munia::engine {

using Tokens = std::vector<std::int32_t>;
using TokenSpan = std::span<const std::int32_t>;

/// Tokens that stay in the cache as long as somebody holds this.
using PinnedPrefix = std::shared_ptr<const Tokens>;

/// How many tokens two sequences have in common at their beginning.
std::int64_t common_prefix(TokenSpan a, TokenSpan b);

class PrefixCache {
 public:
  /// `budget_bytes` is for pages that only the cache holds, half of it at most for pinned ones.
  /// Below one page the cache is off: it keeps nothing and finds nothing.
  PrefixCache(const model::KvLayout& layout, std::size_t budget_bytes);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  bool enabled() const { return max_pages_ > 0; }

  /// Extends `kv`, which holds the keys and values of tokens[0 … kv.n_tokens()), as far into
  /// `tokens` as the cache knows them. Returns the number of tokens gained.
  std::int64_t take(TokenSpan tokens, model::KvCache& kv);
  /// Keeps what `kv` holds: its n_tokens() are the first of `tokens`. `all` false: only what is
  /// pinned. `kv` may grow later, but must not rewrite what it holds now.
  void keep(TokenSpan tokens, const model::KvCache& kv, bool all);
  /// How many of `tokens` keep() would keep once they are computed.
  std::int64_t n_kept(TokenSpan tokens, bool all);

  /// From now on tokens that `prefix` begins with are pinned where they are kept, until nobody
  /// holds `prefix` any more.
  void pin(const PinnedPrefix& prefix);

  /// Brings the pages that only the cache holds under the budget. To be called when sequences have
  /// let go of theirs.
  void trim();
  /// Gives one page back to the pool; false when every page that is left is in use.
  bool drop_one();

  std::size_t held_bytes() const { return order_.size() * page_bytes_; }
  std::size_t pinned_bytes() const { return n_pinned_ * page_bytes_; }

 private:
  struct Before {  // order of tokens, for finding the nearest
    using is_transparent = void;
    bool operator()(TokenSpan a, TokenSpan b) const;
  };
  struct Node;
  using Order = std::list<std::unique_ptr<Node>>;
  using Children = std::map<Tokens, Node*, Before>;  // none begins with another
  struct Node {
    Node* parent = nullptr;
    Children::iterator entry;  // in parent->children; its key: 1 to kPageTokens tokens
    Order::iterator place;     // in order_
    std::shared_ptr<float> page;
    Children children;  // empty unless the page is whole
    int n_pins = 0;
    bool idle() const { return page.use_count() == 1; }  // only the cache holds it
  };
  struct Pin {
    std::weak_ptr<const Tokens> tokens;
    std::vector<Node*> nodes;  // of its first pages, each with a share in n_pins
  };

  static std::pair<Node*, std::int64_t> nearest_child(Node& node, TokenSpan tokens);
  std::vector<Node*> insert(TokenSpan tokens, const model::KvCache& kv);
  Node* child_for(Node& node, TokenSpan tokens, const std::shared_ptr<float>& page);
  void extend_pins(TokenSpan tokens, const model::KvCache& kv);
  void drop_expired_pins();
  void unpin(Node& node);
  void touch(std::span<Node* const> path);
  bool drop_leaf(bool pinned_too, bool used_too);
  void drop(Node& node);

  std::size_t page_bytes_;
  std::size_t max_pages_;
  Node root_;
  Order order_;  // of last use, latest at the end; a node stands behind its descendants
  std::vector<Pin> pins_;
  std::size_t n_pinned_ = 0;  // nodes with n_pins > 0
};

}  // namespace munia::engine
