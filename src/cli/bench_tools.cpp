#include "cli/bench_tools.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <random>
#include <sstream>

#include "base/system_info.h"

namespace munia::cli {

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void write_spread(JsonWriter& writer, const std::string& name, const Spread& values) {
  writer.field(name, values.median)
      .field(name + "_low", values.low)
      .field(name + "_high", values.high);
}

ModelCost::ModelCost(const model::Model& model, HeadRead head) {
  const model::ModelConfig& config = model.config();
  const model::Weights& weights = model.weights();
  const auto bytes_of = [](const kernels::PackedMatrix& w) {
    return static_cast<double>(w.size_bytes());
  };
  const auto flops_of = [](const kernels::PackedMatrix& w) {
    return 2 * static_cast<double>(w.n_rows) * static_cast<double>(w.n_cols);
  };
  for (const model::LayerWeights& layer : weights.layers) {
    for (const model::Linear* linear :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      block_flops_ += flops_of(linear->w);
      weight_bytes_ += bytes_of(linear->w);
    }
  }
  const std::size_t copy_bytes = model.head_screen().size_bytes();
  const bool reads_copy = head == HeadRead::kGreedy && copy_bytes > 0;
  weight_bytes_ += reads_copy ? static_cast<double>(copy_bytes) : bytes_of(weights.head);
  head_flops_ = flops_of(weights.head);
  pair_flops_ = 4.0 * static_cast<double>(config.n_layers * config.n_heads * config.head_dim);
  kv_bytes_per_token_ = static_cast<double>(model.kv_layout().page_bytes()) /
                        static_cast<double>(kernels::kPageTokens);
}

double ModelCost::prefill_flops(std::int64_t n_tokens) const {
  const auto n = static_cast<double>(n_tokens);
  return n * block_flops_ + n * (n + 1) / 2 * pair_flops_ + head_flops_;
}

double ModelCost::decode_bytes(std::int64_t pos) const {
  return weight_bytes_ + static_cast<double>(pos + 1) * kv_bytes_per_token_;
}

std::uint64_t kv_page_bytes(const model::Model& model, std::int64_t n_tokens) {
  const std::int64_t n_pages = (n_tokens + kernels::kPageTokens - 1) / kernels::kPageTokens;
  return static_cast<std::uint64_t>(n_pages) * model.kv_layout().page_bytes();
}

std::vector<std::int32_t> random_prompt(const model::Model& model, std::int64_t n_tokens,
                                        std::int64_t seed) {
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  const auto n_vocab = static_cast<std::uint64_t>(model.config().vocab_size);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(n_tokens));
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % n_vocab);
  return ids;
}

std::vector<std::int64_t> parse_numbers(const Context& context, const char* flag,
                                        const std::string& list, std::int64_t most) {
  std::vector<std::int64_t> numbers;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) {
    const auto number = parse_integer(word);
    if (!number || *number < 1 || *number > most) {
      numbers.clear();
      break;
    }
    numbers.push_back(*number);
  }
  if (numbers.empty() || list.ends_with(',')) {
    fail(ExitStatus::kUsage,
         context.lang.tr("{} {}: must be numbers from 1 to {}, such as 1,2,4",
                         "{} {}：应当是 1 到 {} 的数，例如 1,2,4", flag, list, most));
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

PlotFile::PlotFile(const Context& context, const std::string& path)
    : context_(context), path_(path) {
  if (path_.empty()) return;
  file_.open(path_, std::ios::binary | std::ios::trunc);
  if (!file_) {
    fail(ExitStatus::kFailed,
         context.lang.tr("--plot {}: cannot write it: {}", "--plot {}：无法写入：{}", path_,
                         std::strerror(errno)));
  }
}

void PlotFile::write(const std::string& title, const std::string& note,
                     const std::vector<report::Panel>& panels) {
  if (path_.empty()) return;
  file_ << report::svg_page(title, note, panels) << std::flush;
  if (!file_) {
    fail(ExitStatus::kFailed,
         context_.lang.tr("--plot {}: cannot write it: {}", "--plot {}：无法写入：{}", path_,
                          std::strerror(errno)));
  }
  file_.close();
}

std::string machine_note(const Session& session) {
  const model::Model& model = *session.bundle->model;
  return fmt::format("{} ({}), {}, {} thread{}, {}", session.bundle->name, model.weights().types,
                     model.kernels().name, session.threads.n, session.threads.n == 1 ? "" : "s",
                     cpu_name().value_or("?"));
}

void note_progress(const std::string& text) {
  if (stderr_is_terminal()) print_note(text);
}

}  // namespace munia::cli
