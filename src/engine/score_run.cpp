// Log-probabilities of continuations: one pass over the prompt, then the prefix tree of the
// continuations. A token that several continuations share is computed once; a stretch of the tree
// without a fork is one slice of a batch; branches of a fork run side by side.
#include <algorithm>

#include "decode/labels.h"
#include "engine/feature_sums.h"
#include "engine/run.h"

namespace munia::engine {
namespace {

using decode::LabelTree;

class ScoreRun : public Run {
 public:
  ScoreRun(std::shared_ptr<model::KvPool> pool, ScoreJob job, LabelTree tree)
      : n_prompt_(job.prompt.size()),
        features_(std::move(job.features)),
        tree_(std::move(tree)),
        node_logprobs_(tree_.nodes().size(), 0.0),
        node_ids_(tree_.nodes().size()) {
    if (job.differences_only) {
      for (std::size_t i = 0; i < node_ids_.size(); ++i) {
        const auto at = static_cast<std::int32_t>(i);
        if (!tree_.is_on_every_path(at)) continue;
        for (const std::int32_t child : node(at).children) {
          node_ids_[i].push_back(node(child).token);
        }
      }
    }
    branches_.push_back(std::make_unique<Branch>(
        Branch{{std::move(job.prompt), model::KvCache(std::move(pool))}, {LabelTree::kRoot}}));
  }

  void collect(std::vector<Sequence*>& sequences) override {
    for (const std::unique_ptr<Branch>& branch : branches_) {
      if (branch->sequence.n_pending() > 0) sequences.push_back(&branch->sequence);
    }
  }

  model::LogitRow wanted_logits(const Sequence& sequence, std::int64_t index) override {
    model::LogitRow row = index;
    row.ids = ids_of(node_behind(sequence, index));
    if (!row.ids.empty()) row.want = model::LogitRow::Want::kIds;
    return row;
  }

  void on_logits(Sequence& sequence, std::int64_t index, std::span<float> logits) override {
    const std::int32_t at = node_behind(sequence, index);
    if (ids_of(at).empty()) {
      tree_.set_child_logprobs(at, logits, node_logprobs_);
    } else {
      tree_.set_child_logits(at, logits, node_logprobs_);
    }
  }

  std::int64_t n_takeable(const Sequence& sequence) const override {
    const std::int64_t n = Run::n_takeable(sequence);
    return tap_layers().empty() ? n : std::min(n, features_.wanted().mean_begin);
  }

  // Of the prompt alone, which is the only sequence until it is computed.
  std::span<const std::int64_t> tap_layers() const override {
    if (prompt_is_computed_) return {};
    return features_.wanted().layers;
  }

  void on_hidden(std::size_t tap, std::int64_t first, std::int64_t n_tokens,
                 std::span<const float> hidden) override {
    features_.add(tap, first, n_tokens, hidden);
  }

  Status end_step() override {
    prompt_is_computed_ = prompt_is_computed_ || branches_.front()->sequence.n_pending() == 0;
    std::vector<std::unique_ptr<Branch>> grown;
    for (std::unique_ptr<Branch>& branch : branches_) {
      if (branch->sequence.n_pending() > 0) {
        grown.push_back(std::move(branch));
        continue;
      }
      MUNIA_RETURN_IF_ERROR(grow(*branch, grown));
    }
    branches_ = std::move(grown);
    return {};
  }

  JobResult take_result(const Timings& timings) override {
    ScoreResult result;
    // All continuations are the texts of one label.
    result.logprobs = std::move(tree_.text_logprobs(node_logprobs_).front());
    result.features = features_.take();
    result.usage.prompt_tokens = static_cast<std::int64_t>(n_prompt_);
    result.timings = timings;
    return result;
  }

 private:
  // A sequence whose last chain.size() tokens are the nodes of `chain`: the last prompt token
  // stands for the root.
  struct Branch {
    Sequence sequence;
    std::vector<std::int32_t> chain;
  };

  const Branch& branch_of(const Sequence& sequence) const {
    const auto found = std::find_if(branches_.begin(), branches_.end(), [&](const auto& branch) {
      return &branch->sequence == &sequence;
    });
    MUNIA_CHECK(found != branches_.end());
    return **found;
  }

  // The node whose children the logits behind tokens[index] tell of.
  std::int32_t node_behind(const Sequence& sequence, std::int64_t index) const {
    const Branch& branch = branch_of(sequence);
    const std::size_t from_end = sequence.tokens.size() - 1 - static_cast<std::size_t>(index);
    return branch.chain[branch.chain.size() - 1 - from_end];
  }

