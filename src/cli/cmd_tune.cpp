// munia tune: the thread table. For every number of threads that mask and quota allow: latency,
// first token, speeds, memory, processor time; the best is kept for this model on this machine
// (tuned.h), one number for prompts and one for the tokens of a reply. Prompts are bound by
// arithmetic and gain from every core; replies are bound by memory, which fewer threads saturate.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/system_info.h"
#include "cli/bench_tools.h"
#include "cli/commands.h"
#include "cli/tuned.h"

namespace munia::cli {
namespace {

constexpr int kMostThreads = 1024;

struct TuneFlags {
  std::string counts;
  std::int64_t n_prompt = 64;
  std::int64_t n_decode = 32;
  std::int64_t repetitions = 5;
  bool no_store = false;
  std::string plot;
};

struct Row {
  int threads = 1;
  std::vector<double> latency_ms;
  std::vector<double> first_token_ms;
  std::vector<double> prefill;  // tokens a second
  std::vector<double> decode;
  std::vector<double> cpus;  // busy at a time, of a whole request
  std::uint64_t peak_bytes = 0;
};

double median(const std::vector<double>& values) { return spread(values).median; }

class Tune {
 public:
  Tune(const Context& context, const TuneFlags& flags)
      : context_(context), flags_(flags), topology_(detect_cpu_topology()) {}

  ExitStatus run();

 private:
  void choose_counts();
  void measure(Row& row, std::int64_t number);
  void report(const Row& row);
  void finish(const TunedThreads& best);
  void draw(PlotFile& plot) const;

