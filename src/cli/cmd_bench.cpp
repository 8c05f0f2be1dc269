// munia bench: speed with its share of what this machine can do, load time, peak memory, and a hash
// of the logits that says whether the arithmetic is the same. --positions, --sequences and --ladder
// are measurements of their own (bench_modes.h). Prompts are seeded random ids, another one for
// each repetition, so that no cache helps.
#include <memory>
#include <utility>

#include "base/system_info.h"
#include "cli/bench_modes.h"
#include "cli/bench_serve.h"
#include "cli/commands.h"

namespace munia::cli {
namespace {

constexpr std::int64_t kMostPositions = 1 << 20;
constexpr std::int64_t kMostSequences = 32;  // rows of logits in a step of the engine

struct BenchFlags {
  std::string prompts = "64,512";
  std::string positions;
  std::string sequences;
  bool ladder = false;
  std::int64_t n_decode = 32;
  std::int64_t repetitions = 5;
  std::int64_t seed = 1;
  std::string plot;
  ServeBenchFlags serve;
};

struct Lists {
  std::vector<std::int64_t> prompts;
  std::vector<std::int64_t> positions;  // empty: not measured
  std::vector<std::int64_t> sequences;
};

Lists parse_lists(const Context& context, const BenchFlags& flags) {
  Lists lists;
  lists.prompts = parse_numbers(context, "-p", flags.prompts, kMostPositions);
  if (!flags.positions.empty()) {
    lists.positions = parse_numbers(context, "--positions", flags.positions, kMostPositions);
  }
  if (!flags.sequences.empty()) {
    lists.sequences = parse_numbers(context, "--sequences", flags.sequences, kMostSequences);
  }
  return lists;
}

void report_limits(const BenchRun& run) {
  const MachineLimits& limits = run.limits;
  if (run.context.json) {
    JsonWriter writer;
    writer.begin_object()
        .field("test", "limits")
        .field("isa", run.model().kernels().name)
        .field("threads", run.session.threads.n)
        .field("fma_gflop_per_second", limits.flops * 1e-9)
        .field("read_gbyte_per_second", limits.huge_bytes * 1e-9)
        .field("read_4k_gbyte_per_second", limits.small_bytes * 1e-9)
        .field("footprint_bytes", limits.footprint)
        .end_object();
    run.context.out->line(writer.text());
    return;
  }
  run.context.out->line(
      run.context.lang.tr("this machine, {} threads: float32 FMA {:.1f} GFLOP/s; reading {}: "
                          "{:.1f} GB/s in huge pages, "
                          "{:.1f} GB/s in pages of 4 KiB",
                          "本机，{} 个线程：float32 FMA {:.1f} GFLOP/s；读取 {}：大页 {:.1f} "
                          "GB/s，4 KiB 页 {:.1f} GB/s",
                          run.session.threads.n, limits.flops * 1e-9, show_bytes(limits.footprint),
                          limits.huge_bytes * 1e-9, limits.small_bytes * 1e-9));
}

void report_summary(const BenchRun& run, const std::string& hash,
                    std::optional<std::uint64_t> load_peak, std::optional<std::uint64_t> peak) {
  const model::Model& model = run.model();
  const Session& session = run.session;
  const std::string isa = model.kernels().name;
  if (run.context.json) {
    JsonWriter writer;
    writer.begin_object()
        .field("test", "summary")
        .field("model", session.bundle->name)
        .field("weights", model.weights().types)
        .field("weight_bytes", model.weights().size_bytes)
        .field("head_copy_bytes", model.head_screen().size_bytes())
        .field("kv_bytes_per_token", ModelCost(model, HeadRead::kFull).kv_bytes_per_token())
        .field("isa", isa)
        .field("threads", session.threads.n)
        .field("decode_threads", session.threads.n_decode)
        .field("load_seconds", session.bundle->load_seconds);
    writer.key("peak_memory_bytes");
    peak ? writer.value(*peak) : writer.null();
    writer.key("load_peak_memory_bytes");
    load_peak ? writer.value(*load_peak) : writer.null();
    writer.key("logits_hash");
    hash.empty() ? writer.null() : writer.value(hash);
    writer.end_object();
    run.context.out->line(writer.text());
    return;
  }
  run.context.out->line(run.context.lang.tr(
      "{}: {} in {}, {}, {} threads; loaded in {:.2f} s; peak memory {}",
      "{}：{}（{}），{}，{} 个线程；加载 {:.2f} 秒；内存峰值 {}", session.bundle->name,
      model.weights().types, show_bytes(model.weights().size_bytes), isa, session.threads.n,
      session.bundle->load_seconds, peak ? show_bytes(*peak) : "?"));
  if (!hash.empty()) run.context.out->line("logits " + hash);
}

ExitStatus run_bench(const Context& context, const BenchFlags& flags) {
  const Lists lists = parse_lists(context, flags);
  PlotFile plot(context, flags.plot);
  SessionNeeds needs;
  if (!lists.positions.empty()) needs.context = lists.positions.back() + flags.n_decode;
  if (!lists.sequences.empty()) {
    needs.max_sequences = std::max(needs.max_sequences, lists.sequences.back());
  }
  const Session session = open_session(context, context.settings.model(), needs);
  const auto load_peak = peak_memory_bytes();
  BenchRun run{context, session, {}, flags.n_decode, flags.repetitions, flags.seed, {}};
  {
    // Measured before the model runs, given back at once, and kept out of its peak memory.
    ThreadPool pool(pool_options(context, session.threads));
    run.limits = measure_limits(run.model().kernels().name, pool, run.model().weights().size_bytes);
  }
  report_limits(run);
  const bool reset = reset_peak_memory();
  std::string hash;
  const bool special = flags.ladder || !lists.positions.empty() || !lists.sequences.empty();
  if (!special) hash = bench_standard(run, lists.prompts);
  if (!lists.positions.empty()) bench_positions(run, lists.positions);
  if (!lists.sequences.empty()) bench_sequences(run, lists.sequences);
  if (flags.ladder) bench_ladder(run);
  std::optional<std::uint64_t> peak = peak_memory_bytes();
  if (reset && peak && load_peak) peak = std::max(*peak, *load_peak);
  report_summary(run, hash, load_peak, peak);
  plot.write("munia bench", machine_note(session), run.panels);
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
  spec.option("--positions", flags->positions, "N,N,…",
              "instead: prefill up to and decoding at these positions, for example 64,1024,8192",
              "改为测量预填充至这些位置以及在这些位置解码，例如 64,1024,8192");
  spec.option("--sequences", flags->sequences, "N,N,…",
              "instead: all tokens a second of so many sequences at once, for example 1,2,4,8,16",
              "改为测量这么多序列同时解码的总速度，例如 1,2,4,8,16");
  spec.flag("--ladder", flags->ladder,
            "instead: the latency of a reply without KV cache, with it, and with warm-up, "
            "streaming and threads added",
            "改为逐步测量一次回复的延迟：无 KV 缓存、有缓存、预热、流式输出、多线程");
  describe_serve_bench(spec, flags->serve);
  spec.option("--plot", flags->plot, "FILE.svg", "draw what was measured", "把测量结果画成图");
  spec.run([&context, flags] {
    return flags->serve.url.empty() ? run_bench(context, *flags)
                                    : bench_serve(context, flags->serve, flags->plot);
  });
}

}  // namespace munia::cli
