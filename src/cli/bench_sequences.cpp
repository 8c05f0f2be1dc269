// bench --sequences: all tokens a second when so many sequences are decoded at once.
#include <algorithm>

#include "cli/bench_modes.h"

namespace munia::cli {
namespace {

constexpr std::int64_t kPromptTokens = 16;

/// Tokens a second of all, from the first token that any has to the end of the last.
double measure(const BenchRun& run, std::int64_t n_sequences, std::int64_t number) {
  std::vector<std::shared_ptr<engine::Ticket>> tickets;
  for (std::int64_t i = 0; i < n_sequences; ++i) {
    engine::GenerateJob job;
    job.keep = false;  // every prompt is to be computed
    job.prompt = run.prompt(kPromptTokens, 2000 + number * 100 + i);
    job.max_tokens = run.n_decode + 1;
    job.ignore_eos = true;
    tickets.push_back(value_or_fail(run.session.engine->submit(std::move(job))));
  }
  double first_ms = 1e300;
  double last_ms = 0;
  double n_tokens = 0;
  for (const auto& ticket : tickets) {
    const auto result = std::get<engine::GenerateResult>(value_or_fail(ticket->wait()));
    first_ms = std::min(first_ms, result.timings.first_token_ms);
    last_ms = std::max(last_ms, result.timings.total_ms);
    n_tokens += static_cast<double>(result.usage.completion_tokens - 1);
  }
  return n_tokens * 1e3 / (last_ms - first_ms);
}

}  // namespace

void bench_sequences(BenchRun& run, const std::vector<std::int64_t>& counts) {
  if (run.n_decode < 1) return;
  report::Series line{"tokens/s", {}, false};
  double one = 0;
  for (const std::int64_t count : counts) {
    std::vector<double> speeds;
    for (std::int64_t i = 0; i <= run.repetitions; ++i) {
      const double speed = measure(run, count, i);
      if (i > 0) speeds.push_back(speed);  // number 0 warms up
    }
    const Spread speed = spread(std::move(speeds));
    const auto n = static_cast<double>(count);
    const ModelCost cost(run.model(), count <= 4 ? HeadRead::kGreedy : HeadRead::kFull);
    if (one == 0) one = speed.median;
    const std::int64_t middle = kPromptTokens + run.n_decode / 2;
    const double kv_bytes = cost.decode_bytes(middle) - cost.weight_bytes();
    // A step reads the weights once and the keys and values of every sequence.
    const double bytes = (cost.weight_bytes() + n * kv_bytes) * speed.median / n;
    line.points.push_back({n, speed.median, speed.low, speed.high});
    if (run.context.json) {
      JsonWriter writer;
      writer.begin_object().field("test", "sequences").field("sequences", count);
      writer.field("n_tokens", run.n_decode).field("repetitions", run.repetitions);
      write_spread(writer, "tokens_per_second", speed);
      writer.field("tokens_per_second_each", speed.median / n)
          .field("gbyte_per_second", bytes * 1e-9)
          .field("percent_of_read_bandwidth", percent_of(bytes, run.limits.huge_bytes))
          .end_object();
      run.context.out->line(writer.text());
    } else {
      run.context.out->line(run.context.lang.tr(
          "{:>3} sequences: {:>8.1f} tokens/s in all ({:.1f} to {:.1f}), {:.1f} each; {:.2f} times "
          "the rate of {}",
          "{:>3} 个序列：合计 {:>8.1f} 词元/秒（{:.1f} 至 {:.1f}），每个 {:.1f}；{:.2f} 倍（相对 "
          "{} 个）",
          count, speed.median, speed.low, speed.high, speed.median / n, speed.median / one,
          counts.front()));
    }
  }
  run.panels.emplace_back(report::LinePlot{
      "total decode speed", "sequences at once", "tokens/s", true, {std::move(line)}});
}

}  // namespace munia::cli
