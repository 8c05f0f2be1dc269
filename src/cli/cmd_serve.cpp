// munia serve: the HTTP service. Listens at once (so that /health and /ready answer), loads the
// model, serves until SIGTERM or Ctrl-C, and then finishes what has begun.
#include <sys/resource.h>

#include <condition_variable>
#include <ctime>
#include <fstream>
#include <memory>
#include <mutex>
#include <utility>

#include "cli/commands.h"
#include "cli/service_notice.h"
#include "cli/session.h"
#include "cli/task_options.h"
#include "server/app.h"
#include "server/http_server.h"

namespace munia::cli {
namespace {

struct ServeFlags {
  std::string host = "127.0.0.1";
  std::int64_t port = 8080;
  std::string unix_path;
  TaskOptions task;
  std::int64_t parallel = 16;
  std::int64_t queue = 64;
  float queue_timeout = 30;
  float request_timeout = 600;
  float drain_timeout = 30;
  std::int64_t max_connections = 1024;
  std::int64_t max_body = 1 << 20;
  std::int64_t max_header = 16 << 10;
  std::int64_t max_texts = 1024;
  float idle_timeout = 75;
  float read_timeout = 30;
  float write_timeout = 30;
  std::int64_t io_threads = 1;
  std::int64_t workers = 2;
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::vector<std::string> cors;
  std::vector<std::string> hosts;
  std::string log_format = "text";
  bool no_request_log = false;
  bool log_text = false;
};

std::vector<std::string> read_keys(const Context& context, const ServeFlags& flags) {
  std::vector<std::string> keys = flags.api_keys;
  if (!flags.api_key_file.empty()) {
    std::ifstream file(flags.api_key_file);
    if (!file) {
      fail(ExitStatus::kCannotLoad,
           context.lang.tr("--api-key-file {}: cannot be read", "--api-key-file {}：无法读取",
                           flags.api_key_file));
    }
    std::string line;
    while (std::getline(file, line)) {
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      if (!line.empty() && line.front() != '#') keys.push_back(line);
    }
    if (keys.empty()) {  // an empty file must not open the service to everybody
      fail(ExitStatus::kUsage, context.lang.tr("--api-key-file {}: there is no key in it",
                                               "--api-key-file {}：没有密钥", flags.api_key_file));
    }
  }
  for (const std::string& key : keys) {
    if (!key.empty()) continue;
    fail(ExitStatus::kUsage, context.lang.tr("--api-key is empty", "--api-key 为空"));
  }
  return keys;
}

server::HttpOptions http_options(const ServeFlags& flags) {
  server::HttpOptions options;
  options.host = flags.host;
  options.port = static_cast<std::uint16_t>(flags.port);
  options.unix_path = flags.unix_path;
  options.io_threads = static_cast<int>(flags.io_threads);
  options.max_connections = static_cast<std::size_t>(flags.max_connections);
  options.max_header_bytes = static_cast<std::size_t>(flags.max_header);
  options.max_body_bytes = static_cast<std::size_t>(flags.max_body);
  options.idle_seconds = flags.idle_timeout;
  options.read_seconds = flags.read_timeout;
  options.write_seconds = flags.write_timeout;
  return options;
}

// As many descriptors as the system allows: a connection takes one.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

/// Signals that ask the service to end: the first one drains, the second one stops.
class StopRequests {
 public:
  explicit StopRequests(Interrupts& interrupts) : interrupts_(interrupts) {
    interrupts.on_interrupt([this] { add(true); });
    interrupts.on_terminate([this] { add(false); });
  }
  ~StopRequests() {
    interrupts_.on_interrupt(nullptr);
    interrupts_.on_terminate(nullptr);
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return n_ > 0; });
  }
  int count() const {
    const std::lock_guard lock(mutex_);
    return n_;
  }
  bool by_keyboard() const {
    const std::lock_guard lock(mutex_);
    return by_keyboard_;
  }

 private:
  void add(bool by_keyboard) {
    const std::lock_guard lock(mutex_);
    if (n_++ == 0) by_keyboard_ = by_keyboard;
    changed_.notify_all();
  }
  Interrupts& interrupts_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int n_ = 0;
  bool by_keyboard_ = false;
};

