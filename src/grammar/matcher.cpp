#include "grammar/matcher.h"

#include <algorithm>

namespace munia::grammar {
namespace {

constexpr std::size_t kFewSlots = 64;

std::size_t mix(std::size_t hash, std::uint64_t word) {
  return (hash ^ word) * 0x9E3779B97F4A7C15U + (hash >> 29);
}

std::uint32_t slot_hash(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint64_t hash = (std::uint64_t{a} << 32 | b) * 0x9E3779B97F4A7C15U;
  hash = (hash ^ (hash >> 31) ^ c) * 0xC2B2AE3D27D4EB4FU;
  return static_cast<std::uint32_t>(hash >> 32);
}

}  // namespace

std::size_t Matcher::FrameHash::operator()(const Frame& frame) const {
  return mix(mix(frame.parent, frame.back), frame.count);
}

Matcher::Matcher(GrammarPtr grammar)
    : grammar_(std::move(grammar)), n_classes_(grammar_->n_classes()), frames_(1, Frame{}) {}

Matcher::State Matcher::start() {
  begin_closure();
  visit({grammar_->rule(grammar_->root()).start, 0, 0});
  close();
  return add_state(ends_);
}

Matcher::State Matcher::find_next(State state, std::uint8_t byte) {
  begin_closure();
  const StateInfo info = states_[state];
  for (std::uint32_t i = 0; i < info.n_places; ++i) {
    const Place place = places_[info.first_place + i];
    for (const Edge& edge : grammar_->node(place.node).edges) {
      if (byte >= edge.low && byte <= edge.high) visit({edge.target, place.count, place.frame});
    }
  }
  close();
  const std::uint64_t work = info.n_places + found_.size();
  if (work > work_left_ || size_bytes() > kMaxBytes) {
    exhausted_ = true;
    return kNone;
  }
  work_left_ -= work;
  const State next = readers_.empty() && !ends_ ? kNone : add_state(ends_);
  steps_[state * n_classes_ + grammar_->class_of(byte)] = next;
  return next;
}

void Matcher::begin_closure() {
  found_.clear();
  readers_.clear();
  ends_ = false;
  if (seen_.size() > kFewSlots) seen_.resize(kFewSlots);
  seen_.assign(kFewSlots, 0);
}

// Keeps a place once. Places whose nesting leaves no room to complete them are left out.
void Matcher::visit(Place place) {
  if (frames_[place.frame].nesting + grammar_->node(place.node).height > kMaxNesting) return;
  if ((found_.size() + 1) * 2 > seen_.size()) {
    seen_.assign(seen_.size() * 4, 0);
    for (std::uint32_t i = 0; i < found_.size(); ++i) {
      const Place& p = found_[i];
      std::size_t slot = slot_hash(p.node, p.count, p.frame) & (seen_.size() - 1);
      while (seen_[slot] != 0) slot = (slot + 1) & (seen_.size() - 1);
      seen_[slot] = i + 1;
    }
  }
  std::size_t slot = slot_hash(place.node, place.count, place.frame) & (seen_.size() - 1);
  for (; seen_[slot] != 0; slot = (slot + 1) & (seen_.size() - 1)) {
    if (found_[seen_[slot] - 1] == place) return;
  }
  found_.push_back(place);
  seen_[slot] = static_cast<std::uint32_t>(found_.size());
}

// Follows jumps, calls and returns from the places found so far.
void Matcher::close() {
  for (std::size_t i = 0; i < found_.size(); ++i) {
    const Place place = found_[i];
    const Node& node = grammar_->node(place.node);
    const Rule& rule = grammar_->rule(node.rule);
    if (!node.edges.empty()) readers_.push_back(place);
    for (const Jump& jump : node.jumps) {
      std::uint32_t count = place.count;
      if (jump.test == Jump::Test::kEnough && count < rule.least) continue;
      if (jump.test == Jump::Test::kCountUp) {
        if (count >= rule.most) continue;
        // Without an upper limit nothing depends on more than the lower one.
        count = rule.most == kNoLimit ? std::min(count + 1, rule.least) : count + 1;
      }
      visit({jump.target, count, place.frame});
    }
    if (node.calls) {
      const Rule& callee = grammar_->rule(node.callee);
      const std::uint32_t nesting = frames_[place.frame].nesting + (callee.nests ? 1 : 0);
      // Behind the call the caller's own nesting counts again.
      if (frames_[place.frame].nesting + grammar_->node(node.back).height <= kMaxNesting &&
          nesting + grammar_->node(callee.start).height <= kMaxNesting) {
        visit({callee.start, 0, add_frame({place.frame, node.back, place.count, nesting})});
      }
    }
    if (place.node == rule.end) {
      const Frame frame = frames_[place.frame];
      if (place.frame == 0) {
        ends_ = true;
      } else {
        visit({frame.back, frame.count, frame.parent});
      }
    }
  }
}

// The state of readers_ and `accepts`.
Matcher::State Matcher::add_state(bool accepts) {
  std::sort(readers_.begin(), readers_.end());
  std::size_t hash = accepts ? 1 : 0;
  for (const Place& place : readers_) {
    hash = mix(hash, slot_hash(place.node, place.count, place.frame));
  }
  const auto [begin, end] = numbers_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const StateInfo& info = states_[it->second];
    if (info.accepts == accepts && info.n_places == readers_.size() &&
        std::equal(readers_.begin(), readers_.end(),
                   places_.begin() + static_cast<std::ptrdiff_t>(info.first_place))) {
      return it->second;
    }
  }
  const auto id = static_cast<State>(states_.size());
  states_.push_back({places_.size(), static_cast<std::uint32_t>(readers_.size()), accepts});
  places_.insert(places_.end(), readers_.begin(), readers_.end());
  steps_.resize(steps_.size() + n_classes_, kUnknown);
  numbers_.emplace(hash, id);
  return id;
}

