// munia bench: tokens a second of prefill and decode with the bytes and operations behind them,
// load time, peak memory, and a hash of the logits that says whether the arithmetic is the same.
// Prompts are seeded random ids, another one for each repetition, so that no cache helps.
#include <algorithm>
#include <memory>
#include <random>
#include <sstream>
#include <utility>

#include "base/sha256.h"
#include "cli/commands.h"
#include "cli/json_writer.h"
#include "cli/session.h"
#include "cli/system_info.h"

namespace munia::cli {
namespace {

constexpr std::int64_t kDecodePromptTokens = 16;

struct BenchFlags {
  std::string prompts = "64,512";
  std::int64_t n_decode = 32;
  std::int64_t repetitions = 5;
  std::int64_t seed = 1;
};

struct Spread {
  double median = 0;
  double low = 0;
  double high = 0;
};

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

/// What one token costs, attention left out: it depends on the length.
struct TokenCost {
  double flops = 0;  // one multiply-add is two; without the head
  double bytes = 0;  // weights that decoding one token reads, the head (or its copy) included
};

TokenCost token_cost(const model::Model& model) {
  const model::Weights& weights = model.weights();
  TokenCost cost;
  const auto bytes_of = [](const kernels::PackedMatrix& w) {
    return static_cast<double>(w.n_panels()) * static_cast<double>(w.panel_bytes);
  };
  for (const model::LayerWeights& layer : weights.layers) {
    for (const model::Linear* linear :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      cost.flops +=
          2 * static_cast<double>(linear->w.n_rows) * static_cast<double>(linear->w.n_cols);
      cost.bytes += bytes_of(linear->w);
    }
  }
  const std::size_t screen_bytes = model.head_screen().memory.size_bytes();
  cost.bytes += screen_bytes > 0 ? static_cast<double>(screen_bytes) : bytes_of(weights.head);
  return cost;
}

std::vector<std::int64_t> parse_lengths(const Context& context, const std::string& list) {
  std::vector<std::int64_t> lengths;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) {
    const auto length = parse_integer(word);
    if (!length || *length < 1 || *length > (1 << 20)) {
      lengths.clear();
      break;
    }
    lengths.push_back(*length);
  }
  if (lengths.empty()) {
    fail(ExitStatus::kUsage, context.lang.tr("-p {}: must be prompt lengths such as 64,512",
                                             "-p {}：应当是提示长度，例如 64,512", list));
  }
  return lengths;
}

class Bench {
 public:
  Bench(const Context& context, const BenchFlags& flags)
      : context_(context), flags_(flags), session_(open_session(context)) {
    load_peak_bytes_ = peak_memory_bytes();
    cost_ = token_cost(*session_.bundle->model);
  }

  ExitStatus run(const std::vector<std::int64_t>& lengths);

 private:
  std::vector<std::int32_t> random_prompt(std::int64_t n_tokens, std::int64_t number) const {
    std::mt19937_64 random(static_cast<std::uint64_t>(flags_.seed * 1000003 + number));
    const auto n_vocab = static_cast<std::uint64_t>(session_.bundle->model->config().vocab_size);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(n_tokens));
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % n_vocab);
    return ids;
  }
  Spread prefill(std::int64_t n_tokens);
  Spread decode();
  void report(const char* name, std::int64_t n_tokens, const Spread& speed);
  void report_summary();

  const Context& context_;
  const BenchFlags& flags_;
  Session session_;
  TokenCost cost_;
  std::optional<std::uint64_t> load_peak_bytes_;
  std::string hash_;  // of the logits behind the first prompt
};

Spread Bench::prefill(std::int64_t n_tokens) {
  std::vector<double> speeds;
  // Number 0 warms up, and gives the hash.
  for (std::int64_t i = 0; i <= flags_.repetitions; ++i) {
    engine::LogitsJob job;
    job.prompt = random_prompt(n_tokens, i);
    job.keep = false;  // prompts of several lengths begin alike, and each is to be computed
    std::string hash;
    job.on_row = [&](std::int64_t, std::span<const float> row) {
      if (i == 0) hash = sha256_hex(std::as_bytes(row));
    };
    const auto result = value_or_fail(session_.engine->logits(std::move(job)));
    if (i > 0) speeds.push_back(static_cast<double>(n_tokens) * 1e3 / result.timings.total_ms);
    if (hash_.empty()) hash_ = hash;
  }
  return spread(std::move(speeds));
}

