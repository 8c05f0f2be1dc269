// One file from servers that behave badly: what is waited for, resumed, begun again, refused; where
// the token goes; and what the messages may show.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <fstream>

#include "base/mapped_file.h"
#include "base/sha256.h"
#include "hub/fetch.h"
#include "hub/listing.h"
#include "hub/repository.h"
#include "hub/test_server.h"
#include "hub/transfer.h"

namespace munia::hub {
namespace {

std::string sha256_of(const std::string& text) {
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

class FaultTest : public testing::Test {
 protected:
  FaultTest() {
    setenv("no_proxy", "*", 1);  // the machine's proxy cannot reach this process
    options_.retry_wait_ms = 1;
    callbacks_.on_note = [this](const std::string& text) { notes_ += text + "\n"; };
    for (std::size_t i = 0; i < body_.size(); ++i) body_[i] = static_cast<char>(i * i >> 7);
  }
  FetchRequest request(const TestServer& server) {
    FetchRequest request;
    request.url = server.url() + "/f";
    request.part_path = dir_.path() / "f.part";
    request.ready_path = dir_.path() / "f";
    request.shown_name = "f";
    return request;
  }
  FetchReply fetch(const FetchRequest& wanted) {
    auto reply = fetch_file(wanted, options_, callbacks_);
    EXPECT_TRUE(reply) << (reply ? "" : reply.error().message);
    return reply ? *reply : FetchReply{FetchState::kNoAnswer, reply.error().message};
  }
  std::string fetched() {
    auto text = read_file((dir_.path() / "f").string(), 1 << 24);
    return text ? *text : "(no file)";
  }
  // As a killed pull leaves it.
  void write_part(const FetchRequest& wanted, const std::string& bytes, const std::string& etag) {
    std::ofstream(wanted.part_path, std::ios::binary) << bytes;
    if (!etag.empty()) std::ofstream(etag_path(wanted)) << etag_text(wanted, etag);
  }

  TempDir dir_;
  HubOptions options_;
  PullCallbacks callbacks_;
  std::string notes_;
  std::string body_ = std::string(300000, '\0');
};

TEST_F(FaultTest, ABusyServerIsWaitedFor) {
  for (const int code : {429, 503}) {
    int n_requests = 0;
    TestServer server([&](const TestRequest&) {
      return ++n_requests == 1 ? reply(code, "", "Retry-After: 1\r\n") : reply(200, body_);
    });
    notes_.clear();
    EXPECT_EQ(fetch(request(server)).state, FetchState::kDone);
    EXPECT_EQ(fetched(), body_);
    EXPECT_NE(notes_.find("trying again in 1 s"), std::string::npos) << notes_;
  }
}

TEST_F(FaultTest, ARetryDateIsUnderstood) {
  int n_requests = 0;
  TestServer server([&](const TestRequest&) {
    if (++n_requests > 1) return reply(200, body_);
    char date[64];
    const std::time_t soon = std::time(nullptr) + 2;
    std::tm parts{};
    std::strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&soon, &parts));
    return reply(503, "", std::string("Retry-After: ") + date + "\r\n");
  });
  EXPECT_EQ(fetch(request(server)).state, FetchState::kDone);
}

TEST_F(FaultTest, TooLongAWaitIsToldNotTaken) {
  TestServer server([](const TestRequest&) { return reply(429, "", "Retry-After: 3600\r\n"); });
  const FetchReply refused = fetch(request(server));
  EXPECT_EQ(refused.state, FetchState::kRefused);
  EXPECT_NE(refused.reason.find("3600 s"), std::string::npos) << refused.reason;
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST_F(FaultTest, WaitingEndsAtACancel) {
  TestServer server([](const TestRequest&) { return reply(429, "", "Retry-After: 100\r\n"); });
  callbacks_.cancelled = [&] { return !notes_.empty(); };
  auto result = fetch_file(request(server), options_, callbacks_);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
}

TEST_F(FaultTest, ABusyServerIsNotAskedForever) {
  TestServer server([](const TestRequest&) { return reply(429, ""); });
  EXPECT_EQ(fetch(request(server)).state, FetchState::kRefused);
  EXPECT_EQ(server.requests().size(), 4U);
}

TEST_F(FaultTest, AnErrorInTheMiddleOfAPullIsTriedAgain) {
  int n_requests = 0;
  TestServer server(
      [&](const TestRequest&) { return ++n_requests < 3 ? reply(502, "") : reply(200, body_); });
  FetchRequest first = request(server);
  EXPECT_EQ(fetch(first).state, FetchState::kNoAnswer);  // a hub that is down is asked once
  EXPECT_EQ(n_requests, 1);
  first.patient = true;
  EXPECT_EQ(fetch(first).state, FetchState::kDone);
}

TEST_F(FaultTest, ManyBreaksAreSurvivedAsLongAsTheFileGrows) {
  body_.assign(std::size_t{9} << 20, 'x');
  for (std::size_t i = 0; i < body_.size(); i += 4096) body_[i] = static_cast<char>(i >> 12);
  TestServer server([&](const TestRequest& r) {
    const std::string whole = ranged_reply(r, body_, "ETag: \"v1\"\r\n");
    return whole.substr(0, std::min<std::size_t>(whole.size(), 1300000));
  });
  EXPECT_EQ(fetch(request(server)).state, FetchState::kDone);
  EXPECT_EQ(fetched(), body_);
  EXPECT_GT(server.requests().size(), 6U);
}

TEST_F(FaultTest, AServerThatAlwaysBreaksAtTheSamePlaceIsGivenUp) {
  // No ETag and no hash: every try begins again and breaks at 30%.
  TestServer server([&](const TestRequest& r) {
    return ranged_reply(r, body_).substr(0, body_.size() * 3 / 10);
  });
  const FetchReply broken = fetch(request(server));
  EXPECT_EQ(broken.state, FetchState::kBrokenOff);
  EXPECT_EQ(server.requests().size(), 4U);
}

TEST_F(FaultTest, AFileThatChangedIsBegunAgain) {
  // The same length, other bytes, another tag: the server answers If-Range with the whole.
  const std::string old = std::string(body_.size(), 'o');
  TestServer server([&](const TestRequest& r) {
    const bool same = r.headers.contains("if-range") && r.headers.at("if-range") == "\"new\"";
    return same ? ranged_reply(r, body_, "ETag: \"new\"\r\n")
                : reply(200, body_, "ETag: \"new\"\r\n");
  });
  for (const std::size_t n_old : {old.size() / 3, old.size()}) {
    write_part(request(server), old.substr(0, n_old), "\"old\"");
    EXPECT_EQ(fetch(request(server)).state, FetchState::kDone);
    EXPECT_EQ(fetched(), body_) << n_old;
  }
}

TEST_F(FaultTest, AServerThatContinuesAnotherFileIsNoticed) {
  // It ignores If-Range and continues with the new file's bytes.
  TestServer server(
      [&](const TestRequest& r) { return ranged_reply(r, body_, "ETag: \"new\"\r\n"); });
  write_part(request(server), std::string(1000, 'o'), "\"old\"");
  EXPECT_EQ(fetch(request(server)).state, FetchState::kDone);
  EXPECT_EQ(fetched(), body_);
}

TEST_F(FaultTest, ARangeWithoutAnEtagIsNotJoined) {
  // It ignores If-Range and says nothing of the file that it continues, or of whose end it speaks.
  TestServer server([&](const TestRequest& r) { return ranged_reply(r, body_); });
  for (const std::size_t n_old : {std::size_t{1000}, body_.size()}) {
    write_part(request(server), std::string(n_old, 'o'), "\"old\"");
    EXPECT_EQ(fetch(request(server)).state, FetchState::kDone);
    EXPECT_EQ(fetched(), body_) << n_old;
  }
  // With a hash the whole is checked: what came is not thrown away.
  const std::size_t n_before = server.requests().size();
  FetchRequest wanted = request(server);
  wanted.sha256 = sha256_of(body_);
  write_part(wanted, body_.substr(0, 1000), "\"old\"");
  EXPECT_EQ(fetch(wanted).state, FetchState::kDone);
  EXPECT_EQ(fetched(), body_);
  EXPECT_EQ(server.requests().size(), n_before + 1);
}

TEST_F(FaultTest, AnEtagOfAnotherAddressSaysNothing) {
  // Counters as tags: two files of one server may have the same.
  TestServer server(
      [&](const TestRequest& r) { return ranged_reply(r, body_, "ETag: \"1\"\r\n"); });
  FetchRequest other = request(server);
  other.url = server.url() + "/other/f";
  for (const std::size_t n_old : {std::size_t{1000}, body_.size()}) {
    write_part(other, std::string(n_old, 'o'), "\"1\"");
    EXPECT_EQ(fetch(request(server)).state, FetchState::kDone);
    EXPECT_EQ(fetched(), body_) << n_old;
  }
  // As earlier versions wrote it: of no known address.
  write_part(other, std::string(1000, 'o'), "");
  std::ofstream(etag_path(other)) << "\"1\"";
  EXPECT_EQ(fetch(request(server)).state, FetchState::kDone);
  EXPECT_EQ(fetched(), body_);
}

TEST_F(FaultTest, AFileBegunAnewWithoutAnEtagHasNoneKept) {
  // The second file comes without a tag and breaks off; the third has the first's again.
  int n_requests = 0;
  const std::string second(body_.size(), 's');
  TestServer server([&](const TestRequest& r) {
    if (++n_requests == 1) return reply(200, second).substr(0, 100000);
    return ranged_reply(r, body_, "ETag: \"1\"\r\n");
  });
  write_part(request(server), body_.substr(0, 1000), "\"1\"");
  EXPECT_EQ(fetch(request(server)).state, FetchState::kDone);
  EXPECT_EQ(fetched(), body_);
}

TEST_F(FaultTest, TheKeptEtagHoldsNoSecretOfItsAddress) {
  TestServer server([&](const TestRequest& r) {
    return ranged_reply(r, body_, "ETag: \"1\"\r\n").substr(0, 100000);
  });
  FetchRequest wanted = request(server);
  wanted.url += "?signature=s3cret";
  callbacks_.cancelled = [&] { return !notes_.empty(); };
  EXPECT_FALSE(fetch_file(wanted, options_, callbacks_));
  EXPECT_EQ(kept_etag(wanted), "\"1\"");
  const std::string text = *read_file(etag_path(wanted).string(), 1000);
  EXPECT_EQ(text.find("s3cret"), std::string::npos) << text;
}

TEST_F(FaultTest, ARangeFromAnotherPlaceIsNotTaken) {
  TestServer server([&](const TestRequest& r) {
    if (r.range_begin() == 0) return reply(200, body_, "ETag: \"v\"\r\n");
    return reply(206, body_.substr(10), "ETag: \"v\"\r\nContent-Range: bytes 10-299999/300000\r\n");
  });
  write_part(request(server), body_.substr(0, 1000), "\"v\"");
  EXPECT_EQ(fetch(request(server)).state, FetchState::kDone);
  EXPECT_EQ(fetched(), body_);
}

TEST_F(FaultTest, A416AtAWholePartNeedsNoSecondDownload) {
  TestServer server(
      [&](const TestRequest& r) { return ranged_reply(r, body_, "ETag: \"v\"\r\n"); });
  write_part(request(server), body_, "\"v\"");
  EXPECT_EQ(fetch(request(server)).state, FetchState::kDone);
  EXPECT_EQ(fetched(), body_);
  EXPECT_EQ(server.requests().size(), 1U);
  // Whole in length but wrong in bytes: begun again.
  FetchRequest wanted = request(server);
  wanted.sha256 = sha256_of(body_);
  write_part(wanted, std::string(body_.size(), 'w'), "");
  EXPECT_EQ(fetch(wanted).state, FetchState::kDone);
  EXPECT_EQ(fetched(), body_);
}

TEST_F(FaultTest, WrongBytesAtTheKnownLengthAreBegunAgain) {
  TestServer server([&](const TestRequest& r) { return ranged_reply(r, body_); });
  FetchRequest wanted = request(server);
  wanted.sha256 = sha256_of(body_);
  wanted.size_bytes = body_.size();
  write_part(wanted, std::string(body_.size(), 'w'), "");
  EXPECT_EQ(fetch(wanted).state, FetchState::kDone);
  EXPECT_EQ(fetched(), body_);
}

TEST_F(FaultTest, LengthsThatLie) {
  // More than promised: the rest is not read. Less: broken off. Neither length, framing nor hash:
  // nobody can say whether it is whole.
  std::string head = "Content-Length: 1000\r\n";
  TestServer server([&](const TestRequest&) {
    return "HTTP/1.1 200 X\r\nConnection: close\r\n" + head + "\r\n" + body_.substr(0, 5000);
  });
  FetchRequest wanted = request(server);
  EXPECT_EQ(fetch(wanted).state, FetchState::kDone);
  EXPECT_EQ(fetched(), body_.substr(0, 1000));
  wanted.size_bytes = 5000;  // known from elsewhere: then the promise itself is wrong
  EXPECT_EQ(fetch(wanted).state, FetchState::kWrongBytes);
  wanted.size_bytes = 0;
  head = "Content-Length: 6000\r\n";
  EXPECT_EQ(fetch(wanted).state, FetchState::kBrokenOff);
  head = "";
  const FetchReply unsure = fetch(wanted);
  EXPECT_EQ(unsure.state, FetchState::kWrongBytes);
  EXPECT_NE(unsure.reason.find("neither the length nor the hash"), std::string::npos);
  wanted.sha256 = sha256_of(body_.substr(0, 5000));
  EXPECT_EQ(fetch(wanted).state, FetchState::kDone);
  wanted.sha256.clear();
  wanted.max_bytes = 4000;
  EXPECT_EQ(fetch(wanted).state, FetchState::kWrongBytes);
}

TEST_F(FaultTest, ALoginPageIsNoFileAndSpoilsNothing) {
  TestServer server(
      [](const TestRequest&) { return reply(200, "\n<!DOCTYPE HTML><title>Sign in</title>"); });
  FetchRequest wanted = request(server);
  wanted.sha256 = sha256_of(body_);
  write_part(wanted, body_.substr(0, 1000), "");
  const FetchReply page = fetch(wanted);
  EXPECT_EQ(page.state, FetchState::kWrongBytes);
  EXPECT_NE(page.reason.find("web page"), std::string::npos) << page.reason;
  EXPECT_EQ(fs::file_size(dir_.path() / "f.part"), 1000U);  // of the earlier pull, still good
}

TEST_F(FaultTest, AServerThatStopsSendingIsLeft) {
  options_.stall_timeout_s = 1;
  // A server that accepts and says nothing at all: one that never calls accept().
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 4), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  TestServer unused([](const TestRequest&) { return std::string(); });
  FetchRequest wanted = request(unused);
  wanted.url = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/f";
  EXPECT_EQ(fetch(wanted).state, FetchState::kNoAnswer);
  close(listener);
}

TEST_F(FaultTest, TheTokenStaysWithItsHost) {
  TestServer other([&](const TestRequest&) { return reply(200, body_); });
  TestServer hub([&](const TestRequest&) {
    return reply(302, "", "Location: " + other.url() + "/signed?key=s3cret\r\n");
  });
  FetchRequest wanted = request(hub);
  wanted.token = "hf_secret";
  EXPECT_EQ(fetch(wanted).state, FetchState::kDone);
  ASSERT_EQ(hub.requests().size(), 1U);
  EXPECT_EQ(hub.requests()[0].headers.at("authorization"), "Bearer hf_secret");
  ASSERT_EQ(other.requests().size(), 1U);
  EXPECT_FALSE(other.requests()[0].headers.contains("authorization"));
}

TEST_F(FaultTest, NeitherTokenNorSignatureIsInAnyMessage) {
  TestServer server([](const TestRequest&) { return reply(403, ""); });
  FetchRequest wanted = request(server);
  wanted.url = "http://user:pa55@" + server.url().substr(7) + "/f?sig=s3cret#part";
  wanted.token = "hf_secret";
  const FetchReply refused = fetch(wanted);
  EXPECT_EQ(refused.state, FetchState::kRefused);
  for (const char* secret : {"pa55", "s3cret", "hf_secret", "user"}) {
    EXPECT_EQ(refused.reason.find(secret), std::string::npos) << refused.reason;
  }
  EXPECT_NE(refused.reason.find(server.url() + "/f"), std::string::npos) << refused.reason;
}

TEST(Addresses, AreShownWithoutSecrets) {
  EXPECT_EQ(shown_address("https://u:p@h.example/a/b?x=1#y"), "https://h.example/a/b");
  EXPECT_EQ(shown_address("https://u:p@h.example"), "https://h.example");
  EXPECT_EQ(shown_address("https://h.example/a@b"), "https://h.example/a@b");
  EXPECT_EQ(shown_address("http://h/\x1b[31m"), "http://h/?[31m");
  EXPECT_EQ(shown("https://u:p@h.example/a?x=1"), "\"https://h.example/a\"");
}

TEST(Addresses, BelongToAnEndpointOnlyBelowIt) {
  EXPECT_TRUE(is_below("https://hub.example/o/m/f", "https://hub.example"));
  EXPECT_TRUE(is_below("https://hub.example/mirror/o", "https://hub.example/mirror/"));
  EXPECT_FALSE(is_below("https://hub.example.evil/o", "https://hub.example"));
  EXPECT_FALSE(is_below("https://hub.example@evil/o", "https://hub.example"));
  EXPECT_FALSE(is_below("http://hub.example/o", "https://hub.example"));
  EXPECT_FALSE(is_below("https://hub.example/other", "https://hub.example/mirror"));
}

TEST(Listings, OfBothHubs) {
  const std::string sha(64, 'a');
  const std::string commit(40, 'c');
  const auto hf = parse_hf_listing(R"({"sha":")" + commit + R"(","cardData":{"license":"mit"},
    "siblings":[{"rfilename":"config.json","size":5,"blobId":"x"},
      {"rfilename":"w.safetensors","size":9,"lfs":{"sha256":")" +
                                   sha + R"(","size":9}},
      {"rfilename":"old.bin","lfs":{"oid":")" +
                                   sha + R"("}},{"size":1},7]})");
  ASSERT_TRUE(hf) << hf.error().message;
  EXPECT_EQ(hf->commit, commit);
  EXPECT_EQ(hf->licence, "mit");
  ASSERT_EQ(hf->files.size(), 3U);
  EXPECT_EQ(hf->find("config.json")->size_bytes, 5U);
  EXPECT_EQ(hf->find("config.json")->sha256, "");
  EXPECT_EQ(hf->find("w.safetensors")->sha256, sha);
  EXPECT_EQ(hf->find("old.bin")->sha256, sha);
  EXPECT_EQ(hf->find("none"), nullptr);
  const auto ms = parse_modelscope_listing(R"({"Code":200,"Data":{"Files":[
    {"Type":"tree","Path":"dir","Size":0},{"Type":"blob","Path":"config.json","Size":5,"Sha256":")" +
                                           sha + R"("}]}})");
  ASSERT_TRUE(ms);
  ASSERT_EQ(ms->files.size(), 1U);
  EXPECT_EQ(ms->find("config.json")->sha256, sha);
}

TEST(Listings, OfStrangersAreReadWithCare) {
  for (const char* text : {"", "[]", "{}", "<html>", R"({"siblings":{}})", R"({"Data":[]})"}) {
    EXPECT_FALSE(parse_hf_listing(text)) << text;
    EXPECT_FALSE(parse_modelscope_listing(text)) << text;
  }
  const auto odd = parse_hf_listing(
      R"({"sha":"../../x","cardData":{"license":"a\u001b[31m"},
          "siblings":[{"rfilename":"f","size":-1,"lfs":{"sha256":"ABC"}},{"rfilename":7}]})");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->commit, "");
  EXPECT_EQ(odd->licence, "");
  EXPECT_EQ(odd->files.size(), 1U);
  EXPECT_EQ(odd->find("f")->size_bytes, 0U);
  EXPECT_EQ(odd->find("f")->sha256, "");
}

}  // namespace
}  // namespace munia::hub
