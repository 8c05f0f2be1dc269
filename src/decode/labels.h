// Scores of labels: the probability of each label's texts as continuations of one prompt. Pure
// data: the texts' tokens make a tree, the model is run once for each inner node, and the
// log-probabilities of the nodes' tokens add up to the labels' probabilities. Knows token ids only,
// no model, no text.
//
//   std::vector<LabelTokens> labels = ...;                    // tokenized by the caller
//   if (any_is_prefix(labels)) append_token(labels, turn_end);
//   auto tree = LabelTree::build(labels);
//   tree->set_child_logprobs(LabelTree::kRoot, prompt_logits, logprobs);
//   for (int node : tree->nodes_to_run()) ... tree->set_child_logprobs(node, logits, logprobs);
//   LabelScores scores = tree->score(logprobs);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"

namespace munia::decode {

/// The texts of one label, each as its tokens. A label with several texts is their union.
using LabelTokens = std::vector<std::vector<std::int32_t>>;

/// True when one text's tokens begin another's, in any label (equal texts do not count). Then the
/// texts do not exclude each other, and every text needs the turn's end token behind it.
bool any_is_prefix(std::span<const LabelTokens> labels);
/// Appends `token` to every text.
void append_token(std::span<LabelTokens> labels, std::int32_t token);

struct LabelNode {
  std::int32_t token;   // -1 at the root
  std::int32_t parent;  // index of a node before this one; -1 at the root
  std::int32_t depth;   // tokens from the root; the position is prompt length + depth - 1
  std::vector<std::int32_t> children;  // by rising token
};

/// Natural logarithms, in double.
struct LabelScores {
  std::vector<std::vector<double>> text_logprobs;  // [n_labels][texts of the label]
  std::vector<double> label_logprobs;              // [n_labels] log of the sum over its texts
  std::vector<double> probabilities;               // [n_labels] softmax of label_logprobs
};

/// Labels' scores from the log-probabilities of their texts, [n_labels][distinct texts of the
/// label]. No length normalization. Permuting the labels, or the texts in a label, permutes the
/// result and changes no bit. Where no label has any probability, all get the same.
LabelScores combine_texts(std::vector<std::vector<double>> text_logprobs);

class LabelTree {
 public:
  static constexpr std::int32_t kRoot = 0;

  /// kInvalidArgument when there is no label, a label has no text, a text has no token, or two
  /// labels have the same text; kLimit when there are too many tokens. The tree does not depend on
  /// the labels' order.
  static Result<LabelTree> build(std::span<const LabelTokens> labels);

  /// By rising depth, so a parent stands before its children; [0] is the root.
  const std::vector<LabelNode>& nodes() const { return nodes_; }
  /// The nodes below the root that have children, by rising depth: the model must be run on their
  /// tokens. (The root's logits are those of the prompt's last token.)
  const std::vector<std::int32_t>& nodes_to_run() const { return nodes_to_run_; }
  std::int64_t n_labels() const { return static_cast<std::int64_t>(text_nodes_.size()); }

  /// True when every text passes `node`. Its row's normalizer then shifts all labels equally, so
  /// plain logits may stand for its children's log-probabilities where only `probabilities` are
  /// wanted: the output layer is needed for the children's tokens alone.
  bool is_on_every_path(std::int32_t node) const;

  /// Writes log p(child's token) of each child of `node` into node_logprobs [nodes().size()], by
  /// the log-softmax of `logits` [vocab_size], the model's row behind `node`. A NaN logit counts as
  /// -inf, as does a token outside the row.
  void set_child_logprobs(std::int32_t node, std::span<const float> logits,
                          std::span<double> node_logprobs) const;

  /// The same where only differences between texts matter, for a node that is_on_every_path: writes
  /// the plain logits of the children's tokens; no other entry of `logits` is read. A NaN logit
  /// counts as -inf; where some child's is +inf, only such children are left.
  void set_child_logits(std::int32_t node, std::span<const float> logits,
                        std::span<double> node_logprobs) const;

  /// The log-probability of each text, [n_labels][texts of the label], from that of every node's
  /// token (the root's entry is not read).
  std::vector<std::vector<double>> text_logprobs(std::span<const double> node_logprobs) const;
  /// combine_texts() of text_logprobs(); a text that a label has twice counts once.
  LabelScores score(std::span<const double> node_logprobs) const;

 private:
  std::vector<LabelNode> nodes_;
  std::vector<std::int32_t> nodes_to_run_;
  std::vector<std::vector<std::int32_t>> text_nodes_;  // [n_labels][texts]: the last token's node
};

}  // namespace munia::decode
