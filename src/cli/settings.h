// The settings that all commands share, each with where its value came from: flag > environment >
// config file > default (what tune found stands before the default: tuned.h). The only place that
// knows their names; reads the environment through a function, so that tests can stand in for it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/input.h"
#include "cli/lang.h"
#include "model/weight_mode.h"

namespace munia::cli {

using ReadEnvironment = std::function<std::optional<std::string>(const std::string& name)>;

/// A setting's names and meaning.
struct SettingInfo {
  const char* key;          // in the config file, and in `munia config`
  const char* flag;         // "--model"
  const char* environment;  // "MUNIA_MODEL"
  const char* fallback;
  const char* value_name;  // in help; empty for a switch (--offline)
  const char* help_en;
  const char* help_zh;
};
std::span<const SettingInfo> setting_infos();

enum class Origin { kDefault, kConfigFile, kEnvironment, kFlag };

/// A line of a command's table in the config file: [serve] port = 8080.
struct ConfigFlag {
  std::string command;
  std::string key;                  // the flag's name, with _ for -
  std::vector<std::string> values;  // "true" or "false" for a switch
};

class Settings {
 public:
  struct Value {
    std::string text;
    Origin origin = Origin::kDefault;
  };

  /// Gathers and checks all settings. `flags` holds what the command line named, by key. Fails with
  /// status 2 at a bad value (naming where it stands), 3 at a config file that cannot be read.
  static Settings resolve(const std::map<std::string, std::string>& flags,
                          const std::optional<std::string>& config_flag,
                          const ReadEnvironment& environment, Lang lang);

  const Value& value(std::string_view key) const;
  /// "--threads", "MUNIA_THREADS", the config file's path, or "default".
  std::string origin_text(std::string_view key) const;
  /// The config file that was read; empty when there is none.
  const std::string& config_path() const { return config_path_; }

  /// The lines of the config file's tables, one for each command: [serve] port = 8080.
  const std::vector<ConfigFlag>& command_flags() const { return command_flags_; }

  const std::string& model() const { return value("model").text; }
  std::optional<int> threads() const;         // nothing: tuned, or as many as the machine allows
  std::optional<int> decode_threads() const;  // nothing: tuned, or as many as threads
  std::vector<int> cpus() const;              // empty: not bound
  std::int64_t spin_us() const;
  std::int64_t context() const;  // 0: the model's own, at most 4,096
  std::optional<std::uint64_t> max_memory() const;
  bool kv_cache() const { return value("kv_cache").text == "on"; }
  std::optional<std::uint64_t> prefix_cache() const;  // 0: off; nothing: auto
  std::int64_t prefill_chunk() const;
  std::optional<model::WeightMode> weights() const;  // nothing: nobody said it
  const std::string& head() const { return value("head").text; }
  bool offline() const { return value("offline").text == "on"; }
  bool load_mapped() const { return value("load").text == "map"; }
  bool verify() const { return value("verify").text == "on"; }
  const std::string& isa() const;  // empty: the best
  Encoding encoding() const;

 private:
  void check(Lang lang) const;
  [[noreturn]] void reject(std::string_view key, const std::string& why, Lang lang) const;
  std::map<std::string, Value, std::less<>> values_;
  std::string config_path_;
  std::vector<ConfigFlag> command_flags_;
};

/// The language before anything else is known: `flag` (of --lang, may be empty), MUNIA_LANG,
/// LC_ALL, LC_MESSAGES, LANG.
Lang detect_lang(const std::string& flag, const ReadEnvironment& environment);

/// A number of bytes such as 1500000000, 1500M, 2G or 2GiB (M and G are powers of 1,024).
std::optional<std::uint64_t> parse_bytes(std::string_view text);
/// The whole of `text` as a decimal integer.
std::optional<std::int64_t> parse_integer(std::string_view text);

}  // namespace munia::cli
