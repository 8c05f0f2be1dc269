#include "decode/constraint.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace munia::decode {
namespace {

// Masks that one reply keeps: 19 KB each with 151,936 tokens.
constexpr std::size_t kMaxMasks = 256;
// Tokens that are few: their logits alone are computed.
constexpr std::int64_t kFew = 64;
// Work of the grammar's matcher for one mask. A schema's string needs some ten thousand once; this
// much takes about a tenth of a second.
constexpr std::uint64_t kMaxWork = 1'000'000;
// The same for one reply: so much, and a share for each token.
constexpr std::uint64_t kMaxTotalWork = 20'000'000;
constexpr std::uint64_t kWorkPerToken = 50'000;
// What a reply that has not begun may hold, masks aside: many may wait.
constexpr std::size_t kMaxWaitingBytes = std::size_t{512} << 10;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

std::size_t common_prefix(std::string_view a, std::string_view b) {
  const std::size_t n = std::min(a.size(), b.size());
  std::size_t i = 0;
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

void TokenMask::add(const TokenMask& other) {
  MUNIA_CHECK(words_.size() == other.words_.size());
  for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
}

std::int64_t TokenMask::count() const {
  return std::accumulate(
      words_.begin(), words_.end(), std::int64_t{0},
      [](std::int64_t sum, std::uint64_t word) { return sum + std::popcount(word); });
}

std::vector<std::int32_t> TokenMask::ids() const {
  std::vector<std::int32_t> out;
  for (std::size_t w = 0; w < words_.size(); ++w) {
    for (std::uint64_t rest = words_[w]; rest != 0; rest &= rest - 1) {
      out.push_back(static_cast<std::int32_t>(w * 64) + std::countr_zero(rest));
    }
  }
  return out;
}

void TokenMask::apply(std::span<float> logits) const {
  for (std::size_t w = 0; w * 64 < logits.size(); ++w) {
    const std::uint64_t word = w < words_.size() ? words_[w] : 0;
    const std::size_t end = std::min(logits.size(), w * 64 + 64);
    if (word == 0) {
      std::fill(logits.begin() + static_cast<std::ptrdiff_t>(w * 64),
                logits.begin() + static_cast<std::ptrdiff_t>(end), kMinusInfinity);
    } else if (word != ~std::uint64_t{0}) {
      for (std::size_t i = w * 64; i < end; ++i) {
        if ((word >> (i % 64) & 1) == 0) logits[i] = kMinusInfinity;
      }
    }
  }
}

TokenIndex::TokenIndex(std::vector<std::string> token_bytes)
    : token_bytes_(std::move(token_bytes)) {
  std::array<std::vector<std::int32_t>, kLengths.size()> sorted;  // ids by their bytes
  for (std::size_t id = 0; id < token_bytes_.size(); ++id) {
    const std::size_t n = token_bytes_[id].size();
    // No token of a real vocabulary is as long as a node's depth can tell; it never matches.
    if (n > kLengths.back()) token_bytes_[id].clear();
    if (token_bytes_[id].empty()) continue;
    std::size_t c = 0;
    while (n > kLengths[c]) ++c;
    sorted[c].push_back(static_cast<std::int32_t>(id));
  }
  std::uint32_t max_bytes = 0;
  for (std::size_t c = 0; c < kLengths.size(); ++c) {
    std::sort(sorted[c].begin(), sorted[c].end(), [&](std::int32_t a, std::int32_t b) {
      const int order = bytes(a).compare(bytes(b));
      return order < 0 || (order == 0 && a < b);
    });
    build(sorted[c], tries_[c]);
    max_bytes = std::max(max_bytes, tries_[c].max_bytes);
    tries_[c].max_bytes = max_bytes;
  }
}

void TokenIndex::build(const std::vector<std::int32_t>& ids, Trie& trie) const {
  std::vector<Node>& nodes = trie.nodes;
  std::vector<std::uint32_t> open;  // [n]: the node of the first n + 1 bytes
  const auto close = [&](std::size_t depth) {
    for (; open.size() > depth; open.pop_back()) {
      nodes[open.back()].skip = static_cast<std::uint32_t>(nodes.size());
    }
  };
  std::string_view before;
  for (const std::int32_t id : ids) {
    const std::string_view text = bytes(id);
    trie.max_bytes = std::max(trie.max_bytes, static_cast<std::uint32_t>(text.size()));
    if (text == before) {
      trie.twins[nodes.back().token].push_back(id);
      continue;
    }
    close(common_prefix(before, text));
    while (open.size() < text.size()) {
      const std::size_t depth = open.size();
      open.push_back(static_cast<std::uint32_t>(nodes.size()));
      nodes.push_back(
          {0, -1, static_cast<std::uint16_t>(depth + 1), static_cast<std::uint8_t>(text[depth])});
    }
    nodes.back().token = id;
    before = text;
  }
  close(0);
}

std::string_view TokenIndex::bytes(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return token_bytes_[static_cast<std::size_t>(id)];
}

void TokenIndex::allow(grammar::Matcher& matcher, grammar::Matcher::State state, std::size_t c,
                       TokenMask& mask) const {
  const Trie& trie = tries_[c];
  std::vector<grammar::Matcher::State> path(trie.max_bytes + std::size_t{1});  // behind n bytes
  path[0] = state;
  for (std::size_t i = 0; i < trie.nodes.size();) {
    const Node& node = trie.nodes[i];
    const grammar::Matcher::State next = matcher.next(path[node.depth - std::size_t{1}], node.byte);
    if (next == grammar::Matcher::kNone) {
      if (matcher.is_exhausted()) break;
      i = node.skip;
      continue;
    }
    path[node.depth] = next;
    if (node.token >= 0) mask.set(node.token);
    ++i;
  }
  for (const auto& [token, twins] : trie.twins) {
    if (!mask.has(token)) continue;
    for (const std::int32_t twin : twins) mask.set(twin);
  }
}

Constraint::Constraint(std::shared_ptr<const TokenIndex> index, grammar::GrammarPtr grammar)
    : index_(std::move(index)), matcher_(std::move(grammar)), work_allowed_(kMaxTotalWork) {
  begin_work();
  state_ = matcher_.start();
  end_work();
}

void Constraint::begin_work() {
  granted_ = std::min(kMaxWork, work_allowed_ - work_);
  matcher_.allow_work(granted_);
}

void Constraint::end_work() {
  work_ += granted_ - matcher_.work_left();
  if (matcher_.is_exhausted()) failure_ = Failure::kWork;
}

const Constraint::Entry& Constraint::entry() {
  if (entry_ != nullptr) return *entry_;
  begin_work();
  // Half of the memory is for what one mask may need beside what is kept.
  const bool is_full = has_state() && matcher_.size_bytes() > grammar::Matcher::kMaxBytes / 2;
  if (is_full || n_masks() >= kMaxMasks) forget_masks();
  if (is_full) state_ = matcher_.keep_only(state_);
  const grammar::Matcher::State key =
      has_state() ? matcher_.alike(state_, index_->max_bytes()) : grammar::Matcher::kNone;
  std::shared_ptr<const Entry>& found = entries_[key];
  if (found == nullptr) found = std::make_shared<const Entry>(new_entry(key));
  end_work();
  entry_ = found;
  if (entry_->n_allowed == 0 && failure_ == Failure::kNone && !can_end()) {
    failure_ = Failure::kNoToken;
  }
  return *entry_;
}

Constraint::Entry Constraint::new_entry(grammar::Matcher::State key) {
  TokenMask mask(index_->vocab_size());
  for (std::size_t c = TokenIndex::kLengths.size(); c > 0 && key != grammar::Matcher::kNone; --c) {
    if (c == TokenIndex::kLengths.size()) {
      index_->allow(matcher_, key, c - 1, mask);
      continue;
    }
    key = matcher_.alike(key, index_->max_bytes(c - 1));
    if (key == grammar::Matcher::kNone) break;
    const auto [found, is_new] = masks_[c - 1].try_emplace(key, index_->vocab_size());
    if (is_new) index_->allow(matcher_, key, c - 1, found->second);
    mask.add(found->second);
  }
  const std::int64_t n = mask.count();
  std::vector<std::int32_t> few = n <= kFew ? mask.ids() : std::vector<std::int32_t>();
  return {std::move(mask), n, std::move(few)};
}

std::size_t Constraint::n_masks() const {
  std::size_t n = entries_.size();
  for (const auto& masks : masks_) n += masks.size();
  return n;
}

// Their keys are states. entry_ stays.
void Constraint::forget_masks() {
  entries_.clear();
  for (auto& masks : masks_) masks.clear();
}

void Constraint::shrink() {
  if (!has_state() || matcher_.size_bytes() <= kMaxWaitingBytes) return;
  forget_masks();
  state_ = matcher_.keep_only(state_);
}

void Constraint::accept(std::int32_t id) {
  if (!status()) return;
  work_allowed_ += kWorkPerToken;
  begin_work();
  entry_ = nullptr;
  for (const char c : index_->bytes(id)) {
    const grammar::Matcher::State next = matcher_.next(state_, static_cast<std::uint8_t>(c));
    if (next == grammar::Matcher::kNone) {
      // Not by allowed() either, where the matcher is not exhausted.
      if (!matcher_.is_exhausted()) failure_ = Failure::kNoToken;
      break;
    }
    state_ = next;
  }
  end_work();
}

Status Constraint::status() const {
  switch (failure_) {
    case Failure::kNone:
      break;
    case Failure::kWork:
      return Error{ErrorCode::kUnsupported,
                   "the schema or regular expression is too ambiguous: what may follow here takes "
                   "more work or memory than is allowed for one token or for the reply; make its "
                   "repetitions shorter or its alternatives easier to tell apart"};
    case Failure::kNoToken:
      return Error{ErrorCode::kUnsupported,
                   "the reply cannot go on as its schema, regular expression or choices want: no "
                   "token of this model has the byte that must follow"};
  }
  return {};
}

}  // namespace munia::decode
