// bench --positions: how time and memory grow with the length of a conversation. One sequence is
// filled from position 0 to the last; at each position asked for some tokens are decoded and taken
// back, in turns with tokens of a second sequence that stays at the first position: a machine whose
// speed changes meanwhile changes both. Calls the model itself, below the engine, so that a
// position costs no new prompt.
#include <algorithm>
#include <chrono>
#include <map>

#include "base/system_info.h"
#include "cli/bench_modes.h"

namespace munia::cli {
namespace {

struct Measured {
  std::vector<double> prefill_ms;  // a token, from position 0 to here; one a repetition
  std::vector<double> decode_ms;   // a token; all tokens of all repetitions
  std::vector<double>
      against_first;          // of each of these: over the token at the first position beside it
  std::uint64_t kv_used = 0;  // that the pool has handed out
  std::uint64_t kv_resident = 0;  // by which the process has grown
};

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class Sweep {
 public:
  Sweep(const BenchRun& run, std::int64_t n_most)
      : run_(run),
        n_most_(n_most),
        chunk_(std::min(run.context.settings.prefill_chunk(), n_most)),
        threads_(pool_options(run.context, run.session.threads)),
        activations_(run.model().config(), run.model().kernels(), threads_.n_threads(),
                     {.max_tokens = chunk_,
                      .max_logit_rows = 1,
                      .max_sequences = 1,
                      .max_keys = run.model().context()}) {}

  void warm_up() {
    const auto [pool, kv] = fresh();
    auto cache = kv;
    const std::vector<std::int32_t> ids = run_.prompt(chunk_, 0);
    forward(cache, ids, true);
    for (int i = 0; i < 2; ++i) decode_one(cache);
  }

  void repeat(std::int64_t number, const std::vector<std::int64_t>& positions,
              std::map<std::int64_t, Measured>& measured) {
    const std::vector<std::int32_t> ids = run_.prompt(n_most_, number);
    auto [first_pool, first_kv] = fresh();
    fill(first_kv, ids, positions.front());
    // Its pages must be there before memory is counted.
    for (std::int64_t i = 0; i < run_.n_decode; ++i) decode_one(first_kv);
    first_kv.truncate(positions.front());
    auto [pool, kv] = fresh();
    const std::uint64_t before = anonymous_memory_bytes().value_or(0);
    double prefill_ms = 0;
    for (const std::int64_t position : positions) {
      const double begin = now_ms();
      fill(kv, ids, position);
      prefill_ms += now_ms() - begin;
      Measured& here = measured[position];
      here.prefill_ms.push_back(prefill_ms / static_cast<double>(position));
      here.kv_used = pool->used_bytes();
      const std::uint64_t after = anonymous_memory_bytes().value_or(0);
      if (number == 1) here.kv_resident = after > before ? after - before : 0;
      for (std::int64_t i = 0; i < run_.n_decode; ++i) {
        const double first_ms = decode_one(first_kv);
        here.decode_ms.push_back(decode_one(kv));
        here.against_first.push_back(here.decode_ms.back() / first_ms);
      }
      kv.truncate(position);
      first_kv.truncate(positions.front());
      note_progress(fmt::format("position {} of {}, repetition {} of {}", position, n_most_, number,
                                run_.repetitions));
    }
  }

 private:
  struct Fresh {
    std::shared_ptr<model::KvPool> pool;
    model::KvCache kv;
  };
  /// A pool of its own each time: pages that were used before would be resident already.
  Fresh fresh() const {
    auto pool = std::make_shared<model::KvPool>(run_.model().kv_layout(), std::size_t{1} << 46);
    return {pool, model::KvCache(pool)};
  }

  void forward(model::KvCache& kv, std::span<const std::int32_t> ids, bool logits) {
    const auto n = static_cast<std::int64_t>(ids.size());
    if (const Status status = kv.reserve(n); !status) {
      fail(ExitStatus::kFailed, status.error().message);
    }
    model::Batch batch;
    batch.sequences.push_back({&kv, ids, {}});
    if (logits) batch.sequences[0].logit_rows.push_back(n - 1);
    run_.model().forward(batch, activations_, threads_);
  }

  /// Computes tokens up to `position`, with the logits behind the last.
  void fill(model::KvCache& kv, std::span<const std::int32_t> ids, std::int64_t position) {
    while (kv.n_tokens() < position) {
      const std::int64_t n = std::min(chunk_, position - kv.n_tokens());
      forward(kv, ids.subspan(static_cast<std::size_t>(kv.n_tokens()), static_cast<std::size_t>(n)),
              kv.n_tokens() + n == position);
    }
  }

  /// Milliseconds of one token with the likeliest of the last logits, as a reply is made.
  double decode_one(model::KvCache& kv) {
    threads_.use_threads(std::min(run_.session.threads.n_decode, threads_.n_threads()));
    const double begin = now_ms();
    const std::span<const float> row = activations_.logits(0);
    const std::int32_t id[] = {
        static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin())};
    forward(kv, id, true);
    const double ms = now_ms() - begin;
    threads_.use_threads(threads_.n_threads());
    return ms;
  }

