// The choices make a trie; a state's place is its node.
#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "decode/automaton.h"

namespace munia::decode {
namespace {

constexpr std::size_t kMaxChoices = 1024;
constexpr std::size_t kMaxBytes = std::size_t{64} << 10;

class ChoiceAutomaton : public Automaton {
 public:
  explicit ChoiceAutomaton(const std::vector<std::string>& choices) {
    nodes_.emplace_back();
    for (const std::string& choice : choices) {
      std::size_t at = 0;
      for (const char c : choice) at = child(at, static_cast<std::uint8_t>(c));
      nodes_[at].ends = true;
    }
  }

  AutomatonState start() const override { return {}; }

  bool advance(AutomatonState& state, std::uint8_t byte) const override {
    for (const auto& [label, node] : nodes_[static_cast<std::size_t>(state.place)].children) {
      if (label != byte) continue;
      state.place = node;
      return true;
    }
    return false;
  }

  bool accepts(const AutomatonState& state) const override {
    return nodes_[static_cast<std::size_t>(state.place)].ends;
  }

 private:
  struct Node {
    std::vector<std::pair<std::uint8_t, std::uint64_t>> children;
    bool ends = false;
  };

  std::size_t child(std::size_t at, std::uint8_t byte) {
    for (const auto& [label, node] : nodes_[at].children) {
      if (label == byte) return static_cast<std::size_t>(node);
    }
    nodes_[at].children.emplace_back(byte, nodes_.size());
    nodes_.emplace_back();
    return nodes_.size() - 1;
  }

  std::vector<Node> nodes_;
};

}  // namespace

Result<std::shared_ptr<const Automaton>> choice_automaton(const std::vector<std::string>& choices) {
  if (choices.empty()) {
    return Error{ErrorCode::kInvalidArgument, "the list of choices is empty; name at least one"};
  }
  std::size_t n_bytes = 0;
  for (const std::string& choice : choices) {
    if (choice.empty()) {
      return Error{ErrorCode::kInvalidArgument, "a choice is an empty text; give it a character"};
    }
    if (find_invalid_utf8(choice)) {
      return Error{ErrorCode::kInvalidArgument, "a choice is not valid UTF-8"};
    }
    n_bytes += choice.size();
  }
  if (choices.size() > kMaxChoices || n_bytes > kMaxBytes) {
    return Error{ErrorCode::kLimit,
                 "there are " + std::to_string(choices.size()) + " choices of together " +
                     std::to_string(n_bytes) +
                     " bytes; at most 1,024 choices of 65,536 bytes are allowed"};
  }
  return std::shared_ptr<const Automaton>(std::make_shared<ChoiceAutomaton>(choices));
}

}  // namespace munia::decode
