// What text a reply may be, as an automaton over its UTF-8 bytes: a list of choices, or a JSON
// object. A state is a small value, so that a walk over the whole vocabulary can copy it freely.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"

namespace munia::decode {

/// The meaning of the words belongs to the automaton that made the state.
struct AutomatonState {
  std::uint64_t place = 0;
  std::uint64_t stack = 0;
  bool operator==(const AutomatonState&) const = default;
};
struct AutomatonStateHash {
  std::size_t operator()(const AutomatonState& state) const {
    return static_cast<std::size_t>((state.place * 0x9E3779B97F4A7C15U) ^
                                    (state.stack * 0xC2B2AE3D27D4EB4FU));
  }
};

class Automaton {
 public:
  virtual ~Automaton() = default;
  virtual AutomatonState start() const = 0;
  /// Reads one byte; false when the text cannot go on so (the state is then undefined).
  virtual bool advance(AutomatonState& state, std::uint8_t byte) const = 0;
  /// True when the text may end here.
  virtual bool accepts(const AutomatonState& state) const = 0;
};

/// Exactly one of `choices`. kInvalidArgument when there is none or one is empty or not UTF-8;
/// kLimit above 1,024 choices or 64 KiB.
Result<std::shared_ptr<const Automaton>> choice_automaton(const std::vector<std::string>& choices);

/// A JSON object (RFC 8259) of valid UTF-8, nested at most 32 deep. The only white space outside
/// strings is one space behind a colon or a comma, so that a model cannot go round in white space;
/// \u escapes of surrogates are left out (such characters can be written as they are).
std::shared_ptr<const Automaton> json_object_automaton();

}  // namespace munia::decode
