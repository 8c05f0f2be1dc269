// Parts of the command line that need no model: JSON numbers and strings, input lines, settings and
// their order, byte counts, statistics of labels, cgroup facts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/json_writer.h"
#include "base/system_info.h"
#include "cli/exit_status.h"
#include "cli/input.h"
#include "cli/machine_limits.h"
#include "cli/self_check.h"
#include "cli/settings.h"
#include "cli/tuned.h"

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
                                                                     {"decode_threads", "0"},
                                                                     {"cpus", "a"},
                                                                     {"context", "-1"},
                                                                     {"max_memory", "2Q"},
                                                                     {"prefix_cache", "on"},
                                                                     {"weights", "int2"},
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

TEST(SystemInfoTest, TheNameOfTheCpuOrTheBoard) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(testing::TempDir()) / "munia_cpu_name_test";
  fs::create_directories(root / "device-tree");
  EXPECT_FALSE(cpu_name(root.string()));
  std::ofstream(root / "device-tree/model") << std::string("Board 5 Model B\0", 16);
  std::ofstream(root / "cpuinfo") << "processor\t: 0\nFeatures\t: fp asimd\n";
  EXPECT_EQ(cpu_name(root.string()), "Board 5 Model B");
  std::ofstream(root / "cpuinfo") << "model name\t: Some CPU @ 2 GHz\n";
  EXPECT_EQ(cpu_name(root.string()), "Some CPU @ 2 GHz");
  fs::remove_all(root);
}

TEST(SystemInfoTest, RungsNeedTheFeaturesOfTheCpu) {
  const std::vector<std::string> features = cpu_features();
  const auto has = [&](const char* feature) {
    return std::find(features.begin(), features.end(), feature) != features.end();
  };
  EXPECT_EQ(kernels::select_kernels("avx2") != nullptr, has("avx2") && has("fma") && has("f16c"));
  EXPECT_EQ(kernels::select_kernels("neon") != nullptr, has("asimd"));
  EXPECT_EQ(kernels::select_kernels("neon_dotprod") != nullptr, has("asimddp"));
}

TEST(TunedTest, AnEntryMustFitInEveryPart) {
  namespace fs = std::filesystem;
  const fs::path directory = fs::path(testing::TempDir()) / "munia_tuned_test";
  fs::remove_all(directory);
  const std::string path = (directory / "tuned.json").string();
  const TunedKey key{"machine", "/models/a", "10:20", "0-3", "none", "avx2"};
  const Context context;
  EXPECT_FALSE(find_tuned(path, key));
  store_tuned(path, key, {4, 2}, context);
  ASSERT_TRUE(find_tuned(path, key));
  EXPECT_EQ(find_tuned(path, key)->threads, 4);
  EXPECT_EQ(find_tuned(path, key)->decode_threads, 2);
  for (std::string TunedKey::*part : {&TunedKey::machine, &TunedKey::model, &TunedKey::stamp,
                                      &TunedKey::cpus, &TunedKey::quota, &TunedKey::isa}) {
    TunedKey other = key;
    other.*part += "x";
    EXPECT_FALSE(find_tuned(path, other));
  }
  TunedKey other = key;
  other.cpus = "1";
  store_tuned(path, other, {1, 1}, context);
  other.stamp = "11:21";  // the same model's files changed: the old entry goes
  store_tuned(path, other, {3, 3}, context);
  EXPECT_EQ(find_tuned(path, other)->threads, 3);
  EXPECT_EQ(find_tuned(path, key)->threads, 4);
  other.stamp = "10:20";
  EXPECT_FALSE(find_tuned(path, other));
  for (int i = 0; i < 100; ++i) {  // bounded
    other.model = std::to_string(i);
    store_tuned(path, other, {1, 1}, context);
  }
  EXPECT_LT(fs::file_size(path), 64U * 200U);
  EXPECT_TRUE(find_tuned(path, other));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), fs::directory_iterator()), 1);
  fs::remove_all(directory);
}

TEST(TunedTest, DamagedFilesHoldNothing) {
  const std::string path = testing::TempDir() + "munia_tuned_damaged.json";
  const TunedKey key{"m", "a", "s", "0", "none", "avx2"};
  const std::string parts =
      R"("machine":"m","model":"a","stamp":"s","cpus":"0","quota":"none","isa":"avx2",)";
  const auto found = [&](const std::string& content) {
    std::ofstream(path) << content;
    return find_tuned(path, key).has_value();
  };
  EXPECT_TRUE(found("{\"entries\":[{" + parts + R"("threads":2,"decode_threads":1}]})"));
  for (const char* counts :
       {R"("threads":0,"decode_threads":1)", R"("threads":1)", R"("threads":2,"decode_threads":3)",
        R"("threads":"2")", R"("threads":1e9,"decode_threads":1)",
        R"("threads":99999,"decode_threads":1)"}) {
    EXPECT_FALSE(found("{\"entries\":[{" + parts + counts + "}]}")) << counts;
  }
  for (const char* content : {"", "{", "[]", "{\"entries\":3}", "{\"entries\":[3]}", "\xFF"}) {
    EXPECT_FALSE(found(content)) << content;
  }
  std::filesystem::remove(path);
}

// demands.md row 3: prompts gain from every core, replies stop gaining where memory is the bound.
TEST(TunedTest, PicksTheFewestThreadsThatAreAsGood) {
  const TunedThreads picked =
      pick_threads({{1, 100, 20}, {2, 195, 33}, {4, 380, 36}, {8, 600, 36.5}});
  EXPECT_EQ(picked.threads, 8);
  EXPECT_EQ(picked.decode_threads, 4);
  const TunedThreads wild = pick_threads({{1, 100, 20}, {2, 190, 30}, {8, 120, 10}});
  EXPECT_EQ(wild.threads, 2);
  EXPECT_EQ(wild.decode_threads, 2);
  EXPECT_EQ(pick_threads({{1, 5, 5}}).threads, 1);
  EXPECT_EQ(pick_threads({{1, 100, 20}, {2, 100, 30}}).threads, 2);
}

TEST(SystemInfoTest, OfThisProcess) {
  const double before = process_cpu_seconds();
  EXPECT_GE(process_cpu_seconds(), before);
  ASSERT_TRUE(free_memory_bytes());
  EXPECT_GT(*free_memory_bytes(), 1U << 20);
  EXPECT_GT(anonymous_memory_bytes().value_or(0), 0U);
  if (reset_peak_memory()) {
    const auto low = peak_memory_bytes();
    std::vector<char> large(std::size_t{64} << 20, 1);
    EXPECT_GT(peak_memory_bytes().value_or(0), low.value_or(0) + (std::size_t{60} << 20));
    EXPECT_EQ(large.back(), 1);
  }
}

TEST(MachineLimitsTest, AreMeasured) {
  ThreadPool pool({1, {}, 50});
  const std::string rung = kernels::select_kernels("")->name;
  const MachineLimits limits = measure_limits(rung, pool, std::size_t{8} << 20);
  EXPECT_EQ(limits.flops > 0, rung != "scalar");
  EXPECT_GT(limits.huge_bytes, 0);
  EXPECT_GT(limits.small_bytes, 0);
  EXPECT_EQ(limits.footprint, std::size_t{8} << 20);
  EXPECT_EQ(measure_limits("scalar", pool, 0).flops, 0);
}

TEST(SelfTest, EveryRungEqualsScalar) {
  for (const KernelCheck& check : check_kernels()) {
    EXPECT_TRUE(check.failed.empty()) << check.rung;
    EXPECT_EQ(check.n_types, 13);
  }
}

}  // namespace
}  // namespace munia::cli
