// What text a reply may be, as a network over its UTF-8 bytes: rules of nodes, where an edge reads
// one byte and a call runs another rule and comes back. Each running rule has one counter, for
// lengths. Made by a front end (choices, regex, schema) through Builder; Matcher runs it. Knows no
// tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace munia::grammar {

using NodeId = std::uint32_t;
using RuleId = std::uint32_t;
inline constexpr std::uint32_t kNoLimit = UINT32_MAX;

/// Nodes of one grammar; what is larger is refused.
inline constexpr std::size_t kMaxNodes = std::size_t{1} << 16;
/// Edges and jumps of one grammar, those asked for twice included.
inline constexpr std::size_t kMaxLinks = 8 * kMaxNodes;
/// How deep nesting rules (JSON objects and arrays) may run inside each other.
inline constexpr std::uint8_t kMaxNesting = 32;

struct Edge {
  std::uint8_t low, high;  // the bytes that it reads
  NodeId target;
  bool operator==(const Edge&) const = default;
};

/// Goes on without reading.
struct Jump {
  enum class Test : std::uint8_t {
    kNone,
    kCountUp,  // only while the counter is below the rule's `most`; adds one
    kEnough,   // only when the counter has reached the rule's `least`
  };
  NodeId target;
  Test test;
  bool operator==(const Jump&) const = default;
};

struct Node {
  std::vector<Edge> edges;
  std::vector<Jump> jumps;
  RuleId rule = 0;  // that it is part of
  bool calls = false;
  RuleId callee = 0;  // where it calls
  NodeId back = 0;    // goes on here behind the call
  /// The least nesting that the way from here to the rule's end needs; kNever: there is no way.
  std::uint8_t height = 0;
};

struct Rule {
  NodeId start = 0;
  NodeId end = 0;
  std::uint32_t least = 0;        // of the counter
  std::uint32_t most = kNoLimit;  // of the counter
  bool nests = false;             // counts for kMaxNesting
};

/// Immutable and free of ways that cannot end: whatever a Matcher has read can be completed.
class Grammar {
 public:
  const Node& node(NodeId id) const { return nodes_[id]; }
  const Rule& rule(RuleId id) const { return rules_[id]; }
  RuleId root() const { return 0; }
  /// Bytes that no edge tells apart have the same class.
  std::size_t n_classes() const { return n_classes_; }
  std::uint8_t class_of(std::uint8_t byte) const { return classes_[byte]; }

 private:
  friend class Builder;
  std::vector<Node> nodes_;
  std::vector<Rule> rules_;
  std::array<std::uint8_t, 256> classes_{};
  std::size_t n_classes_ = 0;
};
using GrammarPtr = std::shared_ptr<const Grammar>;

/// Parts of a grammar are laid between two nodes of one rule, `from` and `to`. A part adds no edge
/// into `from` and none out of `to`, so that parts can share these nodes.
class Builder {
 public:
  Builder() = default;

  /// The first rule is the root.
  RuleId add_rule(bool nests = false, std::uint32_t least = 0, std::uint32_t most = kNoLimit);
  const Rule& rule(RuleId id) const { return rules_[id]; }
  std::size_t n_rules() const { return rules_.size(); }

  NodeId add_node(RuleId rule);
  /// A new node of the same rule.
  NodeId node_beside(NodeId other) { return add_node(nodes_[other].rule); }
  RuleId rule_of(NodeId node) const { return nodes_[node].rule; }

  void edge(NodeId from, std::uint8_t low, std::uint8_t high, NodeId to);
  void jump(NodeId from, NodeId to, Jump::Test test = Jump::Test::kNone);
  void call(NodeId from, RuleId rule, NodeId to);
  void literal(NodeId from, std::string_view bytes, NodeId to);
  /// Exactly one of `texts`, which share their beginnings. An empty text is a jump.
  void one_of(NodeId from, std::vector<std::string> texts, NodeId to);

  /// True when there is no room for more: parts may stop early, finish() will refuse.
  bool is_full() const { return full_; }

  /// Leaves out what cannot end, and seals. kLimit above kMaxNodes or kMaxLinks; kInvalidArgument
  /// when no text at all fits.
  Result<GrammarPtr> finish() &&;

 private:
  /// Counts an edge or a jump; false where there is no room for it.
  bool add_link();
  void find_heights();
  void drop_dead_ends();
  void find_classes(Grammar& grammar) const;

  std::vector<Node> nodes_;
  std::vector<Rule> rules_;
  std::size_t n_links_ = 0;
  bool full_ = false;
};

}  // namespace munia::grammar
