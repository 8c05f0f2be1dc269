// Builds grammars, and finds the ways that lead nowhere.
#include "grammar/grammar.h"

#include <algorithm>
#include <bitset>
#include <utility>

namespace munia::grammar {
namespace {

constexpr std::uint8_t kNever = 255;

}  // namespace

RuleId Builder::add_rule(bool nests, std::uint32_t least, std::uint32_t most) {
  const auto id = static_cast<RuleId>(rules_.size());
  rules_.push_back({0, 0, least, most, nests});
  rules_[id].start = add_node(id);
  rules_[id].end = add_node(id);
  return id;
}

NodeId Builder::add_node(RuleId rule) {
  if (nodes_.size() >= kMaxNodes) {
    full_ = true;
    return rules_[rule].start;
  }
  nodes_.emplace_back().rule = rule;
  return static_cast<NodeId>(nodes_.size() - 1);
}

bool Builder::add_link() {
  full_ = full_ || ++n_links_ > kMaxLinks;
  return !full_;
}

void Builder::edge(NodeId from, std::uint8_t low, std::uint8_t high, NodeId to) {
  if (!add_link()) return;
  std::vector<Edge>& edges = nodes_[from].edges;
  const Edge edge{low, high, to};
  if (edges.empty() || !(edges.back() == edge)) edges.push_back(edge);
}

void Builder::jump(NodeId from, NodeId to, Jump::Test test) {
  if (!add_link()) return;
  std::vector<Jump>& jumps = nodes_[from].jumps;
  const Jump jump{to, test};
  if (jumps.empty() || !(jumps.back() == jump)) jumps.push_back(jump);
}

void Builder::call(NodeId from, RuleId rule, NodeId to) {
  NodeId at = from;
  if (nodes_[at].calls) {  // a node has one call
    at = node_beside(from);
    jump(from, at);
  }
  if (full_) return;
  nodes_[at].calls = true;
  nodes_[at].callee = rule;
  nodes_[at].back = to;
}

void Builder::literal(NodeId from, std::string_view bytes, NodeId to) {
  if (bytes.empty()) return jump(from, to);
  for (std::size_t i = 0; i < bytes.size() && !full_; ++i) {
    const NodeId next = i + 1 == bytes.size() ? to : node_beside(from);
    const auto byte = static_cast<std::uint8_t>(bytes[i]);
    edge(from, byte, byte, next);
    from = next;
  }
}

void Builder::one_of(NodeId from, std::vector<std::string> texts, NodeId to) {
  std::sort(texts.begin(), texts.end());
  // [n]: the node behind the first n bytes of the text before. Texts with the same beginning are
  // neighbours, so this walks a trie.
  std::vector<NodeId> path{from};
  std::string_view before;
  for (const std::string& text : texts) {
    std::size_t common = 0;
    while (common < before.size() && common < text.size() && before[common] == text[common]) {
      ++common;
    }
    path.resize(common + 1);
    for (std::size_t i = common; i < text.size() && !full_; ++i) {
      const NodeId next = node_beside(from);
      const auto byte = static_cast<std::uint8_t>(text[i]);
      edge(path.back(), byte, byte, next);
      path.push_back(next);
    }
    if (full_) return;
    if (&text == texts.data() || text != before) jump(path.back(), to);
    before = text;
  }
}

// The least nesting that completes a node, by relaxing backwards from the ends: heights only fall
// and are small, and a change costs each user the same, so this ends soon.
void Builder::find_heights() {
  // Nodes whose height hangs on this one: by an edge or a jump, and by a call.
  std::vector<std::vector<NodeId>> users(nodes_.size());
  std::vector<std::vector<NodeId>> callers(nodes_.size());
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    const Node& node = nodes_[id];
    for (const Edge& edge : node.edges) users[edge.target].push_back(id);
    for (const Jump& jump : node.jumps) users[jump.target].push_back(id);
    if (node.calls) {
      callers[node.back].push_back(id);
      callers[rules_[node.callee].start].push_back(id);
    }
  }
  std::vector<NodeId> changed;
  for (Node& node : nodes_) node.height = kNever;
  for (const Rule& rule : rules_) {
    nodes_[rule.end].height = 0;
    changed.push_back(rule.end);
  }
  const auto lower = [&](NodeId id, int height) {
    if (height >= nodes_[id].height || height > kMaxNesting) return;
    nodes_[id].height = static_cast<std::uint8_t>(height);
    changed.push_back(id);
  };
  while (!changed.empty()) {
    const NodeId target = changed.back();
    changed.pop_back();
    for (const NodeId id : users[target]) lower(id, nodes_[target].height);
    for (const NodeId id : callers[target]) {
      const Rule& callee = rules_[nodes_[id].callee];
      const int inside = nodes_[callee.start].height + (callee.nests ? 1 : 0);
      lower(id, std::max(inside, static_cast<int>(nodes_[nodes_[id].back].height)));
    }
  }
}

void Builder::drop_dead_ends() {
  const auto is_dead = [this](NodeId id) { return nodes_[id].height == kNever; };
  for (Node& node : nodes_) {
    std::erase_if(node.edges, [&](const Edge& edge) { return is_dead(edge.target); });
    std::erase_if(node.jumps, [&](const Jump& jump) { return is_dead(jump.target); });
    if (node.calls) node.calls = !is_dead(node.back) && !is_dead(rules_[node.callee].start);
  }
}

void Builder::find_classes(Grammar& grammar) const {
  std::bitset<257> begins;  // bytes at which some edge begins or has just ended
  for (const Node& node : nodes_) {
    for (const Edge& edge : node.edges) {
      begins.set(edge.low);
      begins.set(edge.high + std::size_t{1});
    }
  }
  std::uint8_t now = 0;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (byte > 0 && begins[byte]) ++now;
    grammar.classes_[byte] = now;
  }
  grammar.n_classes_ = now + std::size_t{1};
}

Result<GrammarPtr> Builder::finish() && {
  if (full_) {
    const std::string what = n_links_ > kMaxLinks
                                 ? std::to_string(kMaxLinks) + " steps between states"
                                 : std::to_string(kMaxNodes) + " states";
    return Error{ErrorCode::kLimit,
                 "it needs more than " + what + "; make it smaller, or its repetitions shorter"};
  }
  find_heights();
  if (nodes_[rules_.front().start].height == kNever) {
    return Error{ErrorCode::kInvalidArgument, "no text at all can fulfil it"};
  }
  drop_dead_ends();
  auto grammar = std::make_shared<Grammar>();
  find_classes(*grammar);
  grammar->nodes_ = std::move(nodes_);
  grammar->rules_ = std::move(rules_);
  return GrammarPtr(std::move(grammar));
}

}  // namespace munia::grammar
