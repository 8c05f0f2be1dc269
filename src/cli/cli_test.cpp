// Parts of the command line that need no model: JSON numbers and strings, input lines, settings and
// their order, byte counts, statistics of labels, cgroup facts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <filesystem>
#include <fstream>
#include <limits>

#include "cli/exit_status.h"
#include "cli/input.h"
#include "cli/json_writer.h"
#include "cli/label_statistics.h"
#include "cli/self_check.h"
#include "cli/settings.h"
#include "cli/system_info.h"

namespace munia::cli {
namespace {

std::string json_number(auto number) { return JsonWriter().value(number).text(); }

TEST(JsonWriterTest, NumbersAreShortAndReadBack) {
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(json_number(0.1F), "0.1");
  EXPECT_EQ(json_number(3.0), "3");
  EXPECT_EQ(json_number(-12.5F), "-12.5");
  EXPECT_EQ(json_number(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(json_number(std::numeric_limits<float>::quiet_NaN()), "null");
  EXPECT_EQ(json_number(std::int64_t{-7}), "-7");
  EXPECT_EQ(json_number(true), "true");
}

TEST(JsonWriterTest, StringsAndNesting) {
  JsonWriter writer;
  writer.begin_object().field("a\"\n", "你\\").key("b").begin_array().value(1).begin_array();
  writer.end_array().null().end_array().key("c").begin_object().end_object().end_object();
  EXPECT_EQ(writer.text(), "{\"a\\\"\\n\":\"你\\\\\",\"b\":[1,[],null],\"c\":{}}");
  EXPECT_NO_THROW(boost::json::parse(writer.text()));
}

class Pipe {
 public:
  explicit Pipe(const std::string& content) {
    EXPECT_EQ(pipe(ends_), 0);
    EXPECT_EQ(write(ends_[1], content.data(), content.size()),
              static_cast<ssize_t>(content.size()));
    close(ends_[1]);
  }
  ~Pipe() { close(ends_[0]); }
  int fd() const { return ends_[0]; }

 private:
  int ends_[2];
};

std::vector<std::string> read_lines(const std::string& content,
                                    Encoding encoding = Encoding::kUtf8) {
  const Pipe pipe(content);
  LineReader reader(pipe.fd(), encoding, Lang(false));
  std::vector<std::string> lines;
  while (auto line = reader.next()) lines.push_back(*line);
  return lines;
}

TEST(LineReaderTest, LineEndsAndMarks) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(read_lines(""), Lines{});
  EXPECT_EQ(read_lines("\n"), Lines{""});
  EXPECT_EQ(read_lines("a\r\nb\n\nc"), (Lines{"a", "b", "", "c"}));
  EXPECT_EQ(read_lines("\xEF\xBB\xBF好\n\xEF\xBB\xBF好\n"), (Lines{"好", "\xEF\xBB\xBF好"}));
  EXPECT_EQ(read_lines("\xBA\xC3\n\xBB\xB5", Encoding::kGb18030), (Lines{"好", "坏"}));
}

std::string failure_of(const std::string& content, Encoding encoding = Encoding::kUtf8) {
  try {
    read_lines(content, encoding);
  } catch (const CommandFailure& failure) {
    EXPECT_EQ(failure.status(), ExitStatus::kBadInput);
    return failure.what();
  }
  return "";
}

TEST(LineReaderTest, FaultsNameLineAndByte) {
  EXPECT_NE(failure_of("ok\nab\xFF\n").find("line 2: byte 2 of the line (byte 5"),
            std::string::npos);
  EXPECT_NE(failure_of(std::string("a\0b", 3)).find("line 1: byte 1"), std::string::npos);
  EXPECT_NE(failure_of("ok\n\x81", Encoding::kGb18030).find("line 2: byte 0"), std::string::npos);
}

ReadEnvironment environment_of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(SettingsTest, FlagBeforeEnvironmentBeforeFileBeforeDefault) {
  const std::string path = testing::TempDir() + "munia_settings_test.toml";
  std::ofstream(path) << "threads = 3\nspin_us = 7\noffline = true\n";
  const auto environment = environment_of({{"MUNIA_CONFIG", path}, {"MUNIA_SPIN_US", "9"}});
  const Settings settings =
      Settings::resolve({{"context", "64"}}, std::nullopt, environment, Lang(false));
  EXPECT_EQ(settings.context(), 64);
  EXPECT_EQ(settings.origin_text("context"), "--context");
  EXPECT_EQ(settings.spin_us(), 9);
  EXPECT_EQ(settings.origin_text("spin_us"), "MUNIA_SPIN_US");
  EXPECT_EQ(settings.threads(), 3);
  EXPECT_EQ(settings.origin_text("threads"), path);
  EXPECT_TRUE(settings.offline());
  EXPECT_TRUE(settings.kv_cache());
  EXPECT_EQ(settings.origin_text("kv_cache"), "default");
  std::filesystem::remove(path);
}

TEST(SettingsTest, BadValuesFail) {
  const auto environment = environment_of({});
  for (const auto& [key, value] : std::map<std::string, std::string>{{"threads", "0"},
                                                                     {"threads", "x"},
                                                                     {"cpus", "a"},
                                                                     {"context", "-1"},
                                                                     {"max_memory", "2Q"},
                                                                     {"prefix_cache", "on"},
                                                                     {"weights", "int4"},
                                                                     {"kv_cache", "maybe"},
                                                                     {"encoding", "big5"},
                                                                     {"lang", "fr"},
                                                                     {"prefill_chunk", "0"}}) {
    EXPECT_THROW(Settings::resolve({{key, value}}, std::nullopt, environment, Lang(true)),
                 CommandFailure)
        << key;
  }
}

TEST(SettingsTest, Bytes) {
  EXPECT_EQ(parse_bytes("1500"), 1500U);
  EXPECT_EQ(parse_bytes("2G"), std::uint64_t{2} << 30);
  EXPECT_EQ(parse_bytes("3MiB"), std::uint64_t{3} << 20);
  for (const char* wrong : {"", "x", "-1", "1.5G", "2Q", "99999999999999999999", "99999999999G"}) {
    EXPECT_FALSE(parse_bytes(wrong)) << wrong;
  }
}

TEST(SettingsTest, LanguageOfTheEnvironment) {
  EXPECT_TRUE(detect_lang("", environment_of({{"LANG", "zh_CN.UTF-8"}})).zh());
  EXPECT_FALSE(detect_lang("", environment_of({{"LC_ALL", "C"}, {"LANG", "zh_CN.UTF-8"}})).zh());
  EXPECT_FALSE(detect_lang("en", environment_of({{"LANG", "zh_CN.UTF-8"}})).zh());
}

TEST(LabelStatisticsTest, KnownFigures) {
  LabelStatistics statistics(2);
  for (int i = 0; i < 8; ++i) statistics.add(0, 0);
  statistics.add(0, 1);
  statistics.add(0, 2);
  for (int i = 0; i < 5; ++i) statistics.add(1, 1);
  EXPECT_EQ(statistics.n_rows(), 15);
  EXPECT_EQ(statistics.n_correct(), 13);
  // F1: 2*8/(10+8) and 2*5/(5+6)
  EXPECT_NEAR(statistics.macro_f1(), (16.0 / 18 + 10.0 / 11) / 2, 1e-12);
  // Wilson's interval of 8 in 10, a textbook case: 0.4902 to 0.9433.
  const auto [low, high] = wilson_interval(8, 10);
  EXPECT_NEAR(low, 0.4902, 5e-5);
  EXPECT_NEAR(high, 0.9433, 5e-5);
  EXPECT_EQ(wilson_interval(0, 0), (std::pair<double, double>{0, 1}));
}

TEST(SystemInfoTest, CgroupsOfBothVersions) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(testing::TempDir()) / "munia_cgroup_test";
  fs::create_directories(root / "a/b");
  fs::create_directories(root / "memory/c");
  std::ofstream(root / "a/memory.max") << "1000000\n";
  std::ofstream(root / "a/b/memory.max") << "max\n";
  std::ofstream(root / "a/b/cpu.stat") << "usage_usec 5\nnr_throttled 3\nthrottled_usec 2500000\n";
  std::ofstream(root / "memory/c/memory.limit_in_bytes") << "9223372036854771712\n";
  std::ofstream(root / "memory/memory.limit_in_bytes") << "500000\n";
  std::ofstream(root / "v2") << "0::/a/b\n";
  std::ofstream(root / "v1") << "4:memory:/c\n";
  const CgroupFacts v2 = read_cgroup(root.string(), (root / "v2").string());
  EXPECT_EQ(v2.memory_limit_bytes, 1000000U);
  EXPECT_EQ(v2.throttled_periods, 3U);
  EXPECT_NEAR(v2.throttled_seconds.value_or(0), 2.5, 1e-9);
  const CgroupFacts v1 = read_cgroup(root.string(), (root / "v1").string());
  EXPECT_EQ(v1.memory_limit_bytes, 500000U);
  EXPECT_FALSE(read_cgroup((root / "none").string(), (root / "none").string()).memory_limit_bytes);
  fs::remove_all(root);
}

TEST(SelfTest, EveryRungEqualsScalar) {
  for (const KernelCheck& check : check_kernels()) {
    EXPECT_TRUE(check.failed.empty()) << check.rung;
    EXPECT_EQ(check.n_types, 11);
  }
}

}  // namespace
}  // namespace munia::cli