Spread Bench::decode() {
  std::vector<double> speeds;
  for (std::int64_t i = 0; i <= flags_.repetitions; ++i) {
    engine::GenerateJob job;
    job.prompt = random_prompt(kDecodePromptTokens, 1000 + i);
    job.max_tokens = flags_.n_decode + 1;  // the first one belongs to the prompt's step
    job.ignore_eos = true;
    job.keep = false;
    const auto result = value_or_fail(session_.engine->generate(std::move(job)));
    const double ms = result.timings.total_ms - result.timings.first_token_ms;
    const auto n_steps = static_cast<double>(result.usage.completion_tokens - 1);
    if (i > 0) speeds.push_back(n_steps * 1e3 / ms);
  }
  return spread(std::move(speeds));
}

void Bench::report(const char* name, std::int64_t n_tokens, const Spread& speed) {
  const bool is_decode = name == std::string_view("decode");
  const double gflops = speed.median * cost_.flops * 1e-9;
  const double gbytes = speed.median * cost_.bytes * 1e-9;
  if (context_.json) {
    JsonWriter writer;
    writer.begin_object()
        .field("test", name)
        .field("n_tokens", n_tokens)
        .field("repetitions", flags_.repetitions)
        .field("tokens_per_second", speed.median)
        .field("tokens_per_second_low", speed.low)
        .field("tokens_per_second_high", speed.high)
        .field("gflop_per_second", gflops);
    if (is_decode) writer.field("gbyte_per_second", gbytes);
    writer.end_object();
    context_.out->line(writer.text());
  } else {
    const std::string rate =
        is_decode ? fmt::format("{:.1f} GB/s", gbytes) : fmt::format("{:.1f} GFLOP/s", gflops);
    context_.out->line(fmt::format("{:<8} {:>5}  {:>9.1f} tokens/s  ({:.1f} to {:.1f})  {}", name,
                                   n_tokens, speed.median, speed.low, speed.high, rate));
  }
}

void Bench::report_summary() {
  const model::Model& model = *session_.bundle->model;
  const std::string isa = model.kernels().name;
  const auto peak = peak_memory_bytes();
  if (context_.json) {
    JsonWriter writer;
    writer.begin_object()
        .field("test", "summary")
        .field("model", session_.bundle->name)
        .field("weights", model.weights().types)
        .field("weight_bytes", model.weights().size_bytes)
        .field("head_copy_bytes", model.head_screen().memory.size_bytes())
        .field("isa", isa)
        .field("threads", session_.threads.n)
        .field("load_seconds", session_.bundle->load_seconds);
    writer.key("peak_memory_bytes");
    peak ? writer.value(*peak) : writer.null();
    writer.key("load_peak_memory_bytes");
    load_peak_bytes_ ? writer.value(*load_peak_bytes_) : writer.null();
    writer.field("logits_hash", hash_).end_object();
    context_.out->line(writer.text());
    return;
  }
  context_.out->line(context_.lang.tr(
      "{}: {} in {}, {}, {} threads; loaded in {:.2f} s; peak memory {}",
      "{}：{}（{}），{}，{} 个线程；加载 {:.2f} 秒；内存峰值 {}", session_.bundle->name,
      model.weights().types, show_bytes(model.weights().size_bytes), isa, session_.threads.n,
      session_.bundle->load_seconds, peak ? show_bytes(*peak) : "?"));
  context_.out->line("logits " + hash_);
}

ExitStatus Bench::run(const std::vector<std::int64_t>& lengths) {
  for (const std::int64_t length : lengths) report("prefill", length, prefill(length));
  if (flags_.n_decode > 0) report("decode", flags_.n_decode, decode());
  report_summary();
  return ExitStatus::kDone;
}

}  // namespace

void add_bench(CommandLine& line, Context& context) {
  CommandSpec& spec = line.command("bench", "measure speed and memory of the model here",
                                   "测量模型在本机的速度和内存");
  const auto flags = std::make_shared<BenchFlags>();
  spec.option("-p,--prompt-tokens", flags->prompts, "N,N,…", "prompt lengths", "提示长度");
  spec.integer("-n,--decode-tokens", flags->n_decode, 0, 1 << 20, "tokens to decode; 0: none",
               "解码的词元数；0：不测");
  spec.integer("-r,--repetitions", flags->repetitions, 1, 1000, "measurements of each",
               "每项测量次数");
  spec.integer("--seed", flags->seed, 0, 1 << 30, "of the random prompts", "随机提示的种子");
  spec.run([&context, flags] {
    const std::vector<std::int64_t> lengths = parse_lengths(context, flags->prompts);
    return Bench(context, *flags).run(lengths);
  });
}

}  // namespace munia::cli