void warn_if_open(const Context& context, const ServeFlags& flags, bool has_keys,
                  server::Log& log) {
  if (!flags.unix_path.empty() || has_keys || server::is_loopback_host(flags.host)) return;
  log.warn(context.lang.tr(
      "WARNING: listening on {} without an API key: everybody who reaches this machine can use the "
      "model and read /metrics; set --api-key-file, or listen on 127.0.0.1",
      "警告：正在监听 {} 且没有设置 API 密钥：能访问本机的任何人都可以使用模型并读取 /metrics；"
      "请设置 --api-key-file，或只监听 127.0.0.1",
      flags.host));
}

void announce(const Context& context, const std::string& address, server::Log& log) {
  log.info(context.lang.tr("listening on {}", "正在监听 {}", address));
  if (!context.json) return;
  JsonWriter writer;
  writer.begin_object().field("event", "listening").field("address", address).end_object();
  context.out->line(writer.text());
}

void load_model(const Context& context, std::optional<Session>& session, server::Service& service,
                server::Log& log) {
  const ServiceNotice notice(context.notify_socket);
  notice.status(context.lang.tr("loading {}", "正在加载 {}", context.settings.model()));
  session = open_session(context);
  const model::Model& model = *session->bundle->model;
  service.metrics().set_model(
      {session->bundle->name, std::string(weight_mode_name(model.weights().mode)),
       model.kernels().name, session->threads.n, context.settings.max_memory().value_or(0)});
  server::LoadedModel loaded;
  loaded.bundle = session->bundle;
  loaded.engine = session->engine.get();
  loaded.id = session->bundle->name;
  loaded.created = static_cast<std::int64_t>(std::time(nullptr));
  service.set_model(std::move(loaded));
  const std::string ready = context.lang.tr("ready: {} ({})", "就绪：{}（{}）",
                                            session->bundle->name, session->threads.reason);
  log.info(ready);
  notice.ready(ready);
}

void shut_down(const Context& context, const ServeFlags& flags, const StopRequests& stops,
               server::HttpServer& http, server::App& app, server::Service& service,
               server::Log& log) {
  constexpr double kStep = 0.1;
  const char* ending =
      context.lang.pick("shutting down: finishing what has begun", "正在关闭：完成已开始的请求");
  log.info(ending);
  ServiceNotice(context.notify_socket).stopping(ending);
  service.drain();
  http.drain();
  double waited = 0;
  while (!http.wait_answered(kStep)) {
    waited += kStep;
    if (waited < flags.drain_timeout && stops.count() < 2) continue;
    service.admission().stop_all();
    http.wait_answered(1);
    break;
  }
  http.stop();
  app.stop_workers();
  service.admission().stop_all();
  while (!service.admission().wait_idle(1)) continue;  // a cancelled job leaves within one step
}

ExitStatus run_serve(const Context& context, const ServeFlags& flags) {
  const std::vector<std::string> keys = read_keys(context, flags);
  if (flags.log_format != "text" && flags.log_format != "json") {
    fail(ExitStatus::kUsage,
         context.lang.tr("--log-format {}: must be text or json",
                         "--log-format {}：应为 text 或 json", flags.log_format));
  }
  server::ServiceOptions options;
  options.default_task = choose_task(context, flags.task);
  options.version = MUNIA_VERSION;
  options.max_texts = flags.max_texts;
  options.admission = {static_cast<int>(flags.parallel), static_cast<std::size_t>(flags.queue),
                       flags.queue_timeout, flags.request_timeout};
  raise_descriptor_limit();
  StopRequests stops(*context.interrupts);
  server::Log log({flags.log_format == "json", !flags.no_request_log, flags.log_text});
  std::optional<Session> session;  // outlives what works with it
  std::optional<server::Service> service(std::in_place, std::move(options));
  std::optional<server::App> app(std::in_place, *service,
                                 server::GuardOptions{keys, flags.cors, flags.hosts}, log,
                                 static_cast<int>(flags.workers));
  server::HttpServer http(
      http_options(flags),
      [&app](server::Request request, std::shared_ptr<server::Responder> responder) {
        app->handle(std::move(request), std::move(responder));
      },
      [&app](int status) { app->note_refused(status); });
  if (const Status started = http.start(); !started) {
    fail(ExitStatus::kFailed, started.error().message);
  }
  const auto end = [&] {
    shut_down(context, flags, stops, http, *app, *service, log);
    app.reset();
    service.reset();  // its threads are joined: nobody holds a connection of `http` any more
  };
  announce(context, http.address(), log);
  warn_if_open(context, flags, !keys.empty(), log);
  try {
    load_model(context, session, *service, log);
    stops.wait();
  } catch (...) {
    end();
    throw;
  }
  end();
  return stops.by_keyboard() ? ExitStatus::kInterrupted : ExitStatus::kDone;
}

