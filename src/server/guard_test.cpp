#include "server/guard.h"

#include <gtest/gtest.h>

namespace munia::server {
namespace {

Request request(std::string method, Fields headers) {
  Request out;
  out.method = std::move(method);
  out.path = "/chat";
  out.headers = std::move(headers);
  return out;
}

int status(const Guard& guard, const Request& asked, bool is_public = false) {
  const auto error = guard.check(asked, is_public);
  return error ? error->status : 200;
}

TEST(Guard, HostNames) {
  const Guard guard({{}, {}, {"box.lan", "Other.LAN"}});
  for (const char* host :
       {"localhost", "localhost:8080", "LOCALHOST.", "127.0.0.1:1", "[::1]:8080", "[::1]",
        "192.168.1.7:80", "a.localhost", "box.lan", "Box.LAN:99", "other.lan"}) {
    EXPECT_EQ(status(guard, request("GET", {{"host", host}})), 200) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "",
                           "box.lan.evil", "[", "[::1", "::1", "xbox.lan"}) {
    EXPECT_NE(status(guard, request("GET", {{"host", host}})), 200) << host;
  }
  EXPECT_EQ(status(guard, request("GET", {})), 400);
  EXPECT_EQ(status(guard, request("GET", {{"host", "localhost"}, {"host", "localhost"}})), 400);
  Request by_unix = request("GET", {});
  by_unix.is_unix = true;
  EXPECT_EQ(status(guard, by_unix), 200);
  EXPECT_EQ(status(Guard({{}, {}, {"*"}}), request("GET", {{"host", "any"}})), 200);
}

TEST(Guard, Origins) {
  const Guard guard({{}, {"https://app.example"}, {"box.lan"}});
  const auto of = [&guard](const char* host, const char* origin) {
    return status(guard, request("GET", {{"host", host}, {"origin", origin}}));
  };
  EXPECT_EQ(of("localhost:8080", "http://localhost:5173"), 200);
  EXPECT_EQ(of("localhost:8080", "http://127.0.0.1:1"), 200);
  EXPECT_EQ(of("box.lan:8080", "http://box.lan:8080"), 200);
  EXPECT_EQ(of("box.lan:8080", "http://box.lan:8081"), 403);
  EXPECT_EQ(of("localhost:8080", "https://app.example"), 200);
  for (const char* origin : {"http://app.example", "https://app.example.evil", "null", "",
                             "https://evil.example", "http://localhost.evil.example"}) {
    EXPECT_EQ(of("localhost:8080", origin), 403) << origin;
  }
}

TEST(Guard, CrossSiteWithoutOrigin) {
  const Fields image = {{"host", "localhost"}, {"sec-fetch-site", "cross-site"}};
  EXPECT_EQ(status(Guard({}), request("GET", image)), 403);
  EXPECT_EQ(status(Guard({{}, {"*"}, {}}), request("GET", image)), 200);
  Request link = request(
      "GET",
      {{"host", "localhost"}, {"sec-fetch-site", "cross-site"}, {"sec-fetch-dest", "document"}});
  EXPECT_EQ(status(Guard({}), link), 403);
  link.path = "/";
  EXPECT_EQ(status(Guard({}), link), 200);
  EXPECT_EQ(
      status(Guard({}), request("GET", {{"host", "localhost"}, {"sec-fetch-site", "same-origin"}})),
      200);
}

TEST(Guard, Keys) {
  const Guard guard({{"one", "two"}, {}, {}});
  const auto with = [&guard](const char* authorization) {
    return status(guard, request("GET", {{"host", "localhost"}, {"authorization", authorization}}));
  };
  EXPECT_EQ(with("Bearer one"), 200);
  EXPECT_EQ(with("bearer two"), 200);
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer on", "Bearer one ", "Basic one", "one",
                            "Bearer oneBearer two"}) {
    EXPECT_EQ(with(wrong), 401) << wrong;
  }
  EXPECT_EQ(status(guard, request("GET", {{"host", "localhost"}})), 401);
  EXPECT_EQ(status(guard, request("GET", {{"host", "localhost"}}), true), 200);
}

TEST(Guard, PostsAreJson) {
  const auto of = [](const char* type) {
    return status(Guard({}), request("POST", {{"host", "localhost"}, {"content-type", type}}));
  };
  EXPECT_EQ(of("application/json"), 200);
  EXPECT_EQ(of("Application/JSON ; charset=utf-8"), 200);
  for (const char* type : {"", "text/plain", "application/jsonx", "text/plain; application/json"}) {
    EXPECT_EQ(of(type), 415) << type;
  }
}

TEST(Guard, CorsHeadersOnlyForAllowedOrigins) {
  const Guard guard({{}, {"https://app.example"}, {}});
  const Fields allowed = guard.cors_headers(
      request("GET", {{"host", "localhost"}, {"origin", "https://app.example"}}));
  ASSERT_FALSE(allowed.empty());
  EXPECT_EQ(allowed[0].second, "https://app.example");
  EXPECT_TRUE(
      guard.cors_headers(request("GET", {{"host", "localhost"}, {"origin", "https://evil"}}))
          .empty());
  EXPECT_TRUE(guard.cors_headers(request("GET", {{"host", "localhost"}})).empty());
}

}  // namespace
}  // namespace munia::server
