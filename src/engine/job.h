// What can be asked of the engine, and what comes back. Ids in, ids and numbers out; text only
// where a stop string or a stream needs it. A job knows nothing of JSON or HTTP.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "decode/beam.h"
#include "decode/logprobs.h"
#include "decode/sampler.h"
#include "grammar/grammar.h"

namespace munia::decode {
class Constraint;
}

namespace munia::engine {

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // of prompt_tokens: taken from the prefix cache, not computed
  std::int64_t completion_tokens = 0;

  Usage& operator+=(const Usage& other) {
    prompt_tokens += other.prompt_tokens;
    cached_tokens += other.cached_tokens;
    completion_tokens += other.completion_tokens;
    return *this;
  }
};

struct Timings {
  double queue_ms = 0;        // submit to the first step
  double first_token_ms = 0;  // submit to the first token (or the prompt's logits)
  double total_ms = 0;
};

/// Bulk work gives way: it starts behind waiting interactive jobs, leaves them some of the
/// sequences, and computes in small pieces beside them. The results are the same bytes.
enum class Priority : std::uint8_t { kInteractive, kBulk };

/// Continues a prompt.
struct GenerateJob {
  std::vector<std::int32_t> prompt;  // not empty
  std::int64_t max_tokens = 128;     // > 0 (0 with prompt_logprobs); the context may end it
                                     // earlier (finish "length")
  std::int64_t min_tokens = 0;       // no end token before so many; stop texts still end it
  decode::SamplingParams sampling;
  /// More than one beam: the texts of a beam search, in place of one token after the other. Not
  /// with log-probabilities or a constraint, which would have to be kept for every beam; on_text
  /// is called once, with the best text.
  decode::BeamParams beams;
  std::vector<std::string> stops;
  bool ignore_eos = false;  // for measuring
  /// Keeps the reply within a grammar; it ends (finish "stop") where nothing may follow. The job
  /// fails with kUnsupported where a step of the grammar is too much work, or no token has the byte
  /// that must follow (decode/constraint.h); submit() refuses it where that shows at once.
  grammar::GrammarPtr constraint;
  /// ModelBundle::begin_constraint(constraint), where several jobs have the same; submit() begins
  /// it otherwise. Each job goes on with a copy.
  std::shared_ptr<decode::Constraint> begun_constraint;
  /// Log-probabilities by the model itself, before penalties, temperature and constraint, with this
  /// many of the likeliest tokens at each place; -1: none.
  std::int64_t top_logprobs = -1;     // of the new tokens
  std::int64_t prompt_logprobs = -1;  // of the prompt's tokens
  /// Called on the engine thread for each new token, before the text that it completes; must be
  /// quick. May be empty; called only where top_logprobs >= 0.
  std::function<void(const decode::TokenLogprob& token)> on_token;
  bool keep = true;  // leave prompt and reply in the prefix cache, for jobs that begin with them
  Priority priority = Priority::kInteractive;
  /// Called on the engine thread with each new piece of whole UTF-8 text; must be quick. May be
  /// empty.
  std::function<void(std::string_view piece)> on_text;
};
struct GenerateResult {
  std::vector<std::int32_t> ids;               // without the end token
  std::string text;                            // without special tokens, cut at a stop string
  std::string finish_reason;                   // "stop" or "length"
  std::vector<decode::TokenLogprob> logprobs;  // of ids, where top_logprobs >= 0
  std::vector<decode::TokenLogprob> prompt_logprobs;  // of the prompt from its second token on
  /// Of a beam search: (sum of log p) / length^length_penalty, and the next best texts, whose usage
  /// has no prompt.
  std::optional<double> score;
  std::vector<GenerateResult> others;
  Usage usage;
  Timings timings;
};
/// The texts of a result, the best first: itself and its others.
std::vector<GenerateResult> texts_of(GenerateResult result);

/// Hidden states of a prompt in a form of fixed size, for learning from: of each layer the state
/// behind the last token, and the mean over some of the tokens.
struct Features {
  std::vector<std::int64_t> layers;  // model::HiddenTap; empty: none are wanted
  /// The mean is over tokens [mean_begin, mean_end), summed in float64 in their order. Tokens
  /// before mean_begin may come from the prefix cache.
  std::int64_t mean_begin = 0;
  std::int64_t mean_end = 0;  // above mean_begin, at most the prompt's length
};

/// Sums of log-probabilities of continuations: one prompt pass, then the tree of continuations.
struct ScoreJob {
  std::vector<std::int32_t> prompt;  // not empty
  /// Each not empty. None, where features are wanted: only the blocks up to their last layer are
  /// computed, and nothing is kept for other jobs.
  std::vector<std::vector<std::int32_t>> continuations;
  /// Only differences between the logprobs matter (a softmax over the continuations, their order):
  /// a term that all share may be left out, which spares the head where they part.
  bool differences_only = false;
  Features features = {};
  bool keep = true;  // as in GenerateJob
  Priority priority = Priority::kInteractive;
};
struct ScoreResult {
  std::vector<double> logprobs;  // natural log, one per continuation (see differences_only)
  std::vector<float> features;   // [features.layers, 2 (last token, mean), hidden_dim]
  Usage usage;
  Timings timings;
};

/// Raw logits, and hidden states, of a prompt.
struct LogitsJob {
  std::vector<std::int32_t> prompt;      // not empty
  bool all_rows = false;                 // false: the last position only
  std::vector<std::int64_t> tap_layers;  // hidden states to return (model::HiddenTap)
  /// Called on the engine thread for each wanted row, ascending; `logits` [vocab_size] is valid
  /// during the call only.
  std::function<void(std::int64_t row, std::span<const float> logits)> on_row;
  bool keep = true;  // as in GenerateJob
  Priority priority = Priority::kInteractive;
};
struct LogitsResult {
  std::vector<std::vector<float>> hidden;  // per tap: [n_tokens, hidden_dim]
  Usage usage;
  Timings timings;
};

using Job = std::variant<GenerateJob, ScoreJob, LogitsJob>;
using JobResult = std::variant<GenerateResult, ScoreResult, LogitsResult>;

/// A submitted job. wait() may be called once from any thread; cancel() any time.
class Ticket {
 public:
  virtual ~Ticket() = default;
  /// Blocks until the job has ended. kCancelled after cancel(), kLimit when it cannot fit,
  /// kUnavailable when the engine stops.
  virtual Result<JobResult> wait() = 0;
  /// Blocks until the job has ended, or as long as `most`; true where it has ended: wait() would
  /// return at once.
  virtual bool wait_for(std::chrono::milliseconds most) = 0;
  /// `call` is called once, when the job has ended: on the engine thread, or here where it has
  /// ended already. It must be quick. One call for a ticket.
  virtual void when_done(std::function<void()> call) = 0;
  /// The engine drops the job within one step.
  virtual void cancel() = 0;
};

}  // namespace munia::engine