void describe_limits(CommandSpec& spec, ServeFlags& flags) {
  constexpr std::int64_t kMany = 1 << 20;
  constexpr std::int64_t kManyBytes = std::int64_t{1} << 30;
  constexpr float kDay = 86400;
  spec.integer("--parallel", flags.parallel, 1, 256, "requests computed at once",
               "同时计算的请求数");
  spec.integer("--queue", flags.queue, 0, kMany, "requests that wait; more get 429",
               "排队的请求数；超出返回 429");
  spec.number("--queue-timeout", flags.queue_timeout, 0.01F, kDay, "longest wait in seconds",
              "最长排队秒数");
  spec.number("--request-timeout", flags.request_timeout, 0.01F, kDay,
              "longest time of a request in seconds", "单个请求的最长秒数");
  spec.number("--drain-timeout", flags.drain_timeout, 0, kDay,
              "seconds to finish requests after SIGTERM", "收到 SIGTERM 后完成请求的秒数");
  spec.integer("--max-connections", flags.max_connections, 1, kMany, "open connections",
               "最大连接数");
  spec.integer("--max-body", flags.max_body, 64, kManyBytes, "bytes of a request's body",
               "请求体的最大字节数");
  spec.integer("--max-header", flags.max_header, 256, kMany, "bytes of a request's header",
               "请求头的最大字节数");
  spec.integer("--max-texts", flags.max_texts, 1, kMany, "texts of one /classify",
               "一次 /classify 的最大文本数");
  spec.number("--idle-timeout", flags.idle_timeout, 0.01F, kDay,
              "seconds that a connection may idle", "连接空闲的最长秒数");
  spec.number("--read-timeout", flags.read_timeout, 0.01F, kDay, "seconds for a request to arrive",
              "请求到达的最长秒数");
  spec.number("--write-timeout", flags.write_timeout, 0.01F, kDay,
              "seconds for a client to take what is sent", "客户端接收数据的最长秒数");
  spec.integer("--io-threads", flags.io_threads, 1, 64, "threads for the network", "网络线程数");
  spec.integer("--workers", flags.workers, 1, 64, "threads that parse and tokenize",
               "解析与分词线程数");
}

}  // namespace

void add_serve(CommandLine& line, Context& context) {
  CommandSpec& spec = line.command("serve", "the HTTP service and its web page", "HTTP 服务与网页");
  const auto flags = std::make_shared<ServeFlags>();
  spec.option("--host", flags->host, "HOST", "address to listen on", "监听地址");
  spec.integer("--port", flags->port, 0, 65535, "port; 0: any free one",
               "端口；0 表示任意空闲端口");
  spec.option("--unix", flags->unix_path, "PATH", "listen on a Unix socket instead",
              "改为监听 Unix 套接字");
  describe_task_options(spec, flags->task);
  describe_limits(spec, *flags);
  spec.option("--api-key", flags->api_keys, "KEY", "ask for this key; may be given several times",
              "要求此密钥；可多次给出");
  spec.option("--api-key-file", flags->api_key_file, "FILE", "keys, one a line",
              "密钥文件，每行一个");
  spec.option("--cors", flags->cors, "ORIGIN",
              "web pages of this origin may use the service; * for all; several times",
              "允许此来源的网页使用本服务；* 表示全部；可多次给出");
  spec.option("--allow-host", flags->hosts, "NAME",
              "host name to answer to beside localhost and addresses; several times",
              "除 localhost 与 IP 地址外允许的主机名；可多次给出");
  spec.option("--log-format", flags->log_format, "text|json", "form of the log on standard error",
              "标准错误上日志的格式");
  spec.flag("--no-request-log", flags->no_request_log, "no line for each request",
            "不为每个请求写日志");
  spec.flag("--log-text", flags->log_text, "write users' texts to the log", "在日志中写入用户文本");
  spec.run([&context, flags] { return run_serve(context, *flags); });
}

}  // namespace munia::cli