std::uint32_t Matcher::add_frame(const Frame& frame) {
  const auto [it, is_new] =
      frame_numbers_.emplace(frame, static_cast<std::uint32_t>(frames_.size()));
  if (is_new) frames_.push_back(frame);
  return it->second;
}

// Each count takes a byte at least, so within n_bytes a counter moves by n_bytes at most.
std::uint32_t Matcher::alike_count(const Rule& rule, std::uint32_t count,
                                   std::uint32_t n_bytes) const {
  const bool far_from_most = rule.most == kNoLimit || rule.most - count > n_bytes;
  if (!far_from_most) return count;
  if (count >= rule.least) return rule.least;
  return rule.least - count > n_bytes ? 0 : count;
}

std::uint32_t Matcher::alike_frame(std::uint32_t frame, std::uint32_t n_bytes) {
  if (frame == 0) return 0;
  Frame copy = frames_[frame];
  copy.parent = alike_frame(copy.parent, n_bytes);
  const Rule& waiting = grammar_->rule(grammar_->node(copy.back).rule);
  copy.count = alike_count(waiting, copy.count, n_bytes);
  return add_frame(copy);
}

Matcher::State Matcher::alike(State state, std::uint32_t n_bytes) {
  const StateInfo info = states_[state];
  begin_closure();
  bool same = true;
  for (std::uint32_t i = 0; i < info.n_places; ++i) {
    Place place = places_[info.first_place + i];
    const Rule& rule = grammar_->rule(grammar_->node(place.node).rule);
    const Place before = place;
    place.count = alike_count(rule, place.count, n_bytes);
    place.frame = alike_frame(place.frame, n_bytes);
    same = same && place == before;
    readers_.push_back(place);
  }
  if (same) return state;
  std::sort(readers_.begin(), readers_.end());
  readers_.erase(std::unique(readers_.begin(), readers_.end()), readers_.end());
  return add_state(info.accepts);
}

Matcher::State Matcher::keep_only(State state) {
  const StateInfo info = states_[state];
  std::vector<Place> places(
      places_.begin() + static_cast<std::ptrdiff_t>(info.first_place),
      places_.begin() + static_cast<std::ptrdiff_t>(info.first_place + info.n_places));
  const std::vector<Frame> old_frames = std::move(frames_);
  frames_.assign(1, Frame{});
  frame_numbers_ = {};
  numbers_ = {};
  states_ = {};
  steps_ = {};
  places_ = {};
  std::vector<std::uint32_t> chain;
  for (Place& place : places) {
    chain.clear();
    for (std::uint32_t at = place.frame; at != 0; at = old_frames[at].parent) chain.push_back(at);
    std::uint32_t parent = 0;
    for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
      Frame frame = old_frames[*at];
      frame.parent = parent;
      parent = add_frame(frame);
    }
    place.frame = parent;
  }
  begin_closure();
  readers_ = std::move(places);
  return add_state(info.accepts);
}

std::size_t Matcher::size_bytes() const {
  constexpr std::size_t kPerEntry = 64;  // of a hash table, about
  return steps_.size() * sizeof(State) + places_.size() * sizeof(Place) +
         states_.size() * (sizeof(StateInfo) + kPerEntry) +
         frames_.size() * (sizeof(Frame) + kPerEntry);
}

}  // namespace munia::grammar