  const BenchRun& run_;
  std::int64_t n_most_;
  std::int64_t chunk_;
  ThreadPool threads_;
  model::Activations activations_;
};

/// The time of a token over that of one at the first position, as a multiple of the same of the
/// bytes read. 1: time follows bytes.
double time_against_bytes(const ModelCost& cost, std::int64_t first, std::int64_t position,
                          const Measured& m) {
  return spread(m.against_first).median / (cost.decode_bytes(position) / cost.decode_bytes(first));
}

void report_position(const BenchRun& run, std::int64_t position, const Measured& m,
                     double against_bytes) {
  const ModelCost cost(run.model(), HeadRead::kFull);
  const Spread prefill = spread(m.prefill_ms);
  const Spread decode = spread(m.decode_ms);
  const double bytes = cost.decode_bytes(position);
  const double rate = bytes / decode.median * 1e3;
  const double percent = percent_of(rate, run.limits.huge_bytes);
  const std::uint64_t kv_bytes = kv_page_bytes(run.model(), position);
  if (run.context.json) {
    JsonWriter writer;
    writer.begin_object().field("test", "position").field("position", position);
    write_spread(writer, "prefill_ms_per_token", prefill);
    write_spread(writer, "decode_ms_per_token", decode);
    writer.field("decode_tokens_per_second", 1e3 / decode.median)
        .field("bytes_per_token", bytes)
        .field("gbyte_per_second", rate * 1e-9)
        .field("percent_of_read_bandwidth", percent)
        .field("time_against_bytes", against_bytes)
        .field("kv_page_bytes", run.model().kv_layout().page_bytes())
        .field("kv_bytes", kv_bytes)
        .field("kv_bytes_in_use", m.kv_used)
        .field("kv_bytes_resident", m.kv_resident)
        .end_object();
    run.context.out->line(writer.text());
    return;
  }
  run.context.out->line(run.context.lang.tr(
      "at {:>6}: prefill {:.3f} ms a token; decode {:.2f} ms ({:.2f} to {:.2f}), {:.1f} tokens/s, "
      "{:.1f} GB/s, {:.0f}% of the read bandwidth; time against bytes {:.2f}; KV {}, in memory {}",
      "位置 {:>6}：预填充每词元 {:.3f} 毫秒；解码 {:.2f} 毫秒（{:.2f} 至 {:.2f}），{:.1f} 词元/秒，"
      "{:.1f} GB/s，读带宽的 {:.0f}%；时间与字节之比 {:.2f}；KV {}，实占 {}",
      position, prefill.median, decode.median, decode.low, decode.high, 1e3 / decode.median,
      rate * 1e-9, percent, against_bytes, show_bytes(kv_bytes), show_bytes(m.kv_resident)));
}

}  // namespace

void bench_positions(BenchRun& run, const std::vector<std::int64_t>& wanted) {
  // Decoding at the very end needs room for its tokens: it then begins so much earlier.
  const std::int64_t last = run.model().context() - run.n_decode;
  std::vector<std::int64_t> positions;
  for (const std::int64_t position : wanted) {
    if (position <= run.model().context() && last > 0)
      positions.push_back(std::min(position, last));
  }
  if (positions.size() < wanted.size()) {
    print_note(run.context.lang.tr("the model has {} positions; those beyond are left out",
                                   "模型只有 {} 个位置；超出的已略过", run.model().context()));
  }
  if (positions.empty() || run.n_decode < 1) return;
  std::map<std::int64_t, Measured> measured;
  Sweep sweep(run, positions.back());
  sweep.warm_up();
  for (std::int64_t i = 1; i <= run.repetitions; ++i) sweep.repeat(i, positions, measured);

  const ModelCost cost(run.model(), HeadRead::kFull);
  const std::int64_t first = positions.front();
  const double first_ms = spread(measured[first].decode_ms).median;
  const auto line_of = [](const char* name, bool dashed) {
    return report::Series{name, {}, dashed};
  };
  report::Series prefill = line_of("prefill", false);
  report::Series decode = line_of("measured", false);
  report::Series by_bytes = line_of("as the bytes read", true);
  report::Series memory = line_of("resident", false);
  report::Series arithmetic = line_of("pages x page bytes", true);
  for (const std::int64_t position : positions) {
    const Measured& m = measured[position];
    const double ms = spread(m.decode_ms).median;
    report_position(run, position, m, time_against_bytes(cost, first, position, m));
    const auto x = static_cast<double>(position);
    const Spread p = spread(m.prefill_ms);
    prefill.points.push_back({x, p.median, p.low, p.high});
    decode.points.push_back({x, ms, 0, 0});
    by_bytes.points.push_back(
        {x, first_ms * cost.decode_bytes(position) / cost.decode_bytes(first), 0, 0});
    memory.points.push_back({x, static_cast<double>(m.kv_resident) / (1 << 20), 0, 0});
    arithmetic.points.push_back(
        {x, static_cast<double>(kv_page_bytes(run.model(), position)) / (1 << 20), 0, 0});
  }
  run.panels.emplace_back(report::LinePlot{
      "prefill time per token", "prompt length (tokens)", "ms per token", true, {prefill}});
  run.panels.emplace_back(report::LinePlot{
      "decode time per token", "position", "ms per token", true, {decode, by_bytes}});
  run.panels.emplace_back(
      report::LinePlot{"KV cache", "position", "MiB", true, {memory, arithmetic}});
}

}  // namespace munia::cli
