#include "cli/bench_serve.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/bench_tools.h"
#include "cli/input.h"
#include "cli/load_run.h"

namespace munia::cli {
namespace {

LoadPlan make_plan(const Context& context, const ServeBenchFlags& flags) {
  LoadPlan plan;
  plan.target.url = flags.url;
  while (plan.target.url.ends_with('/')) plan.target.url.pop_back();
  const auto route = load_route(flags.route);
  if (!route) {
    fail(ExitStatus::kUsage,
         context.lang.tr("--route {}: must be predict, chat or completions",
                         "--route {}：应为 predict、chat 或 completions", flags.route));
  }
  if (const std::string why = check_load_url(plan.target.url, context.settings.offline());
      !why.empty()) {
    fail(ExitStatus::kUsage, "--serve " + flags.url + ": " + why);
  }
  plan.target.route = *route;
  plan.target.api_key = flags.api_key;
  plan.target.max_tokens = flags.max_tokens;
  plan.target.timeout_seconds = static_cast<double>(flags.timeout);
  plan.n_requests = flags.n_requests;
  plan.concurrency = flags.concurrency;
  plan.check = flags.check;
  plan.texts = flags.texts.empty()
                   ? mixed_texts(flags.n_requests)
                   : read_texts(flags.texts, context.settings.encoding(), context.lang);
  return plan;
}

void write_percentiles(JsonWriter& writer, const char* name, const std::vector<double>& values) {
  writer.key(name);
  if (values.empty()) {
    writer.null();
    return;
  }
  const Percentiles p = percentiles(values);
  writer.begin_object().field("p50", p.p50).field("p95", p.p95).field("p99", p.p99).end_object();
}

void print_json(const Context& context, const ServeBenchFlags& flags, const LoadResult& result) {
  JsonWriter writer;
  writer.begin_object()
      .field("test", "serve")
      .field("route", flags.route)
      .field("requests", flags.n_requests)
      .field("concurrency", flags.concurrency)
      .field("max_tokens", flags.max_tokens)
      .field("good", result.n_good())
      .field("seconds", result.seconds)
      .field("requests_per_second", static_cast<double>(result.n_good()) / result.seconds)
      .field("tokens_per_second", static_cast<double>(result.n_tokens()) / result.seconds);
  write_percentiles(writer, "first_token_ms", result.first_ms());
  write_percentiles(writer, "total_ms", result.total_ms());
  writer.key("errors").begin_object();
  for (const auto& [error, count] : result.errors()) writer.field(error, count);
  writer.end_object();
  if (flags.check) {
    writer.field("differ_from_alone", result.n_differ)
        .field("alone_tokens_per_second", result.alone_tokens_per_second);
  }
  writer.end_object();
  context.out->line(writer.text());
}

void print_text(const Context& context, const ServeBenchFlags& flags, const LoadResult& result) {
  const Lang& lang = context.lang;
  const double seconds = result.seconds;
  context.out->line(
      lang.tr("{} of {} requests answered, {} at a time, in {:.1f} s: {:.2f} "
              "requests/s, {:.1f} tokens/s",
              "{} / {} 个请求得到回答，并发 {}，用时 {:.1f} 秒：每秒 {:.2f} 个请求，"
              "{:.1f} 个词元",
              result.n_good(), flags.n_requests, flags.concurrency, seconds,
              static_cast<double>(result.n_good()) / seconds,
              static_cast<double>(result.n_tokens()) / seconds));
  const auto row = [&](const std::string& name, const std::vector<double>& values) {
    if (values.empty()) return;
    const Percentiles p = percentiles(values);
    context.out->line(
        fmt::format("{}  P50 {:.0f} ms  P95 {:.0f} ms  P99 {:.0f} ms", name, p.p50, p.p95, p.p99));
  };
  row(lang.pick("first token ", "首个词元"), result.first_ms());
  row(lang.pick("whole answer", "完整回答"), result.total_ms());
  for (const auto& [error, count] : result.errors()) {
    context.out->line(lang.tr("{} failed: {}", "{} 个失败：{}", count, error));
  }
  if (flags.check) {
    context.out->line(
        lang.tr("answers that differ from the one served alone: {}; one user alone: "
                "{:.1f} tokens/s",
                "与单独服务时不同的回答：{}；单个用户：每秒 {:.1f} 个词元", result.n_differ,
                result.alone_tokens_per_second));
  }
}

// Share of the requests (0 to 100%) that took at most so long.
report::Series curve(std::string name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  report::Series series{std::move(name), {}, false};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double share = 100.0 * static_cast<double>(i + 1) / static_cast<double>(values.size());
    series.points.push_back({share, values[i], 0, 0});
  }
  return series;
}

}  // namespace

void describe_serve_bench(CommandSpec& spec, ServeBenchFlags& flags) {
  spec.option("--serve", flags.url, "URL",
              "instead: a load test of a running service, for example http://127.0.0.1:8080",
              "改为对运行中的服务做压力测试，例如 http://127.0.0.1:8080");
  spec.option("--route", flags.route, "NAME", "of --serve: predict, chat or completions",
              "--serve 的路由：predict、chat 或 completions");
  spec.integer("--requests", flags.n_requests, 1, 1 << 20, "of --serve", "--serve 的请求总数");
  spec.integer("--concurrency", flags.concurrency, 1, 1024, "users of --serve at once",
               "--serve 的并发用户数");
  spec.integer("--max-tokens", flags.max_tokens, 1, 1 << 20, "of each reply of --serve",
               "--serve 每个回复的最大词元数");
  spec.number("--timeout", flags.timeout, 0.1F, 86400, "seconds for a request of --serve",
              "--serve 单个请求的时限（秒）");
  spec.option("--texts", flags.texts, "FILE",
              "texts of --serve, one a line (default: built-in ones of mixed lengths)",
              "--serve 使用的文本，每行一个（默认：内置的长短不一的文本）");
  spec.option("--api-key", flags.api_key, "KEY", "of the service", "服务的密钥");
  spec.flag("--check", flags.check,
            "of --serve: first ask each text alone, then compare every answer with it",
            "--serve：先逐个单独请求，再比较每个回答是否相同");
}

ExitStatus bench_serve(const Context& context, const ServeBenchFlags& flags,
                       const std::string& plot_path) {
  const LoadPlan plan = make_plan(context, flags);
  PlotFile plot(context, plot_path);
  const LoadResult result = run_load_test(plan);
  context.json ? print_json(context, flags, result) : print_text(context, flags, result);
  report::LinePlot latency{"latency", "share of the requests, %", "ms", false, {}};
  latency.series.push_back(curve("whole answer", result.total_ms()));
  if (!result.first_ms().empty()) latency.series.push_back(curve("first token", result.first_ms()));
  plot.write("munia bench --serve",
             fmt::format("{} requests to {}, {} at a time", flags.n_requests, flags.route,
                         flags.concurrency),
             {latency});
  const bool good = result.n_good() == flags.n_requests && result.n_differ == 0;
  return good ? ExitStatus::kDone : ExitStatus::kFailed;
}

}  // namespace munia::cli
