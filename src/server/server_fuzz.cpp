// Request parsing and routing: the input is a request in HTTP's own form (request line, headers,
// empty line, body), handed to the application with a model loaded and no slot for work, so that
// every route parses, renders and tokenizes, and is then answered with 429. Whatever comes in, each
// request gets exactly one answer: a known status, and JSON where it is an error.
#include <boost/json/parse.hpp>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/thread_pool.h"
#include "server/app.h"

namespace {

using namespace munia;
using namespace munia::server;

[[noreturn]] void found(const char*) { std::abort(); }

class Answer : public Responder {
 public:
  explicit Answer(int& n_answers) : n_answers_(n_answers) {}
  void send(int status, Fields headers, std::string body) override {
    ++n_answers_;
    if (status < 200 || status > 599) found("a status that is none");
    for (const auto& [name, value] : headers) {
      if (name == "content-type" && value == "application/json") {
        boost::json::error_code error;
        boost::json::parse(body, error);
        if (error) found("a body that is not JSON");
      }
    }
  }
  void start_stream(int, Fields) override { found("a stream without work"); }
  bool write(std::string) override { return false; }
  void end() override {}
  void on_client_gone(std::function<void()>) override {}

 private:
  int& n_answers_;
};

struct Fixture {
  Fixture() : log({false, false, false}), service(make_options()), app(service, {}, log, 0) {
    auto pool = std::make_unique<ThreadPool>(ThreadPool::Options{1, {}, 0});
    LoadedModel model;
    model.bundle = engine::load_bundle(MUNIA_SOURCE_DIR "/tests/models/qwen2-tied-bf16", {}, *pool);
    engine =
        std::make_unique<engine::Engine>(model.bundle, std::move(pool), engine::EngineOptions{});
    model.engine = engine.get();
    model.id = "fuzz";
    service.set_model(std::move(model));
  }
  static ServiceOptions make_options() {
    ServiceOptions options;
    options.admission = {0, 0, 1, 1};  // no slot, no queue
    options.default_task = tasks::builtin_task("sentiment").value_or_throw();
    return options;
  }
  Log log;
  std::unique_ptr<engine::Engine> engine;
  Service service;
  App app;
};

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return line;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Fixture fixture;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Request request;
  const std::string_view first = take_line(text);
  const std::size_t space = first.find(' ');
  request.method = first.substr(0, space);
  if (space != std::string_view::npos) request.target = first.substr(space + 1);
  for (std::string_view line = take_line(text); !line.empty(); line = take_line(text)) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos) continue;
    request.headers.emplace_back(line.substr(0, colon), line.substr(colon + 2));
  }
  request.body = text;
  request.id = make_request_id(request.header("x-request-id"));
  request.arrived = Clock::now();
  int n_answers = 0;
  fixture.app.handle(std::move(request), std::make_shared<Answer>(n_answers));
  if (n_answers != 1) found("not one answer");
  return 0;
}
