// Sums are taken in an order that does not depend on the labels' order (a label's texts by their
// nodes, the labels by their values), so that permuting labels cannot change a probability by a
// rounding (demands.md row 38).
#include "decode/labels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "decode/logprobs.h"
#include "decode/portable_exp.h"

namespace munia::decode {
namespace {

constexpr std::size_t kMaxTokens = std::size_t{1} << 20;
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

using Tokens = std::vector<std::int32_t>;

std::vector<const Tokens*> sorted_distinct_texts(std::span<const LabelTokens> labels) {
  std::vector<const Tokens*> texts;
  for (const LabelTokens& label : labels) {
    for (const Tokens& text : label) texts.push_back(&text);
  }
  std::sort(texts.begin(), texts.end(), [](const Tokens* a, const Tokens* b) { return *a < *b; });
  texts.erase(std::unique(texts.begin(), texts.end(),
                          [](const Tokens* a, const Tokens* b) { return *a == *b; }),
              texts.end());
  return texts;
}

Status check_labels(std::span<const LabelTokens> labels) {
  if (labels.empty()) {
    return Error{ErrorCode::kInvalidArgument, "there are no labels; name at least one"};
  }
  std::size_t n_tokens = 0;
  struct Owner {
    const Tokens* text;
    std::size_t label;
  };
  std::vector<Owner> owners;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i].empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   "label " + std::to_string(i + 1) + " has no text; give it one"};
    }
    for (const Tokens& text : labels[i]) {
      if (text.empty()) {
        return Error{ErrorCode::kInvalidArgument,
                     "a text of label " + std::to_string(i + 1) + " has no tokens; it is empty"};
      }
      n_tokens += text.size();
      owners.push_back({&text, i});
    }
  }
  if (n_tokens > kMaxTokens) {
    return Error{ErrorCode::kLimit, "the labels have " + std::to_string(n_tokens) +
                                        " tokens; at most " + std::to_string(kMaxTokens) +
                                        " are allowed"};
  }
  std::sort(owners.begin(), owners.end(), [](const Owner& a, const Owner& b) {
    return *a.text != *b.text ? *a.text < *b.text : a.label < b.label;
  });
  for (std::size_t i = 1; i < owners.size(); ++i) {
    if (owners[i].label != owners[i - 1].label && *owners[i].text == *owners[i - 1].text) {
      return Error{ErrorCode::kInvalidArgument,
                   "labels " + std::to_string(owners[i - 1].label + 1) + " and " +
                       std::to_string(owners[i].label + 1) +
                       " have the same text; every text belongs to one label"};
    }
  }
  return {};
}

// log(sum(exp(terms))), the same for every order of the terms.
double log_sum_exp(std::vector<double> terms) {
  std::sort(terms.begin(), terms.end());
  const double largest = terms.back();
  if (!(largest > kMinusInfinity)) return kMinusInfinity;
  double sum = 0;
  for (const double term : terms) sum += portable_exp(term - largest);
  return largest + std::log(sum);
}

}  // namespace

bool any_is_prefix(std::span<const LabelTokens> labels) {
  // In sorted order a text that begins any other also begins the next one.
  const std::vector<const Tokens*> texts = sorted_distinct_texts(labels);
  for (std::size_t i = 1; i < texts.size(); ++i) {
    const Tokens& a = *texts[i - 1];
    const Tokens& b = *texts[i];
    if (a.size() < b.size() && std::equal(a.begin(), a.end(), b.begin())) return true;
  }
  return false;
}

void append_token(std::span<LabelTokens> labels, std::int32_t token) {
  for (LabelTokens& label : labels) {
    for (Tokens& text : label) text.push_back(token);
  }
}