  // The only ids whose logits a node needs; empty: all.
  const std::vector<std::int32_t>& ids_of(std::int32_t index) const {
    return node_ids_[static_cast<std::size_t>(index)];
  }

  const decode::LabelNode& node(std::int32_t index) const {
    return tree_.nodes()[static_cast<std::size_t>(index)];
  }

  // Branches for what follows the end of a computed one; the last of them takes its KV cache.
  Status grow(Branch& parent, std::vector<std::unique_ptr<Branch>>& out) {
    std::vector<std::int32_t> starts;
    for (const std::int32_t child : node(parent.chain.back()).children) {
      if (!node(child).children.empty()) starts.push_back(child);
    }
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const bool last = i + 1 == starts.size();
      std::vector<std::int32_t> tokens =
          last ? std::move(parent.sequence.tokens) : parent.sequence.tokens;
      std::vector<std::int32_t> chain;
      for (std::int32_t at = starts[i];; at = node(at).children[0]) {
        chain.push_back(at);
        tokens.push_back(node(at).token);
        const std::vector<std::int32_t>& children = node(at).children;
        if (children.size() != 1 || node(children[0]).children.empty()) break;
      }
      if (last) {
        out.push_back(std::make_unique<Branch>(
            Branch{{std::move(tokens), std::move(parent.sequence.kv), true}, std::move(chain)}));
      } else {
        MUNIA_ASSIGN_OR_RETURN(model::KvCache kv, parent.sequence.kv.fork());
        out.push_back(std::make_unique<Branch>(
            Branch{{std::move(tokens), std::move(kv), true}, std::move(chain)}));
      }
    }
    return {};
  }

  std::size_t n_prompt_;
  FeatureSums features_;
  bool prompt_is_computed_ = false;
  LabelTree tree_;
  std::vector<double> node_logprobs_;                // per node of the tree
  std::vector<std::vector<std::int32_t>> node_ids_;  // per node: ids_of()
  std::vector<std::unique_ptr<Branch>> branches_;
};

// Hidden states alone: the blocks up to the last wanted layer, and no head.
class FeaturesRun : public Run {
 public:
  FeaturesRun(std::shared_ptr<model::KvPool> pool, ScoreJob job)
      : features_(std::move(job.features)),
        sequence_{std::move(job.prompt), model::KvCache(std::move(pool))} {}

  void collect(std::vector<Sequence*>& sequences) override {
    if (sequence_.n_pending() > 0) sequences.push_back(&sequence_);
  }
  std::optional<std::int64_t> n_blocks() const override {
    const std::vector<std::int64_t>& layers = features_.wanted().layers;
    return *std::max_element(layers.begin(), layers.end());
  }
  std::int64_t n_takeable(const Sequence& sequence) const override {
    return std::min(Run::n_takeable(sequence), features_.wanted().mean_begin);
  }
  std::span<const std::int64_t> tap_layers() const override { return features_.wanted().layers; }
  void on_hidden(std::size_t tap, std::int64_t first, std::int64_t n_tokens,
                 std::span<const float> hidden) override {
    features_.add(tap, first, n_tokens, hidden);
  }
  void on_logits(Sequence& /*sequence*/, std::int64_t /*index*/,
                 std::span<float> /*logits*/) override {}
  JobResult take_result(const Timings& timings) override {
    ScoreResult result;
    result.features = features_.take();
    result.usage.prompt_tokens = static_cast<std::int64_t>(sequence_.tokens.size());
    result.timings = timings;
    return result;
  }

 private:
  FeatureSums features_;
  Sequence sequence_;
};

}  // namespace

Result<std::unique_ptr<Run>> make_run(std::shared_ptr<model::KvPool> pool, ScoreJob job) {
  if (job.continuations.empty()) {
    return std::unique_ptr<Run>(std::make_unique<FeaturesRun>(std::move(pool), std::move(job)));
  }
  const decode::LabelTokens continuations = job.continuations;
  MUNIA_ASSIGN_OR_RETURN(LabelTree tree, LabelTree::build(std::span(&continuations, 1)));
  return std::unique_ptr<Run>(
      std::make_unique<ScoreRun>(std::move(pool), std::move(job), std::move(tree)));
}

}  // namespace munia::engine
