// The page's answers: file, encoding, conditional requests and headers. Runs with and without an
// embedded page; what needs the page says so where it skips.
#include "server/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace munia::server {
namespace {

std::string header(const PageAnswer& answer, std::string_view name) {
  for (const auto& [key, value] : answer.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST(Page, GzipIsSentToThoseWhoAskForIt) {
  EXPECT_TRUE(accepts_gzip("gzip"));
  EXPECT_TRUE(accepts_gzip("gzip, deflate, br, zstd"));
  EXPECT_TRUE(accepts_gzip("br;q=1.0, GZIP;q=0.8"));
  EXPECT_TRUE(accepts_gzip("*"));
  EXPECT_FALSE(accepts_gzip(""));
  EXPECT_FALSE(accepts_gzip("identity"));
  EXPECT_FALSE(accepts_gzip("br"));
  EXPECT_FALSE(accepts_gzip("gzip;q=0"));
  EXPECT_FALSE(accepts_gzip("*, gzip; q=0.000"));
  EXPECT_FALSE(accepts_gzip("*;q=0"));
  EXPECT_FALSE(accepts_gzip(",,;;=,"));
}

TEST(Page, EtagsAreComparedWeakly) {
  EXPECT_TRUE(matches_etag("\"a\"", "\"a\""));
  EXPECT_TRUE(matches_etag("\"b\", W/\"a\"", "\"a\""));
  EXPECT_TRUE(matches_etag(" * ", "\"a\""));
  EXPECT_FALSE(matches_etag("", "\"a\""));
  EXPECT_FALSE(matches_etag("a", "\"a\""));
  EXPECT_FALSE(matches_etag("\"aa\"", "\"a\""));
}

TEST(Page, PolicyAllowsOnlyTheOwnServer) {
  const std::string policy(kContentSecurityPolicy);
  for (const char* forbidden : {"unsafe-inline", "unsafe-eval", "http:", "https:", "data:", "*"}) {
    EXPECT_EQ(policy.find(forbidden), std::string::npos) << forbidden;
  }
  EXPECT_EQ(policy.rfind("default-src 'none'", 0), 0u);
}

TEST(Page, WhatIsNotOfThePageIsLeftToTheRouter) {
  EXPECT_FALSE(page_answer("/nothing", "", ""));
  EXPECT_FALSE(page_answer("/../index.html", "", ""));
  EXPECT_FALSE(page_answer("", "", ""));
}

TEST(Page, WithoutThePageTheStartTellsHowToGetIt) {
  if (!page_files().empty()) GTEST_SKIP() << "this program was built with the page";
  const auto answer = page_answer("/", "gzip", "");
  ASSERT_TRUE(answer);
  EXPECT_EQ(header(*answer, "content-security-policy"), kContentSecurityPolicy);
  EXPECT_NE(answer->body.find("make serve"), std::string_view::npos);
}

TEST(Page, EmbeddedFilesAreAnswered) {
  if (page_files().empty()) GTEST_SKIP() << "this program was built without the page (make web)";
  EXPECT_TRUE(std::is_sorted(page_files().begin(), page_files().end(),
                             [](const auto& a, const auto& b) { return a.path < b.path; }));
  for (const PageFile& file : page_files()) {
    const auto plain = page_answer(file.path, "", "");
    ASSERT_TRUE(plain) << file.path;
    EXPECT_EQ(plain->status, 200);
    EXPECT_EQ(plain->body, file.plain);
    EXPECT_EQ(header(*plain, "content-encoding"), "");
    EXPECT_EQ(header(*plain, "content-type"), file.content_type);
    EXPECT_EQ(header(*plain, "content-security-policy"), kContentSecurityPolicy);
    EXPECT_EQ(header(*plain, "x-content-type-options"), "nosniff");

    const auto packed = page_answer(file.path, "gzip, br", "\"other\"");
    ASSERT_TRUE(packed);
    EXPECT_EQ(packed->body.substr(0, 2), "\x1f\x8b") << file.path;
    EXPECT_EQ(header(*packed, "content-encoding"), "gzip");

    const auto unchanged = page_answer(file.path, "gzip", file.etag);
    ASSERT_TRUE(unchanged);
    EXPECT_EQ(unchanged->status, 304);
    EXPECT_TRUE(unchanged->body.empty());
    EXPECT_EQ(header(*unchanged, "etag"), file.etag);
    const bool hashed = file.path.starts_with("/assets/");
    EXPECT_EQ(header(*unchanged, "cache-control").find("immutable") != std::string::npos, hashed);
  }
  const auto start = page_answer("/", "", "");
  ASSERT_TRUE(start);
  EXPECT_EQ(start->body, page_answer("/index.html", "", "")->body);
  EXPECT_NE(start->body.find("<!doctype html>"), std::string_view::npos);
  EXPECT_EQ(header(*start, "content-type"), "text/html; charset=utf-8");
}

}  // namespace
}  // namespace munia::server
