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
  return close() ? add_state(ends_) : kNone;
}

Matcher::State Matcher::find_next(State state, std::uint8_t byte) {
  begin_closure();
  const StateInfo info = states_[state];
  for (std::uint32_t i = 0; i < info.n_places; ++i) {
    const Place place = places_[info.first_place + i];
    const Node& node = grammar_->node(place.node);
    if (!spend(1 + node.edges.size())) return kNone;
    for (const Edge& edge : node.edges) {
      if (byte >= edge.low && byte <= edge.high) visit({edge.target, place.count, place.frame});
    }
  }
  if (!close()) return kNone;
  const State next = readers_.empty() && !ends_ ? kNone : add_state(ends_);
  steps_[state * n_classes_ + grammar_->class_of(byte)] = next;
  return next;
}

bool Matcher::spend(std::uint64_t work) {
  if (work > work_left_) {
    exhausted_ = true;
    work_left_ = 0;
    return false;
  }
  work_left_ -= work;
  return true;
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

// Follows jumps, calls and returns from the places found so far. False when that is too much: a
// place can be reached through very many frames.
bool Matcher::close() {
  constexpr std::size_t kBetweenChecks = 256;  // of the memory: a frame or place takes 100 bytes
  for (std::size_t i = 0; i < found_.size(); ++i) {
    if (i % kBetweenChecks == 0 && size_bytes() > kMaxBytes) exhausted_ = true;
    const Place place = found_[i];
    const Node& node = grammar_->node(place.node);
    const Rule& rule = grammar_->rule(node.rule);
    if (exhausted_ || !spend(1 + node.jumps.size())) return false;
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
      // What comes behind the call is the caller's end: its own frame will do.
      const bool is_last = node.back == rule.end && !callee.nests;
      // Behind the call the caller's own nesting counts again.
      if (frames_[place.frame].nesting + grammar_->node(node.back).height <= kMaxNesting &&
          nesting + grammar_->node(callee.start).height <= kMaxNesting) {
        const std::uint32_t frame =
            is_last ? place.frame : add_frame({place.frame, node.back, place.count, nesting});
        visit({callee.start, 0, frame});
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
  return true;
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
  if (frame == 0 || !spend(1)) return 0;
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
    if (exhausted_ || !spend(1)) return kNone;
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
  found_ = {};
  seen_ = {};
  readers_ = {};
  std::vector<std::uint32_t> chain;
  std::uint64_t work = places.size();
  for (Place& place : places) {
    chain.clear();
    for (std::uint32_t at = place.frame; at != 0; at = old_frames[at].parent) chain.push_back(at);
    work += chain.size();
    std::uint32_t parent = 0;
    for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
      Frame frame = old_frames[*at];
      frame.parent = parent;
      parent = add_frame(frame);
    }
    place.frame = parent;
  }
  work_left_ -= std::min(work, work_left_);  // done anyway, but not for nothing
  begin_closure();
  readers_ = std::move(places);
  return add_state(info.accepts);
}

std::size_t Matcher::size_bytes() const {
  constexpr std::size_t kPerEntry = 64;  // of a hash table, about
  return steps_.capacity() * sizeof(State) + states_.capacity() * sizeof(StateInfo) +
         frames_.capacity() * sizeof(Frame) + seen_.capacity() * sizeof(std::uint32_t) +
         (places_.capacity() + found_.capacity() + readers_.capacity()) * sizeof(Place) +
         (numbers_.size() + frame_numbers_.size()) * kPerEntry;
}

}  // namespace munia::grammar
