// bench: prefill and decode one by one, each with its share of what the machine can do.
#include "base/sha256.h"
#include "cli/bench_modes.h"

namespace munia::cli {
namespace {

constexpr std::int64_t kDecodePromptTokens = 16;

Spread prefill(const BenchRun& run, std::int64_t n_tokens, std::string& first_hash) {
  std::vector<double> speeds;
  // Number 0 warms up, and gives the hash.
  for (std::int64_t i = 0; i <= run.repetitions; ++i) {
    engine::LogitsJob job;
    job.keep = false;  // every prompt is to be computed
    job.prompt = run.prompt(n_tokens, i);
    std::string hash;
    job.on_row = [&](std::int64_t, std::span<const float> row) {
      if (i == 0) hash = sha256_hex(std::as_bytes(row));
    };
    const auto result = value_or_fail(run.session.engine->logits(std::move(job)));
    if (i > 0) speeds.push_back(static_cast<double>(n_tokens) * 1e3 / result.timings.total_ms);
    if (first_hash.empty()) first_hash = hash;
  }
  return spread(std::move(speeds));
}

Spread decode(const BenchRun& run) {
  std::vector<double> speeds;
  for (std::int64_t i = 0; i <= run.repetitions; ++i) {
    engine::GenerateJob job;
    job.keep = false;  // every prompt is to be computed
    job.prompt = run.prompt(kDecodePromptTokens, 1000 + i);
    job.max_tokens = run.n_decode + 1;  // the first one belongs to the prompt's step
    job.ignore_eos = true;
    const auto result = value_or_fail(run.session.engine->generate(std::move(job)));
    const double ms = result.timings.total_ms - result.timings.first_token_ms;
    const auto n_steps = static_cast<double>(result.usage.completion_tokens - 1);
    if (i > 0) speeds.push_back(n_steps * 1e3 / ms);
  }
  return spread(std::move(speeds));
}

void report_prefill(const BenchRun& run, std::int64_t n_tokens, const Spread& speed) {
  const double flops = speed.median *
                       ModelCost(run.model(), HeadRead::kFull).prefill_flops(n_tokens) /
                       static_cast<double>(n_tokens);
  const double percent = percent_of(flops, run.limits.flops);
  if (run.context.json) {
    JsonWriter writer;
    writer.begin_object().field("test", "prefill").field("n_tokens", n_tokens);
    writer.field("repetitions", run.repetitions);
    write_spread(writer, "tokens_per_second", speed);
    writer.field("gflop_per_second", flops * 1e-9)
        .field("percent_of_fma_peak", percent)
        .end_object();
    run.context.out->line(writer.text());
    return;
  }
  run.context.out->line(run.context.lang.tr(
      "prefill {:>6}  {:>9.1f} tokens/s  ({:.1f} to {:.1f})  {:.1f} GFLOP/s, {:.0f}% of the FMA "
      "peak",
      "预填充 {:>6}  {:>9.1f} 词元/秒  （{:.1f} 至 {:.1f}）  {:.1f} GFLOP/s，FMA 峰值的 {:.0f}%",
      n_tokens, speed.median, speed.low, speed.high, flops * 1e-9, percent));
}

void report_decode(const BenchRun& run, const Spread& speed) {
  const std::int64_t middle = kDecodePromptTokens + run.n_decode / 2;
  const double bytes =
      speed.median * ModelCost(run.model(), HeadRead::kGreedy).decode_bytes(middle);
  const double percent = percent_of(bytes, run.limits.huge_bytes);
  if (run.context.json) {
    JsonWriter writer;
    writer.begin_object().field("test", "decode").field("n_tokens", run.n_decode);
    writer.field("repetitions", run.repetitions);
    write_spread(writer, "tokens_per_second", speed);
    writer.field("gbyte_per_second", bytes * 1e-9)
        .field("percent_of_read_bandwidth", percent)
        .end_object();
    run.context.out->line(writer.text());
    return;
  }
  run.context.out->line(run.context.lang.tr(
      "decode  {:>6}  {:>9.1f} tokens/s  ({:.1f} to {:.1f})  {:.1f} GB/s, {:.0f}% of the read "
      "bandwidth",
      "解码   {:>6}  {:>9.1f} 词元/秒  （{:.1f} 至 {:.1f}）  {:.1f} GB/s，读带宽的 {:.0f}%",
      run.n_decode, speed.median, speed.low, speed.high, bytes * 1e-9, percent));
}

}  // namespace

std::string bench_standard(BenchRun& run, const std::vector<std::int64_t>& lengths) {
  std::string hash;
  report::BarPlot bars{"speed", "tokens/s", {}};
  for (const std::int64_t length : lengths) {
    const Spread speed = prefill(run, length, hash);
    report_prefill(run, length, speed);
    bars.bars.push_back({"prefill " + std::to_string(length), speed.median});
  }
  if (run.n_decode > 0) {
    const Spread speed = decode(run);
    report_decode(run, speed);
    bars.bars.push_back({"decode", speed.median});
  }
  run.panels.emplace_back(std::move(bars));
  return hash;
}

}  // namespace munia::cli