Result<LabelTree> LabelTree::build(std::span<const LabelTokens> labels) {
  MUNIA_RETURN_IF_ERROR(check_labels(labels));
  LabelTree tree;
  tree.nodes_.push_back({-1, -1, 0, {}});
  // Depth by depth over the sorted texts: those with a common beginning stand together.
  struct Path {
    const Tokens* text;
    std::int32_t node;
  };
  std::vector<Path> paths;
  for (const Tokens* text : sorted_distinct_texts(labels)) paths.push_back({text, kRoot});
  for (std::size_t depth = 0; !paths.empty(); ++depth) {
    std::vector<Path> longer;
    for (const Path& path : paths) {
      if (path.text->size() == depth) continue;
      const std::int32_t token = (*path.text)[depth];
      const auto parent = static_cast<std::size_t>(path.node);
      const auto& siblings = tree.nodes_[parent].children;
      const bool known = !siblings.empty() &&
                         tree.nodes_[static_cast<std::size_t>(siblings.back())].token == token;
      const auto node = known ? siblings.back() : static_cast<std::int32_t>(tree.nodes_.size());
      if (!known) {
        tree.nodes_[parent].children.push_back(node);
        tree.nodes_.push_back({token, path.node, static_cast<std::int32_t>(depth) + 1, {}});
      }
      longer.push_back({path.text, node});
    }
    paths = std::move(longer);
  }
  for (std::size_t i = 1; i < tree.nodes_.size(); ++i) {
    if (!tree.nodes_[i].children.empty()) {
      tree.nodes_to_run_.push_back(static_cast<std::int32_t>(i));
    }
  }
  for (const LabelTokens& label : labels) {
    auto& ends = tree.text_nodes_.emplace_back();
    for (const Tokens& text : label) {
      std::int32_t node = kRoot;
      for (const std::int32_t token : text) {
        const auto& children = tree.nodes_[static_cast<std::size_t>(node)].children;
        node =
            *std::lower_bound(children.begin(), children.end(), token,
                              [&tree](std::int32_t child, std::int32_t value) {
                                return tree.nodes_[static_cast<std::size_t>(child)].token < value;
                              });
      }
      ends.push_back(node);
    }
  }
  return tree;
}

bool LabelTree::is_on_every_path(std::int32_t node) const {
  MUNIA_CHECK(node >= 0 && static_cast<std::size_t>(node) < nodes_.size());
  for (const auto& ends : text_nodes_) {
    for (std::int32_t step : ends) {
      while (step > node) step = nodes_[static_cast<std::size_t>(step)].parent;
      if (step != node) return false;
    }
  }
  return true;
}

void LabelTree::set_child_logprobs(std::int32_t node, std::span<const float> logits,
                                   std::span<double> node_logprobs) const {
  MUNIA_CHECK(node >= 0 && static_cast<std::size_t>(node) < nodes_.size());
  MUNIA_CHECK(node_logprobs.size() == nodes_.size());
  const LogSoftmax softmax(logits);
  for (const std::int32_t child : nodes_[static_cast<std::size_t>(node)].children) {
    const std::int32_t token = nodes_[static_cast<std::size_t>(child)].token;
    const bool inside = token >= 0 && static_cast<std::size_t>(token) < logits.size();
    node_logprobs[static_cast<std::size_t>(child)] =
        inside ? softmax.of(logits[static_cast<std::size_t>(token)]) : kMinusInfinity;
  }
}

std::vector<std::vector<double>> LabelTree::text_logprobs(
    std::span<const double> node_logprobs) const {
  MUNIA_CHECK(node_logprobs.size() == nodes_.size());
  std::vector<double> path_logprobs(nodes_.size(), 0.0);  // sum from the root
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    const double logprob = std::isnan(node_logprobs[i]) ? kMinusInfinity : node_logprobs[i];
    path_logprobs[i] = path_logprobs[static_cast<std::size_t>(nodes_[i].parent)] + logprob;
  }
  std::vector<std::vector<double>> logprobs;
  for (const auto& ends : text_nodes_) {
    auto& texts = logprobs.emplace_back();
    for (const std::int32_t node : ends) {
      texts.push_back(path_logprobs[static_cast<std::size_t>(node)]);
    }
  }
  return logprobs;
}

LabelScores LabelTree::score(std::span<const double> node_logprobs) const {
  std::vector<std::vector<double>> all = text_logprobs(node_logprobs);
  std::vector<std::vector<double>> distinct(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<std::int32_t>& ends = text_nodes_[i];
    for (std::size_t j = 0; j < ends.size(); ++j) {
      const auto before = ends.begin() + static_cast<std::ptrdiff_t>(j);
      if (std::find(ends.begin(), before, ends[j]) == before) distinct[i].push_back(all[i][j]);
    }
  }
  LabelScores scores = combine_texts(std::move(distinct));
  scores.text_logprobs = std::move(all);
  return scores;
}

LabelScores combine_texts(std::vector<std::vector<double>> text_logprobs) {
  LabelScores scores;
  for (const std::vector<double>& texts : text_logprobs) {
    scores.label_logprobs.push_back(log_sum_exp(texts));
  }
  scores.text_logprobs = std::move(text_logprobs);
  std::vector<double> sorted = scores.label_logprobs;
  std::sort(sorted.begin(), sorted.end());
  const double largest = sorted.back();
  const bool usable = largest > kMinusInfinity;
  double sum = 0;
  for (const double logprob : sorted) sum += usable ? portable_exp(logprob - largest) : 1;
  for (const double logprob : scores.label_logprobs) {
    scores.probabilities.push_back((usable ? portable_exp(logprob - largest) : 1) / sum);
  }
  return scores;
}

}  // namespace munia::decode
