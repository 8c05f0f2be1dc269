// Targets, request ids, routing, events and errors: the parts of the room that need no socket.
#include "server/http.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <set>

#include "server/errors.h"
#include "server/router.h"
#include "server/sse.h"

namespace munia::server {
namespace {

TEST(Target, PathAndQueryAreDecoded) {
  Request request;
  ASSERT_TRUE(parse_target("/stream?q=%E5%A5%BD+a%2Bb&max_tokens=3&flag&=x&&", request));
  EXPECT_EQ(request.path, "/stream");
  EXPECT_EQ(request.query_value("q"), "好 a+b");
  EXPECT_EQ(request.query_value("max_tokens"), "3");
  EXPECT_EQ(request.query_value("flag"), "");
  EXPECT_EQ(request.query_value("none"), std::nullopt);
  EXPECT_EQ(request.target, "/stream?q=%E5%A5%BD+a%2Bb&max_tokens=3&flag&=x&&");
}

TEST(Target, PlusInAPathIsAPlus) {
  Request request;
  ASSERT_TRUE(parse_target("/a+b#c?d=e", request));
  EXPECT_EQ(request.path, "/a+b");
  EXPECT_TRUE(request.query.empty());
}

TEST(Target, ProxyFormLosesItsHost) {
  Request request;
  ASSERT_TRUE(parse_target("http://example:80/chat?x=http://y", request));
  EXPECT_EQ(request.path, "/chat");
  EXPECT_EQ(request.query_value("x"), "http://y");
  ASSERT_TRUE(parse_target("http://example", request));
  EXPECT_EQ(request.path, "/");
}

TEST(Target, BrokenEscapesAreRefused) {
  Request request;
  for (const char* target : {"/%", "/%1", "/%zz", "/a?b=%g0", "/a?%", "/%%20"}) {
    EXPECT_FALSE(parse_target(target, request)) << target;
  }
}

TEST(RequestId, SensibleOnesAreKept) {
  EXPECT_EQ(make_request_id("abc-1._Z"), "abc-1._Z");
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("a\r\nx: y"), std::string(129, 'a')}) {
    EXPECT_NE(make_request_id(bad), bad);
  }
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(make_request_id());
  EXPECT_EQ(ids.size(), 1000U);
}

TEST(Headers, AreFoundAndCounted) {
  Request request;
  request.headers = {{"host", "a"}, {"accept", "b"}, {"host", "c"}};
  EXPECT_EQ(request.header("host"), "a");
  EXPECT_EQ(request.count_headers("host"), 2U);
  EXPECT_EQ(request.header("none"), std::nullopt);
}

Router make_router() {
  Router router;
  const Handler nothing = [](Service&, const ExchangePtr&) {};
  router.add({"GET", "/", nothing});
  router.add({"GET", "/v1/models", nothing});
  router.add({"GET", "/v1/models/*", nothing});
  router.add({"POST", "/chat", nothing});
  return router;
}

TEST(Router, FindsRoutes) {
  const Router router = make_router();
  EXPECT_EQ(router.match("GET", "/").route->pattern, "/");
  EXPECT_EQ(router.match("HEAD", "/").route->pattern, "/");
  EXPECT_EQ(router.match("GET", "/v1/models").route->pattern, "/v1/models");
  const Router::Match match = router.match("GET", "/v1/models/qwen/0.5b");
  EXPECT_EQ(match.route->pattern, "/v1/models/*");
  EXPECT_EQ(match.rest, "qwen/0.5b");
}

TEST(Router, TellsWhatIsAllowed) {
  const Router router = make_router();
  EXPECT_EQ(router.match("GET", "/chat").allowed, "POST, OPTIONS");
  EXPECT_EQ(router.match("DELETE", "/").allowed, "GET, HEAD, OPTIONS");
  for (const char* path : {"/chat/", "/Chat", "", "/v1/models/", "//", "/v1"}) {
    const Router::Match match = router.match("GET", path);
    EXPECT_EQ(match.route, nullptr) << path;
    EXPECT_EQ(match.allowed, "") << path;
  }
}

TEST(Sse, AnEventIsOneLine) {
  EXPECT_EQ(sse_event(R"({"token":"a"})"), "data: {\"token\":\"a\"}\n\n");
  EXPECT_EQ(sse_event("{\n\"a\":1\r\n}"), "data: { \"a\":1  }\n\n");
  EXPECT_EQ(kSseDone, "data: [DONE]\n\n");
  EXPECT_EQ(sse_headers()[0].second, "text/event-stream; charset=utf-8");
}

TEST(Errors, HaveOneEnvelope) {
  EXPECT_EQ(error_body(bad_request("no \"x\"", "x", "missing")),
            R"({"error":{"message":"no \"x\"","type":"invalid_request_error","param":"x",)"
            R"("code":"missing"}})");
  EXPECT_EQ(error_body(busy_error("full", 7)),
            R"({"error":{"message":"full","type":"rate_limit_error","param":null,)"
            R"("code":"queue_full"}})");
  EXPECT_EQ(busy_error("full", 7).headers, (Fields{{"retry-after", "7"}}));
  EXPECT_EQ(deadline_error("late").headers, (Fields{{"x-should-retry", "false"}}));
}

TEST(Errors, BytesThatAreNotUtf8AreReplaced) {
  const std::string body = error_body(bad_request("bad \xff name\n", "\xc3"));
  boost::json::error_code error;
  const boost::json::value value = boost::json::parse(body, error);
  ASSERT_FALSE(error) << body;
  EXPECT_EQ(value.at("error").at("message").as_string(), "bad \xEF\xBF\xBD name\n");
  EXPECT_EQ(body.find('\n'), std::string::npos);
}

TEST(Errors, CodesHaveTheirStatus) {
  const auto status = [](ErrorCode code) { return to_api_error(Error{code, "x"}).status; };
  EXPECT_EQ(status(ErrorCode::kInvalidArgument), 400);
  EXPECT_EQ(status(ErrorCode::kInvalidData), 400);
  EXPECT_EQ(status(ErrorCode::kLimit), 400);
  EXPECT_EQ(status(ErrorCode::kNotFound), 404);
  EXPECT_EQ(status(ErrorCode::kUnsupported), 400);
  EXPECT_EQ(status(ErrorCode::kDeadline), 503);
  EXPECT_EQ(status(ErrorCode::kUnavailable), 503);
  EXPECT_EQ(status(ErrorCode::kIo), 500);
  EXPECT_EQ(to_api_error(Error{ErrorCode::kLimit, "x"}, "text").code, "context_length_exceeded");
}

}  // namespace
}  // namespace munia::server
