// What bench and tune share: spreads, what a token costs in operations and bytes, seeded prompts,
// the file of a plot, and one line that names model and machine.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "cli/context.h"
#include "cli/machine_limits.h"
#include "cli/session.h"
#include "report/svg_plot.h"

namespace munia::cli {

struct Spread {
  double median = 0;
  double low = 0;
  double high = 0;
};
/// `values` are not empty.
Spread spread(std::vector<double> values);
double mean(const std::vector<double>& values);
/// Fields NAME, NAME_low, NAME_high.
void write_spread(JsonWriter& writer, const std::string& name, const Spread& values);

/// What a decoding step reads of the output layer: all of it, or for greedy decoding of at most
/// four sequences its 8-bit copy where there is one.
enum class HeadRead { kFull, kGreedy };

/// Operations (a multiply-add is two) and bytes of the forward pass.
class ModelCost {
 public:
  ModelCost(const model::Model& model, HeadRead head);
  /// A prompt of n tokens with the logits of its last.
  double prefill_flops(std::int64_t n_tokens) const;
  /// Weights, what is read of the head included, and the keys and values of all positions
  /// before and at `pos`, for one decoded token.
  double decode_bytes(std::int64_t pos) const;
  double weight_bytes() const { return weight_bytes_; }
  double kv_bytes_per_token() const { return kv_bytes_per_token_; }

 private:
  double block_flops_ = 0;
  double head_flops_ = 0;
  double pair_flops_ = 0;  // attention of one query with one key in all layers
  double weight_bytes_ = 0;
  double kv_bytes_per_token_ = 0;
};

/// Bytes of the pages that hold n tokens of one sequence: the arithmetic of the KV cache.
std::uint64_t kv_page_bytes(const model::Model& model, std::int64_t n_tokens);

std::vector<std::int32_t> random_prompt(const model::Model& model, std::int64_t n_tokens,
                                        std::int64_t seed);

/// A list such as 64,512 of numbers from 1 to `most`, ascending; fails with status 2.
std::vector<std::int64_t> parse_numbers(const Context& context, const char* flag,
                                        const std::string& list, std::int64_t most);

/// Opened before anything is measured, so that a bad path costs no time. No path: no plot.
class PlotFile {
 public:
  PlotFile(const Context& context, const std::string& path);
  void write(const std::string& title, const std::string& note,
             const std::vector<report::Panel>& panels);

 private:
  const Context& context_;
  std::string path_;
  std::ofstream file_;
};

/// "Qwen (Q4_K), avx512, 2 threads, AMD EPYC"
std::string machine_note(const Session& session);
/// Progress on a terminal; nothing elsewhere.
void note_progress(const std::string& text);

}  // namespace munia::cli
