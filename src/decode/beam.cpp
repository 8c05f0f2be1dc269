#include "decode/beam.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>

namespace munia::decode {
namespace {

// With the longest context its power is still far from overflow.
constexpr float kMaxLengthPenalty = 10;

}  // namespace

Status validate(const BeamParams& params, const SamplingParams& sampling) {
  const auto refuse = [](std::string message) {
    return Error{ErrorCode::kInvalidArgument, std::move(message)};
  };
  const std::string beams = std::to_string(params.num_beams);
  if (params.num_beams < 1 || params.num_beams > kMaxBeams) {
    return refuse("num_beams is " + beams + "; it must be from 1 (off) to " +
                  std::to_string(kMaxBeams));
  }
  // Written so that NaN fails.
  if (!(std::abs(params.length_penalty) <= kMaxLengthPenalty)) {
    char number[32];
    std::snprintf(number, sizeof number, "%g", static_cast<double>(params.length_penalty));
    return refuse(std::string("length_penalty is ") + number + "; it must be from -10 to 10");
  }
  if (params.n_returned < 1 || params.n_returned > params.num_beams) {
    return refuse("n is " + std::to_string(params.n_returned) + " with num_beams " + beams +
                  "; a beam search returns 1 to num_beams texts: lower n or raise num_beams");
  }
  if (params.enabled() && sampling.temperature != 0) {
    return refuse("num_beams is " + beams +
                  " with a temperature; beams are not sampled: use temperature 0 or num_beams 1");
  }
  return {};
}

Result<EarlyStopping> early_stopping_named(std::string_view name) {
  if (name == "false") return EarlyStopping::kFalse;
  if (name == "true") return EarlyStopping::kTrue;
  if (name == "never") return EarlyStopping::kNever;
  return Error{ErrorCode::kInvalidArgument, "early_stopping is \"" + std::string(name) +
                                                "\"; it must be true, false or \"never\""};
}

BeamSearch::BeamSearch(const BeamParams& params, std::int64_t n_ends, std::int64_t max_tokens)
    : params_(params),
      n_candidates_(std::max<std::int64_t>(2, 1 + n_ends) * params.num_beams),
      max_tokens_(max_tokens),
      running_(1) {}

std::vector<BeamCandidate> BeamSearch::advance(
    std::vector<BeamCandidate> candidates,
    const std::function<BeamEnd(const BeamCandidate&)>& end_of) {
  const auto before = [](const BeamCandidate& a, const BeamCandidate& b) {
    if (a.score != b.score) return a.score > b.score;
    return a.beam != b.beam ? a.beam < b.beam : a.id < b.id;
  };
  std::sort(candidates.begin(), candidates.end(), before);
  candidates.resize(std::min(candidates.size(), static_cast<std::size_t>(n_candidates_)));
  const auto num_beams = static_cast<std::size_t>(params_.num_beams);
  const bool at_end = ++n_tokens_ >= max_tokens_;
  std::vector<BeamCandidate> next;
  for (std::size_t rank = 0; rank < candidates.size(); ++rank) {
    const BeamCandidate& candidate = candidates[rank];
    BeamEnd end = end_of(candidate);
    if (end == BeamEnd::kNone && at_end) end = BeamEnd::kLength;
    if (end == BeamEnd::kNone) {
      if (next.size() < num_beams) next.push_back(candidate);
    } else if (rank < num_beams) {
      // One that ends behind better ones is dropped, as the reference does.
      finish(candidate, end);
    }
  }
  std::vector<Beam> running;
  for (const BeamCandidate& candidate : next) {
    Beam beam{running_[static_cast<std::size_t>(candidate.beam)].ids, candidate.score};
    beam.ids.push_back(candidate.id);
    running.push_back(std::move(beam));
  }
  running_ = std::move(running);
  if (!may_improve()) next.clear();
  return next;
}

double BeamSearch::final_score(double score, std::int64_t length) const {
  return score / std::pow(static_cast<double>(length), static_cast<double>(params_.length_penalty));
}

void BeamSearch::finish(const BeamCandidate& candidate, BeamEnd end) {
  Hypothesis text{running_[static_cast<std::size_t>(candidate.beam)].ids,
                  final_score(candidate.score, n_tokens_), end};
  text.ids.push_back(candidate.id);
  const auto place =
      std::upper_bound(finished_.begin(), finished_.end(), text,
                       [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  finished_.insert(place, std::move(text));
  if (finished_.size() > static_cast<std::size_t>(params_.num_beams)) finished_.pop_back();
}

bool BeamSearch::may_improve() const {
  if (running_.empty()) return false;
  if (finished_.size() < static_cast<std::size_t>(params_.num_beams)) return true;
  if (params_.early_stopping == EarlyStopping::kTrue) return false;
  const bool by_longest =
      params_.early_stopping == EarlyStopping::kNever && params_.length_penalty > 0;
  const double best = final_score(running_.front().score, by_longest ? max_tokens_ : n_tokens_);
  return best > finished_.back().score;
}

std::vector<Hypothesis> BeamSearch::take_best() {
  const auto n = static_cast<std::size_t>(params_.n_returned);
  if (finished_.size() > n) finished_.resize(n);
  return std::move(finished_);
}

}  // namespace munia::decode
