#include "decode/constraint.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace munia::decode {
namespace {

// Masks that one reply keeps: 19 KB each with 151,936 tokens.
constexpr std::size_t kMaxEntries = 256;

std::uint32_t common_prefix(const std::string& a, const std::string& b) {
  const std::size_t n = std::min(a.size(), b.size());
  std::size_t i = 0;
  while (i < n && a[i] == b[i]) ++i;
  return static_cast<std::uint32_t>(i);
}

}  // namespace

void TokenMask::apply(std::span<float> logits) const {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!has(static_cast<std::int32_t>(i))) logits[i] = -std::numeric_limits<float>::infinity();
  }
}

TokenIndex::TokenIndex(std::vector<std::string> token_bytes)
    : token_bytes_(std::move(token_bytes)) {
  for (std::size_t id = 0; id < token_bytes_.size(); ++id) {
    if (!token_bytes_[id].empty()) sorted_.push_back(static_cast<std::int32_t>(id));
  }
  const auto bytes_of = [this](std::int32_t id) -> const std::string& {
    return token_bytes_[static_cast<std::size_t>(id)];
  };
  std::sort(sorted_.begin(), sorted_.end(), [&](std::int32_t a, std::int32_t b) {
    const int order = bytes_of(a).compare(bytes_of(b));
    return order < 0 || (order == 0 && a < b);
  });
  common_.assign(sorted_.size(), 0);
  for (std::size_t i = 1; i < sorted_.size(); ++i) {
    common_[i] = common_prefix(bytes_of(sorted_[i - 1]), bytes_of(sorted_[i]));
  }
}

std::string_view TokenIndex::bytes(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return token_bytes_[static_cast<std::size_t>(id)];
}

TokenMask TokenIndex::allowed(const Automaton& automaton, const AutomatonState& state) const {
  TokenMask mask(vocab_size());
  std::vector<AutomatonState> path{state};  // [n]: behind the first n bytes of the token before
  for (std::size_t i = 0; i < sorted_.size(); ++i) {
    const std::string& bytes = token_bytes_[static_cast<std::size_t>(sorted_[i])];
    // A beginning that is shared with the token before is read already, or known to fail.
    if (common_[i] >= path.size()) continue;
    path.resize(common_[i] + 1);
    while (path.size() <= bytes.size()) {
      AutomatonState next = path.back();
      if (!automaton.advance(next, static_cast<std::uint8_t>(bytes[path.size() - 1]))) break;
      path.push_back(next);
    }
    if (path.size() > bytes.size()) mask.set(sorted_[i]);
  }
  return mask;
}

Constraint::Constraint(std::shared_ptr<const TokenIndex> index,
                       std::shared_ptr<const Automaton> automaton)
    : index_(std::move(index)), automaton_(std::move(automaton)), state_(automaton_->start()) {}

const Constraint::Entry& Constraint::entry() {
  const auto found = entries_.find(state_);
  if (found != entries_.end()) return found->second;
  if (entries_.size() >= kMaxEntries) entries_.clear();
  TokenMask mask = index_->allowed(*automaton_, state_);
  bool empty = true;
  for (std::int32_t id = 0; empty && id < index_->vocab_size(); ++id) empty = !mask.has(id);
  return entries_.emplace(state_, Entry{std::move(mask), empty}).first->second;
}

const TokenMask& Constraint::allowed() { return entry().mask; }

bool Constraint::must_end() { return entry().empty; }

void Constraint::accept(std::int32_t id) {
  for (const char c : index_->bytes(id)) {
    MUNIA_CHECK(automaton_->advance(state_, static_cast<std::uint8_t>(c)));
  }
}

}  // namespace munia::decode
