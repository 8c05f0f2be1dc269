// bench --ladder: the latency of one reply step by step, each step on top of the ones before: no KV
// cache on one thread right after loading; the cache; a warm-up; streaming, which shows the first
// token when it is there; all threads. Every step is measured, none is assumed.
#include <boost/json.hpp>
#include <optional>

#include "cli/bench_modes.h"

namespace munia::cli {
namespace {

struct Step {
  const char* name;
  const char* name_zh;
  bool kv_cache = true;
  bool warm = true;
  bool streams = false;
  bool all_threads = false;
};

constexpr Step kSteps[] = {
    {"baseline: no KV cache, 1 thread, cold", "基线：无 KV 缓存，1 个线程，冷启动", false, false},
    {"+ KV cache", "+ KV 缓存", true, false},
    {"+ warm-up", "+ 预热", true, true},
    {"+ streaming", "+ 流式输出", true, true, true},
    {"+ threads", "+ 多线程", true, true, true, true},
};

struct Timed {
  double total_ms = 0;
  double first_text_ms = 0;  // until the user sees something
  double load_s = 0;
};

/// A message as a user types it, in the model's own template where it has one.
std::vector<std::int32_t> user_prompt(const BenchRun& run) {
  constexpr const char* kText = "今天的实验终于成功了，太棒了！";
  if (run.session.bundle->chat_template) {
    const boost::json::object context = {
        {"messages", boost::json::array{boost::json::object{{"role", "user"}, {"content", kText}}}},
        {"add_generation_prompt", true}};
    return value_or_fail(run.session.bundle->render_ids(context));
  }
  return value_or_fail(run.session.bundle->plain_ids(kText));
}

class Ladder {
 public:
  explicit Ladder(const BenchRun& run) : run_(run), prompt_(user_prompt(run)) {}

  std::size_t n_prompt() const { return prompt_.size(); }

  Timed measure(const Step& step) const {
    Threads threads = run_.session.threads;
    if (!step.all_threads) {
      threads.n = 1;
      threads.n_decode = 1;
      if (!threads.cpus.empty()) threads.cpus.erase(threads.cpus.begin() + 1, threads.cpus.end());
    }
    engine::EngineOptions options;
    options.prefill_chunk = run_.context.settings.prefill_chunk();
    options.kv_cache = step.kv_cache;
    options.decode_threads = threads.n_decode;
    Timed timed;
    std::shared_ptr<const engine::ModelBundle> bundle = run_.session.bundle;
    auto pool = std::make_unique<ThreadPool>(pool_options(run_.context, threads));
    if (!step.warm) {  // cold: nothing of this copy of the weights has been computed with
      bundle = engine::load_bundle(bundle->path,
                                   {.isa = run_.context.settings.isa(),
                                    .context = run_.context.settings.context(),
                                    .weights = bundle->model->weights().mode},
                                   *pool);
      timed.load_s = bundle->load_seconds;
    }
    engine::Engine engine(bundle, std::move(pool), options);
    if (step.warm) reply(engine, 4);
    const engine::Timings timings = reply(engine, run_.n_decode);
    timed.total_ms = timings.total_ms;
    timed.first_text_ms = step.streams ? timings.first_token_ms : timings.total_ms;
    return timed;
  }

 private:
  engine::Timings reply(engine::Engine& engine, std::int64_t n_tokens) const {
    engine::GenerateJob job;
    job.keep = false;  // every prompt is to be computed
    job.prompt = prompt_;
    job.max_tokens = n_tokens;
    job.ignore_eos = true;
    return value_or_fail(engine.generate(std::move(job))).timings;
  }

  const BenchRun& run_;
  std::vector<std::int32_t> prompt_;
};

}  // namespace

void bench_ladder(BenchRun& run) {
  if (run.n_decode < 1) return;
  const Lang lang = run.context.lang;
  const Ladder ladder(run);
  constexpr std::size_t kCount = std::size(kSteps);
  std::vector<double> totals[kCount];
  std::vector<double> firsts[kCount];
  std::vector<double> loads;
  // In rounds, so that a change of the machine's state meets all steps alike.
  for (std::int64_t i = 0; i < run.repetitions; ++i) {
    for (std::size_t s = 0; s < kCount; ++s) {
      note_progress(fmt::format("{} ({} of {})", kSteps[s].name, i + 1, run.repetitions));
      const Timed timed = ladder.measure(kSteps[s]);
      totals[s].push_back(timed.total_ms);
      firsts[s].push_back(timed.first_text_ms);
      if (!kSteps[s].warm) loads.push_back(timed.load_s);
    }
  }
  if (!run.context.json) {
    run.context.out->line(lang.tr("a prompt of {} tokens and a reply of {}; load {:.2f} s",
                                  "提示 {} 个词元，回复 {} 个；加载 {:.2f} 秒", ladder.n_prompt(),
                                  run.n_decode, spread(loads).median));
  }
  report::BarPlot latency{"whole reply", "ms", {}};
  report::BarPlot first_text{"first text that the user sees", "ms", {}};
  const double base = spread(totals[0]).median;
  for (std::size_t s = 0; s < kCount; ++s) {
    const Spread total = spread(totals[s]);
    const Spread first = spread(firsts[s]);
    const int n_threads = kSteps[s].all_threads ? run.session.threads.n : 1;
    std::string name = kSteps[s].name;
    if (kSteps[s].all_threads) name += fmt::format(" ({})", n_threads);
    latency.bars.push_back({name, total.median});
    first_text.bars.push_back({name, first.median});
    if (run.context.json) {
      JsonWriter writer;
      writer.begin_object()
          .field("test", "ladder")
          .field("step", kSteps[s].name)
          .field("kv_cache", kSteps[s].kv_cache)
          .field("warm", kSteps[s].warm)
          .field("streaming", kSteps[s].streams)
          .field("threads", n_threads)
          .field("prompt_tokens", ladder.n_prompt())
          .field("reply_tokens", run.n_decode)
          .field("repetitions", run.repetitions);
      write_spread(writer, "latency_ms", total);
      write_spread(writer, "first_text_ms", first);
      writer.field("times_faster", base / total.median)
          .field("load_seconds", spread(loads).median)
          .end_object();
      run.context.out->line(writer.text());
    } else {
      if (lang.zh()) name = kSteps[s].name_zh;
      run.context.out->line(lang.tr(
          "{:<40} whole reply {:>9.1f} ms ({:.1f} to {:.1f}, {:.1f} x); first text {:>9.1f} ms",
          "{:<40} 完整回复 {:>9.1f} 毫秒（{:.1f} 至 {:.1f}，{:.1f} 倍）；首个文字 {:>9.1f} 毫秒",
          name, total.median, total.low, total.high, base / total.median, first.median));
    }
  }
  run.panels.emplace_back(std::move(latency));
  run.panels.emplace_back(std::move(first_text));
}

}  // namespace munia::cli