  const Context& context_;
  const TuneFlags& flags_;
  CpuTopology topology_;
  Session session_;
  std::vector<Row> rows_;
};

void Tune::choose_counts() {
  std::vector<int> counts;
  if (!flags_.counts.empty()) {
    for (const std::int64_t n : parse_numbers(context_, "--counts", flags_.counts, kMostThreads)) {
      counts.push_back(static_cast<int>(n));
    }
  } else {
    std::vector<int> cpus = context_.settings.cpus();
    std::sort(cpus.begin(), cpus.end());
    if (!cpus.empty()) {
      topology_ = cpu_topology_of(cpus, "/sys/fs/cgroup", "/proc/self/cgroup", "/sys");
    }
    counts = thread_counts_to_try(topology_);
  }
  for (const int n : counts) rows_.push_back({n, {}, {}, {}, {}, {}, 0});
}

// One request on an engine of its own, so that nothing is left over from another count.
void Tune::measure(Row& row, std::int64_t number) {
  Threads threads = session_.threads;
  threads.n = row.threads;
  if (row.threads > static_cast<int>(topology_.node_cpus.size())) threads.within.clear();
  engine::EngineOptions options;
  options.prefill_chunk = context_.settings.prefill_chunk();
  options.kv_cache = context_.settings.kv_cache();
  engine::Engine engine(session_.bundle,
                        std::make_unique<ThreadPool>(pool_options(context_, threads)), options);
  const auto ask = [&](std::int64_t n_prompt, std::int64_t n_tokens) {
    engine::GenerateJob job;
    job.keep = false;  // every prompt is to be computed
    job.prompt = random_prompt(*session_.bundle->model, n_prompt, number);
    job.max_tokens = n_tokens;
    job.ignore_eos = true;
    return value_or_fail(engine.generate(std::move(job)));
  };
  reset_peak_memory();
  ask(8, 2);  // warms up
  const double cpu_before = process_cpu_seconds();
  const Clock::time_point begin = Clock::now();
  const engine::GenerateResult result = ask(flags_.n_prompt, flags_.n_decode + 1);
  const double wall = seconds_since(begin);
  row.cpus.push_back((process_cpu_seconds() - cpu_before) / wall);
  row.peak_bytes = std::max(row.peak_bytes, peak_memory_bytes().value_or(0));
  const engine::Timings& t = result.timings;
  row.latency_ms.push_back(t.total_ms);
  row.first_token_ms.push_back(t.first_token_ms);
  row.prefill.push_back(static_cast<double>(flags_.n_prompt) * 1e3 / t.first_token_ms);
  row.decode.push_back(static_cast<double>(result.usage.completion_tokens - 1) * 1e3 /
                       (t.total_ms - t.first_token_ms));
}

void Tune::report(const Row& row) {
  const ModelCost cost(*session_.bundle->model, HeadRead::kGreedy);
  const double gbytes =
      median(row.decode) * cost.decode_bytes(flags_.n_prompt + flags_.n_decode / 2) * 1e-9;
  if (context_.json) {
    JsonWriter writer;
    writer.begin_object()
        .field("test", "threads")
        .field("threads", row.threads)
        .field("repetitions", flags_.repetitions)
        .field("mean_latency_ms", mean(row.latency_ms))
        .field("mean_first_token_ms", mean(row.first_token_ms));
    write_spread(writer, "prefill_tokens_per_second", spread(row.prefill));
    write_spread(writer, "decode_tokens_per_second", spread(row.decode));
    writer.field("gbyte_per_second", gbytes)
        .field("peak_memory_bytes", row.peak_bytes)
        .field("cpus_busy", mean(row.cpus))
        .end_object();
    context_.out->line(writer.text());
    return;
  }
  context_.out->line(
      fmt::format("{:>7} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>7.1f} {:>11} {:>6.2f}", row.threads,
                  mean(row.latency_ms), mean(row.first_token_ms), median(row.prefill),
                  median(row.decode), gbytes, show_bytes(row.peak_bytes), mean(row.cpus)));
}

void Tune::finish(const TunedThreads& best) {
  const std::string path = flags_.no_store ? "" : tuned_path(context_);
  if (!path.empty()) {
    store_tuned(path, tuned_key(context_, session_.bundle->path, detect_cpu_topology()), best,
                context_);
  }
  if (context_.json) {
    JsonWriter writer;
    writer.begin_object()
        .field("test", "best")
        .field("model", session_.bundle->name)
        .field("threads", best.threads)
        .field("decode_threads", best.decode_threads)
        .field("allowed", topology_.reason);
    writer.key("stored");
    path.empty() ? writer.null() : writer.value(path);
    writer.end_object();
    context_.out->line(writer.text());
    return;
  }
  context_.out->line(context_.lang.tr("best: --threads {} --decode-threads {}",
                                      "最佳：--threads {} --decode-threads {}", best.threads,
                                      best.decode_threads));
  context_.out->line(
      path.empty()
          ? context_.lang.tr("not stored", "未保存")
          : context_.lang.tr("stored in {}: used from now on for this model on this "
                             "machine, unless a flag says otherwise",
                             "已保存到 {}：此后在本机使用此模型时生效，除非用选项另行指定", path));
}

void Tune::draw(PlotFile& plot) const {
  report::Series latency{"whole reply", {}, false};
  report::Series first{"first token", {}, false};
  report::Series prefill{"prefill", {}, false};
  report::Series decode{"decode", {}, false};
  for (const Row& row : rows_) {
    const auto x = static_cast<double>(row.threads);
    const auto add = [x](report::Series& series, const std::vector<double>& values, double y) {
      const Spread s = spread(values);
      series.points.push_back({x, y, s.low, s.high});
    };
    add(latency, row.latency_ms, mean(row.latency_ms));
    add(first, row.first_token_ms, mean(row.first_token_ms));
    add(prefill, row.prefill, median(row.prefill));
    add(decode, row.decode, median(row.decode));
  }
  plot.write("munia tune", machine_note(session_),
             {report::LinePlot{"mean latency", "threads", "ms", false, {latency, first}},
              report::LinePlot{"prefill", "threads", "tokens/s", false, {prefill}},
              report::LinePlot{"decode", "threads", "tokens/s", false, {decode}}});
}

ExitStatus Tune::run() {
  choose_counts();
  PlotFile plot(context_, flags_.plot);
  session_ = open_session(context_);
  const std::int64_t needed = flags_.n_prompt + flags_.n_decode + 1;
  if (needed > session_.bundle->model->context()) {
    fail(ExitStatus::kUsage,
         context_.lang.tr("-p {} and -n {} take {} positions; the context holds {}",
                          "-p {} 与 -n {} 需要 {} 个位置；上下文只有 {} 个", flags_.n_prompt,
                          flags_.n_decode, needed, session_.bundle->model->context()));
  }
  if (!context_.json) {
    context_.out->line(topology_.reason);
    context_.out->line(context_.lang.pick(
        "threads   latency  1st token   prefill    decode    GB/s      memory   CPUs\n"
        "          mean ms    mean ms  tokens/s  tokens/s                peak   busy",
        "threads   latency  1st token   prefill    decode    GB/s      memory   CPUs\n"
        "线程数   平均毫秒   平均毫秒   词元/秒   词元/秒             内存峰值   占用"));
  }
  // In rounds, so that a change of the machine's state meets all counts alike.
  for (std::int64_t i = 0; i < flags_.repetitions; ++i) {
    for (Row& row : rows_) {
      note_progress(fmt::format("{} threads ({} of {})", row.threads, i + 1, flags_.repetitions));
      measure(row, i);
    }
  }
  std::vector<CountSpeeds> speeds;
  for (const Row& row : rows_) {
    report(row);
    speeds.push_back({row.threads, median(row.prefill), median(row.decode)});
  }
  finish(pick_threads(speeds));
  draw(plot);
  return ExitStatus::kDone;
}

}  // namespace

void add_tune(CommandLine& line, Context& context) {
  CommandSpec& spec =
      line.command("tune", "measure which number of threads is best here, and keep it",
                   "测量在本机用多少线程最好，并记住结果");
  const auto flags = std::make_shared<TuneFlags>();
  spec.option("--counts", flags->counts, "N,N,…",
              "thread counts to measure (without it: all that cores and quota allow)",
              "要测量的线程数（缺省：核数与配额允许的全部）");
  spec.integer("-p,--prompt-tokens", flags->n_prompt, 1, 1 << 20, "length of the prompt",
               "提示长度");
  spec.integer("-n,--decode-tokens", flags->n_decode, 1, 1 << 20, "tokens to decode",
               "解码的词元数");
  spec.integer("-r,--repetitions", flags->repetitions, 1, 1000, "measurements of each",
               "每项测量次数");
  spec.flag("--no-store", flags->no_store, "measure only, keep nothing", "只测量，不保存");
  spec.option("--plot", flags->plot, "FILE.svg", "draw what was measured", "把测量结果画成图");
  spec.run([&context, flags] { return Tune(context, *flags).run(); });
}

}  // namespace munia::cli
