/// What goes into a munia::Model and what comes out. Plain values only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace munia {

using Ids = std::vector<std::int32_t>;

/// How a model is loaded and run.
struct LoadOptions {
  int threads = 0;                   ///< 0: as many as affinity and container quota allow
  std::vector<int> cpus;             ///< bind threads to these CPUs; empty: not bound
  std::int64_t spin_us = 50;         ///< how long an idle thread waits actively
  std::int64_t context = 0;          ///< positions; 0: the model's own, at most 4,096
  std::string isa;                   ///< "scalar", "avx2", …; empty: the best of this machine
  bool kv_cache = true;              ///< false: every token computes its whole past again
  std::int64_t prefill_chunk = 512;  ///< most prompt tokens computed in one step
  bool screen_head = true;           ///< greedy replies first read an 8-bit copy of a large output
                                     ///< layer: the same tokens, sooner; false spares its memory
  std::int64_t max_sequences = 16;   ///< requests computed at the same time
  std::size_t max_kv_bytes = 0;      ///< 0: enough for max_sequences of a whole context
  /// "exact", "int8" or "int4"; empty: exact, or what a packed file holds.
  std::string weights;
  bool map_packed = false;  ///< a packed .munia file: map it instead of copying it
  bool verify = false;      ///< compare the checksums of a packed file first
  /// Kept of prompts and replies for later ones that begin so, within max_kv_bytes. Nothing: as
  /// much as one whole context; 0: none.
  std::optional<std::size_t> prefix_cache_bytes = std::nullopt;
};

/// One message of a conversation.
struct Message {
  std::string role;     ///< "system", "user" or "assistant"
  std::string content;  ///< plain text; special tokens in it are data
};

/// A rendered conversation.
struct Rendered {
  std::string text;
  Ids ids;
};

/// Counts of tokens.
struct TokenUsage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t completion_tokens = 0;
};

/// Milliseconds since the request was made.
struct RequestTimes {
  double first_token_ms = 0;
  double total_ms = 0;
};

/// When a beam search ends that has found as many texts as it has beams (as in transformers).
enum class EarlyStopping {
  kFalse,  ///< when the best running beam, as long as it is now, scores below the worst of them
  kTrue,   ///< at once
  kNever,  ///< when no running beam can come to score better
};

/// How a reply is drawn. The default is greedy.
struct GenerateOptions {
  std::int64_t max_tokens = 128;
  float temperature = 0;   ///< 0: always the likeliest token
  std::int64_t top_k = 0;  ///< 0: off
  float top_p = 1;
  float min_p = 0;
  std::uint64_t seed = 0;        ///< the same seed gives the same draws
  float repetition_penalty = 1;  ///< as in transformers
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::vector<std::pair<std::int32_t, float>> logit_bias;  ///< id, added to its logit
  std::vector<std::string> stop;                           ///< ends the text before it
  std::int64_t min_tokens = 0;  ///< no end token before so many; stop texts still end it
  std::int64_t num_beams = 1;   ///< above 1, at most 32: beam search; needs temperature 0, and
                                ///< OnText gets the best text whole
  float length_penalty = 1;     ///< of beams: a text scores (sum of log p) / length^length_penalty
  EarlyStopping early_stopping = EarlyStopping::kFalse;  ///< of beams
  std::int64_t num_return_sequences = 1;                 ///< of beams: at most num_beams
};

/// Gets each new piece of whole UTF-8 text, on another thread; must be quick and must not throw.
using OnText = std::function<void(std::string_view piece)>;

/// A text that a beam search found.
struct BeamText {
  Ids ids;                    ///< without the end token
  std::string text;           ///< without special tokens
  std::string finish_reason;  ///< "stop" or "length"
  double score = 0;           ///< (sum of log p) / length^length_penalty
};

struct Generated {
  Ids ids;                    ///< without the end token
  std::string text;           ///< without special tokens
  std::string finish_reason;  ///< "stop" or "length"
  TokenUsage usage;
  RequestTimes times;
  std::vector<BeamText> beams;  ///< of a beam search: num_return_sequences texts, the best first
};

/// The labels of a task and one text's probabilities.
struct Labelled {
  std::optional<std::string> label;  ///< empty when a task that decodes its answer found none
  double confidence = 0;             ///< the label's probability
  std::vector<std::pair<std::string, double>> probabilities;  ///< in the task's order
  TokenUsage usage;
};

struct Predicted {
  Labelled emotion;
  std::string emoji;
  std::string reply;
  std::string finish_reason;
  TokenUsage usage;  ///< both prompts
  double emotion_ms = 0;
  double first_token_ms = 0;
  double total_ms = 0;
};

/// What is known of a loaded model.
struct ModelInfo {
  std::string name;
  std::string architecture;  ///< "qwen2", "llama", …
  std::string weights;       ///< types of the weights: "BF16", "Q4_K+Q6_K", …
  std::string isa;           ///< kernels in use
  std::int64_t n_layers = 0;
  std::int64_t hidden_dim = 0;
  std::int64_t vocab_size = 0;
  std::int64_t context = 0;
  int threads = 0;
  std::size_t weight_bytes = 0;
  double load_seconds = 0;
};

}  // namespace munia
