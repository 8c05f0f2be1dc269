// Runs a grammar over bytes. A state is the set of all places where the text read so far may stand
// in the grammar; states are numbered as they are met and their steps are kept, so that reading a
// byte again is a look-up. One reply owns a Matcher: it is not thread-safe.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"

namespace munia::grammar {

class Matcher {
 public:
  using State = std::uint32_t;
  static constexpr State kNone = UINT32_MAX;  // the text cannot go on so

  explicit Matcher(GrammarPtr grammar);

  /// The state before the first byte; kNone when is_exhausted().
  State start();
  /// The state behind one more byte; kNone when the text cannot go on so, or is_exhausted().
  State next(State state, std::uint8_t byte) {
    const State known = steps_[state * n_classes_ + grammar_->class_of(byte)];
    return known != kUnknown ? known : find_next(state, byte);
  }
  bool accepts(State state) const { return states_[state].accepts; }
  /// A state that reads the same next `n_bytes` bytes: counters that are far from their limits
  /// count as one. The same for many states, so that what is known of it serves them all. kNone
  /// when is_exhausted().
  State alike(State state, std::uint32_t n_bytes);

  /// Forgets all states but this one; gives its new number.
  State keep_only(State state);
  std::size_t size_bytes() const;

  /// How much may be computed until the next allow_work(): places, edges and jumps looked at by new
  /// steps, and frames that alike() looks up.
  void allow_work(std::uint64_t work) {
    work_left_ = work;
    exhausted_ = false;
  }
  std::uint64_t work_left() const { return work_left_; }
  /// True when a step was refused for want of work or memory, not because the text is wrong.
  bool is_exhausted() const { return exhausted_; }

  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20;

 private:
  static constexpr State kUnknown = UINT32_MAX - 1;

  struct Place {
    NodeId node;
    std::uint32_t count;
    std::uint32_t frame;
    bool operator==(const Place&) const = default;
    auto operator<=>(const Place&) const = default;
  };
  struct Frame {  // a rule that waits for the one that it called
    std::uint32_t parent;
    NodeId back;
    std::uint32_t count;  // of the waiting rule
    std::uint32_t nesting;
    bool operator==(const Frame&) const = default;
  };
  struct FrameHash {
    std::size_t operator()(const Frame& frame) const;
  };
  struct StateInfo {
    std::size_t first_place;
    std::uint32_t n_places;
    bool accepts;
  };

  State find_next(State state, std::uint8_t byte);
  /// Takes off work; false, and is_exhausted(), where not so much is left.
  bool spend(std::uint64_t work);
  void begin_closure();
  void visit(Place place);
  bool close();
  State add_state(bool accepts);
  std::uint32_t add_frame(const Frame& frame);
  std::uint32_t alike_count(const Rule& rule, std::uint32_t count, std::uint32_t n_bytes) const;
  std::uint32_t alike_frame(std::uint32_t frame, std::uint32_t n_bytes);

  GrammarPtr grammar_;
  std::size_t n_classes_;
  std::vector<StateInfo> states_;
  std::vector<State> steps_;                             // [states][n_classes]
  std::vector<Place> places_;                            // of all states
  std::unordered_multimap<std::size_t, State> numbers_;  // by the hash of a state's places
  std::vector<Frame> frames_;                            // [0]: none
  std::unordered_map<Frame, std::uint32_t, FrameHash> frame_numbers_;
  std::uint64_t work_left_ = UINT64_MAX;
  bool exhausted_ = false;

  // Scratch of one closure.
  std::vector<Place> found_;         // all places reached, in the order of discovery
  std::vector<std::uint32_t> seen_;  // hash table: index into found_ + 1, 0 where free
  std::vector<Place> readers_;       // those that read a byte
  bool ends_ = false;
};

}  // namespace munia::grammar
