// The application without a model and without a network: what is answered while loading and while
// shutting down, and what every answer carries.
#include "server/app.h"

#include <gtest/gtest.h>

namespace munia::server {
namespace {

struct Answer {
  int n = 0;
  int status = 0;
  Fields headers;
  std::string body;
  std::string header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return "";
  }
};

class Recorder : public Responder {
 public:
  explicit Recorder(Answer& answer) : answer_(answer) {}
  void send(int status, Fields headers, std::string body) override {
    answer_ = {answer_.n + 1, status, std::move(headers), std::move(body)};
  }
  void start_stream(int status, Fields headers) override {
    answer_ = {answer_.n + 1, status, std::move(headers), ""};
  }
  bool write(std::string piece) override {
    answer_.body += piece;
    return true;
  }
  void end() override { answer_.body += "<end>"; }
  void on_client_gone(std::function<void()>) override {}

 private:
  Answer& answer_;
};

class AppTest : public ::testing::Test {
 protected:
  static ServiceOptions options() {
    ServiceOptions options;
    options.admission = {1, 1, 1, 1};
    options.default_task = tasks::builtin_task("sentiment").value_or_throw();
    return options;
  }
  Answer ask(std::string method, std::string target, Fields more = {}) {
    Request request;
    request.method = std::move(method);
    request.target = std::move(target);
    request.headers = {{"host", "localhost"}, {"content-type", "application/json"}};
    request.headers.insert(request.headers.end(), more.begin(), more.end());
    request.body = R"({"text":"a","texts":["a"],"tokens":[1],"content":"a","messages":[]})";
    request.id = "id-1";
    request.arrived = Clock::now();
    Answer answer;
    app_.handle(std::move(request), std::make_shared<Recorder>(answer));
    EXPECT_EQ(answer.n, 1) << "each request has one answer";
    EXPECT_EQ(answer.header("x-request-id"), "id-1");
    return answer;
  }
  Log log_{{false, false, false}};
  Service service_{options()};
  App app_{service_, {}, log_, 0};
};

TEST_F(AppTest, WhileLoading) {
  EXPECT_EQ(ask("GET", "/health").status, 200);
  EXPECT_EQ(ask("GET", "/ready").status, 503);
  EXPECT_EQ(ask("GET", "/metrics").status, 200);
  EXPECT_EQ(ask("GET", "/stats").status, 200);
  EXPECT_EQ(ask("GET", "/").status, 200);
  for (const char* path :
       {"/predict", "/chat", "/classify", "/tokenize", "/detokenize", "/apply-template"}) {
    const Answer answer = ask("POST", path);
    EXPECT_EQ(answer.status, 503) << path;
    EXPECT_NE(answer.body.find("still loading"), std::string::npos) << path;
  }
  EXPECT_EQ(ask("GET", "/stream?q=a").status, 503);
}

TEST_F(AppTest, WhileDraining) {
  service_.drain();
  EXPECT_EQ(ask("GET", "/health").status, 200);
  EXPECT_EQ(ask("GET", "/ready").status, 503);
  EXPECT_NE(ask("POST", "/tokenize").body.find("shutting down"), std::string::npos);
}

TEST_F(AppTest, WrongAddresses) {
  EXPECT_EQ(ask("GET", "/none").status, 404);
  EXPECT_EQ(ask("GET", "/%zz").status, 400);
  EXPECT_EQ(ask("GET", "").status, 404);
  const Answer wrong_method = ask("DELETE", "/chat");
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_EQ(wrong_method.header("allow"), "POST, OPTIONS");
}

TEST_F(AppTest, EveryAnswerHasCorsHeaders) {
  for (const char* path : {"/health", "/none", "/ready"}) {
    EXPECT_EQ(
        ask("GET", path, {{"origin", "http://localhost:1"}}).header("access-control-allow-origin"),
        "http://localhost:1");
  }
}

TEST_F(AppTest, AnExceptionIsAnAnswer) {
  const Outcome outcome = guarded([]() -> Outcome { throw std::runtime_error("broken"); });
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->status, 500);
  const Outcome memory = guarded([]() -> Outcome { throw std::bad_alloc(); });
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->code, "out_of_memory");
}

TEST(Exchange, StreamsEventsAndEndsOnce) {
  Answer answer;
  Request request;
  request.id = "id-1";
  Record told;
  {
    Exchange exchange(request, std::make_shared<Recorder>(answer),
                      [&told](const Request&, const Record& record) { told = record; });
    exchange.set_route("/stream", "");
    EXPECT_FALSE(exchange.started());
    EXPECT_TRUE(exchange.event("{}"));
    EXPECT_TRUE(exchange.started());
    exchange.json(200, "late");
    exchange.done();
    exchange.done();
    EXPECT_FALSE(exchange.event("{}"));
  }
  EXPECT_EQ(answer.body, "data: {}\n\ndata: [DONE]\n\n<end>");
  EXPECT_EQ(told.route, "/stream");
  EXPECT_EQ(told.status, 200);
}

TEST(Exchange, AFailureInAStreamIsAnEvent) {
  Answer answer;
  Exchange exchange({}, std::make_shared<Recorder>(answer), nullptr);
  exchange.event("{}");
  exchange.fail(deadline_error("late"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body.ends_with("\"code\":\"deadline_exceeded\"}}\n\n<end>")) << answer.body;
  EXPECT_EQ(answer.body.find("[DONE]"), std::string::npos);
}

TEST(Exchange, NobodyIsLeftWithoutAnAnswer) {
  Answer answer;
  { const Exchange exchange({}, std::make_shared<Recorder>(answer), nullptr); }
  EXPECT_EQ(answer.status, 500);
}

}  // namespace
}  // namespace munia::server
