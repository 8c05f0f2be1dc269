#include "engine/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace munia::engine {

using kernels::kPageTokens;

namespace {

bool begins_with(TokenSpan tokens, TokenSpan beginning) {
  return common_prefix(tokens, beginning) == static_cast<std::int64_t>(beginning.size());
}

TokenSpan page_of(TokenSpan tokens, std::size_t begin) {
  return tokens.subspan(begin, std::min<std::size_t>(kPageTokens, tokens.size() - begin));
}

}  // namespace

std::int64_t common_prefix(TokenSpan a, TokenSpan b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

bool PrefixCache::Before::operator()(TokenSpan a, TokenSpan b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

PrefixCache::PrefixCache(const model::KvLayout& layout, std::size_t budget_bytes)
    : page_bytes_(layout.page_bytes()), max_pages_(budget_bytes / page_bytes_) {}

std::int64_t PrefixCache::take(TokenSpan tokens, model::KvCache& kv) {
  std::vector<Node*> path;
  std::int64_t n_known = 0;
  for (Node* node = &root_; n_known < static_cast<std::int64_t>(tokens.size());) {
    const auto [child, n] =
        nearest_child(*node, page_of(tokens, static_cast<std::size_t>(n_known)));
    if (n == 0) break;
    path.push_back(child);
    n_known += n;
    if (n < kPageTokens) break;
    node = child;
  }
  touch(path);
  const std::int64_t n_before = kv.n_tokens();
  if (n_known <= n_before) return 0;
  // The pages themselves: making room for a copy may drop nodes, but no page that is held here.
  const std::int64_t first = n_before / kPageTokens;
  std::vector<std::shared_ptr<float>> pages;
  for (std::size_t i = static_cast<std::size_t>(first); i < path.size(); ++i) {
    pages.push_back(path[i]->page);
  }
  kv.truncate(first * kPageTokens);  // a page begun by the sequence itself is behind the cache's
  for (std::shared_ptr<float>& page : pages) {
    const std::int64_t n = n_known - kv.n_tokens();
    if (n >= kPageTokens) {
      kv.append_page(std::move(page));
    } else if (!kv.append_copy(page.get(), n)) {
      break;
    }
  }
  return std::max<std::int64_t>(kv.n_tokens() - n_before, 0);
}

void PrefixCache::keep(TokenSpan tokens, const model::KvCache& kv, bool all) {
  if (!enabled()) return;
  const TokenSpan computed = tokens.first(static_cast<std::size_t>(kv.n_tokens()));
  extend_pins(computed, kv);
  if (all) insert(computed, kv);
}

std::int64_t PrefixCache::n_kept(TokenSpan tokens, bool all) {
  if (!enabled()) return 0;
  if (all) return static_cast<std::int64_t>(tokens.size());
  std::int64_t longest = 0;
  for (const Pin& pin : pins_) {
    if (const PinnedPrefix prefix = pin.tokens.lock()) {
      longest = std::max(longest, common_prefix(tokens, *prefix));
    }
  }
  return longest;
}

void PrefixCache::pin(const PinnedPrefix& prefix) {
  drop_expired_pins();
  if (enabled() && !prefix->empty()) pins_.push_back({prefix, {}});
}

// The child whose tokens have most in common with `tokens` (one page of them at most), and how
// many. In the order of tokens it is a neighbour of where they would stand.
std::pair<PrefixCache::Node*, std::int64_t> PrefixCache::nearest_child(Node& node,
                                                                       TokenSpan tokens) {
  std::pair<Node*, std::int64_t> nearest{nullptr, 0};
  const auto consider = [&](Children::iterator it) {
    const std::int64_t n = common_prefix(it->first, tokens);
    if (n > nearest.second) nearest = {it->second, n};
  };
  const auto next = node.children.lower_bound(tokens);
  if (next != node.children.end()) consider(next);
  if (next != node.children.begin()) consider(std::prev(next));
  return nearest;
}

// The nodes of `tokens`, which `kv` holds; made where they are missing.
std::vector<PrefixCache::Node*> PrefixCache::insert(TokenSpan tokens, const model::KvCache& kv) {
  std::vector<Node*> path;
  Node* node = &root_;
  for (std::size_t begin = 0; begin < tokens.size(); begin += kPageTokens) {
    node = child_for(*node, page_of(tokens, begin),
                     kv.page(static_cast<std::int64_t>(begin) / kPageTokens));
    path.push_back(node);
  }
  touch(path);
  return path;
}

PrefixCache::Node* PrefixCache::child_for(Node& node, TokenSpan tokens,
                                          const std::shared_ptr<float>& page) {
  const auto next = node.children.lower_bound(tokens);
  if (next != node.children.end() && begins_with(next->first, tokens)) return next->second;
  if (next != node.children.begin()) {
    const auto shorter = std::prev(next);
    if (begins_with(tokens, shorter->first)) {
      // The same beginning of a page, now filled further. No other child begins so, and so short a
      // page has no children.
      Node* const child = shorter->second;
      auto handle = node.children.extract(shorter);
      handle.key().assign(tokens.begin(), tokens.end());
      child->entry = node.children.insert(std::move(handle)).position;
      child->page = page;
      return child;
    }
  }
  order_.push_back(std::make_unique<Node>());
  Node* const child = order_.back().get();
  child->parent = &node;
  child->page = page;
  child->place = std::prev(order_.end());
  child->entry = node.children.emplace(Tokens(tokens.begin(), tokens.end()), child).first;
  return child;
}

void PrefixCache::extend_pins(TokenSpan tokens, const model::KvCache& kv) {
  drop_expired_pins();
  for (Pin& pin : pins_) {
    const PinnedPrefix prefix = pin.tokens.lock();
    if (prefix == nullptr) continue;
    const auto n = static_cast<std::size_t>(common_prefix(tokens, *prefix));
    // A page is pinned once it holds all of the prefix that falls into it.
    const std::size_t n_pages = n == prefix->size() ? (n + kPageTokens - 1) / kPageTokens
                                                    : n / static_cast<std::size_t>(kPageTokens);
    if (n_pages <= pin.nodes.size()) continue;
    const std::size_t n_new = n_pages - pin.nodes.size();
    if (n_pinned_ + n_new > max_pages_ / 2) continue;
    const std::vector<Node*> path = insert(tokens.first(std::min(n, n_pages * kPageTokens)), kv);
    for (std::size_t i = pin.nodes.size(); i < path.size(); ++i) {
      if (path[i]->n_pins++ == 0) ++n_pinned_;
      pin.nodes.push_back(path[i]);
    }
  }
}

void PrefixCache::drop_expired_pins() {
  std::erase_if(pins_, [this](Pin& pin) {
    if (!pin.tokens.expired()) return false;
    for (Node* node : pin.nodes) unpin(*node);
    return true;
  });
}

void PrefixCache::unpin(Node& node) {
  if (--node.n_pins == 0) --n_pinned_;
}

// Leaves first, so that a node is never older than what hangs below it.
void PrefixCache::touch(std::span<Node* const> path) {
  for (auto node = path.rbegin(); node != path.rend(); ++node) {
    order_.splice(order_.end(), order_, (*node)->place);
  }
}

void PrefixCache::trim() {
  if (order_.size() <= max_pages_) return;
  drop_expired_pins();
  auto n_idle = static_cast<std::size_t>(
      std::count_if(order_.begin(), order_.end(), [](const auto& node) { return node->idle(); }));
  for (auto it = order_.begin(); it != order_.end() && n_idle > max_pages_;) {
    Node& node = **it++;
    if (!node.children.empty() || !node.idle() || node.n_pins > 0) continue;
    drop(node);
    --n_idle;
  }
}

bool PrefixCache::drop_one() {
  drop_expired_pins();
  while (!order_.empty()) {
    if (drop_leaf(false, false) || drop_leaf(true, false)) return true;
    // Idle pages may hang above used ones (two sequences computed the same page at the same time):
    // a used leaf frees nothing, but uncovers them.
    const bool any_idle =
        std::any_of(order_.begin(), order_.end(), [](const auto& node) { return node->idle(); });
    if (!any_idle || !drop_leaf(true, true)) return false;
  }
  return false;
}

// The least recently used leaf.
bool PrefixCache::drop_leaf(bool pinned_too, bool used_too) {
  const auto leaf = std::find_if(order_.begin(), order_.end(), [&](const auto& node) {
    return node->children.empty() && (pinned_too || node->n_pins == 0) &&
           (used_too || node->idle());
  });
  if (leaf == order_.end()) return false;
  drop(**leaf);
  return true;
}

void PrefixCache::drop(Node& node) {
  if (node.n_pins > 0) {
    for (Pin& pin : pins_) {
      // A leaf is the last of every path that it is on.
      if (!pin.nodes.empty() && pin.nodes.back() == &node) {
        pin.nodes.pop_back();
        unpin(node);
      }
    }
  }
  node.parent->children.erase(node.entry);
  order_.erase(node.place);
}

}  // namespace munia::engine
