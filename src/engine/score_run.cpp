// Log-probabilities of continuations: one pass over the prompt, then the prefix tree of the
// continuations. A token that several continuations share is computed once; a stretch of the tree
// without a fork is one slice of a batch; branches of a fork run side by side.
#include <algorithm>

#include "engine/run.h"

namespace munia::engine {
namespace {

constexpr std::size_t kRoot = 0;

struct Node {
  std::int32_t token = 0;  // the root has none
  std::size_t parent = kRoot;
  std::vector<std::size_t> children;
  double logprob = 0;  // of token, given all before it
};

class ScoreRun : public Run {
 public:
  ScoreRun(const ModelBundle& bundle, std::shared_ptr<model::KvPool> pool, ScoreJob job)
      : kernels_(bundle.model->kernels()), n_prompt_(job.prompt.size()) {
    for (const std::vector<std::int32_t>& continuation : job.continuations) {
      leaves_.push_back(insert(continuation));
    }
    auto prompt = std::make_unique<Branch>(
        Branch{{std::move(job.prompt), model::KvCache(std::move(pool))}, {kRoot}});
    branches_.push_back(std::move(prompt));
  }

  void collect(std::vector<Sequence*>& sequences) override {
    for (const std::unique_ptr<Branch>& branch : branches_) {
      if (branch->sequence.n_pending() > 0) sequences.push_back(&branch->sequence);
    }
  }

  void on_logits(Sequence& sequence, std::int64_t index, std::span<float> logits) override {
    const Branch& branch = branch_of(sequence);
    const std::size_t from_end = sequence.tokens.size() - 1 - static_cast<std::size_t>(index);
    const Node& node = nodes_[branch.chain[branch.chain.size() - 1 - from_end]];
    if (node.children.empty()) return;
    const double log_sum =
        kernels_.log_sum_exp(logits.data(), static_cast<std::int64_t>(logits.size()));
    for (const std::size_t child : node.children) {
      nodes_[child].logprob =
          static_cast<double>(logits[static_cast<std::size_t>(nodes_[child].token)]) - log_sum;
    }
  }

  Status end_step() override {
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
    for (std::size_t leaf : leaves_) {
      double sum = 0;
      for (std::size_t node = leaf; node != kRoot; node = nodes_[node].parent) {
        sum += nodes_[node].logprob;
      }
      result.logprobs.push_back(sum);
    }
    result.usage.prompt_tokens = static_cast<std::int64_t>(n_prompt_);
    result.timings = timings;
    return result;
  }

 private:
  // A sequence whose last chain.size() tokens are the nodes of `chain`: the last prompt token
  // stands for the root.
  struct Branch {
    Sequence sequence;
    std::vector<std::size_t> chain;
  };

  std::size_t insert(const std::vector<std::int32_t>& continuation) {
    std::size_t at = kRoot;
    for (const std::int32_t token : continuation) {
      const auto known =
          std::find_if(nodes_[at].children.begin(), nodes_[at].children.end(),
                       [&](std::size_t child) { return nodes_[child].token == token; });
      if (known != nodes_[at].children.end()) {
        at = *known;
        continue;
      }
      nodes_.push_back({token, at, {}, 0});
      nodes_[at].children.push_back(nodes_.size() - 1);
      at = nodes_.size() - 1;
    }
    return at;
  }

  const Branch& branch_of(const Sequence& sequence) const {
    const auto found = std::find_if(branches_.begin(), branches_.end(), [&](const auto& branch) {
      return &branch->sequence == &sequence;
    });
    MUNIA_CHECK(found != branches_.end());
    return **found;
  }

  bool has_children(std::size_t node) const { return !nodes_[node].children.empty(); }

  // Branches for what follows the end of a computed one; the last of them takes its KV cache.
  Status grow(Branch& parent, std::vector<std::unique_ptr<Branch>>& out) {
    std::vector<std::size_t> starts;
    for (const std::size_t child : nodes_[parent.chain.back()].children) {
      if (has_children(child)) starts.push_back(child);
    }
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const bool last = i + 1 == starts.size();
      std::vector<std::int32_t> tokens =
          last ? std::move(parent.sequence.tokens) : parent.sequence.tokens;
      std::vector<std::size_t> chain;
      for (std::size_t node = starts[i];; node = nodes_[node].children[0]) {
        chain.push_back(node);
        tokens.push_back(nodes_[node].token);
        if (nodes_[node].children.size() != 1 || !has_children(nodes_[node].children[0])) break;
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

  const kernels::Kernels& kernels_;
  std::size_t n_prompt_;
  std::vector<Node> nodes_ = {Node{}};
  std::vector<std::size_t> leaves_;  // per continuation
  std::vector<std::unique_ptr<Branch>> branches_;
};

}  // namespace

std::unique_ptr<Run> make_run(const ModelBundle& bundle, std::shared_ptr<model::KvPool> pool,
                              ScoreJob job) {
  return std::make_unique<ScoreRun>(bundle, std::move(pool), std::move(job));
}

}  // namespace munia::engine
