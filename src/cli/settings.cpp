#include "cli/settings.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <toml.hpp>
#include <tuple>
#include <utility>

#include "base/cpu_topology.h"
#include "base/mapped_file.h"
#include "cli/exit_status.h"

namespace munia::cli {
namespace {

constexpr SettingInfo kSettings[] = {
    {"model", "--model", "MUNIA_MODEL", "qwen1.5-0.5b-chat", "M",
     "model: a directory, a .gguf or .munia file or a name of `munia models`",
     "模型：目录、.gguf 或 .munia 文件，或 `munia models` 中的名字"},
    {"load", "--load", "MUNIA_LOAD", "copy", "map|copy",
     "a packed file: copy it into huge pages (fastest to compute with) or map it (starts at once, "
     "shared by all processes)",
     "打包文件的加载方式：copy 复制到大页内存（计算最快），map 直接映射（启动即用，多进程共享）"},
    {"verify", "--verify", "MUNIA_VERIFY", "off", "",
     "compare the checksums of a packed file before using it", "使用打包文件前核对其校验和"},
    {"threads", "--threads", "MUNIA_THREADS", "auto", "N",
     "threads for computing (auto: what `munia tune` found, else the cores that affinity and "
     "container quota allow)",
     "计算线程数（auto：`munia tune` 的结果，否则为亲和性与容器配额允许的核数）"},
    {"decode_threads", "--decode-threads", "MUNIA_DECODE_THREADS", "auto", "N",
     "threads for the tokens of a reply (auto: as many as --threads; `munia tune` measures both)",
     "生成回复时的线程数（auto：与 --threads 相同；`munia tune` 会分别测量）"},
    {"cpus", "--cpus", "MUNIA_CPUS", "", "LIST", "bind threads to these CPUs, for example 0,2-3",
     "把线程绑定到这些 CPU，例如 0,2-3"},
    {"spin_us", "--spin-us", "MUNIA_SPIN_US", "50", "N",
     "microseconds that a thread waits actively before it sleeps", "线程休眠前主动等待的微秒数"},
    {"context", "--context", "MUNIA_CONTEXT", "auto", "N",
     "positions of a conversation (auto: the model's own, at most 4,096)",
     "上下文长度（auto：模型自身的长度，最多 4096）"},
    {"max_memory", "--max-memory", "MUNIA_MAX_MEMORY", "", "BYTES",
     "limit for weights, KV and caches, for example 1500M",
     "权重、KV 和缓存的内存上限，例如 1500M"},
    {"kv_cache", "--kv-cache", "MUNIA_KV_CACHE", "on", "on|off",
     "off: every token computes its whole past again", "off：每个词元都重新计算全部前文"},
    {"prefix_cache", "--prefix-cache", "MUNIA_PREFIX_CACHE", "auto", "BYTES|off",
     "memory, within that of the KV cache, for prompts and replies that later ones may begin with "
     "(auto: one whole context, at most an eighth of this machine's memory)",
     "在 KV 缓存内存之内，用来保留可被后续请求复用的提示和回复的内存"
     "（auto：一个完整上下文，最多本机内存的八分之一）"},
    {"prefill_chunk", "--prefill-chunk", "MUNIA_PREFILL_CHUNK", "512", "N",
     "most prompt tokens computed in one step", "一步最多计算的提示词元数"},
    {"head", "--head", "MUNIA_HEAD", "auto", "auto|full|screened",
     "greedy decoding: read the whole output layer, or screen it with an 8-bit copy (same tokens, "
     "more memory; auto: where it pays)",
     "贪心解码：读取整个输出层，或先用 8 位副本筛选（结果相同，占用更多内存；auto：有利时使用）"},
    {"weights", "--weights", "MUNIA_WEIGHTS", "exact", "exact|int8|int4",
     "numbers to compute with: the file's own with float32 accuracy, or 8- or 4-bit integers made "
     "from them, smaller and less exact (not said: exact, or what a packed file holds)",
     "用什么数计算：exact 为文件中的数值、float32 精度；int8、int4 为由其得到的 8 位或 4 "
     "位整数，更小，但精度较低"
     "（不指定：exact，或打包文件中的形式）"},
    {"isa", "--isa", "MUNIA_ISA", "auto", "NAME",
     "instruction set to use: see `munia doctor` (auto: the best)",
     "使用的指令集：见 `munia doctor`（auto：最好的）"},
    {"offline", "--offline", "MUNIA_OFFLINE", "off", "", "never open a network connection",
     "绝不打开网络连接"},
    {"encoding", "--encoding", "MUNIA_ENCODING", "utf-8", "utf-8|gb18030", "encoding of text input",
     "输入文本的编码"},
    {"lang", "--lang", "MUNIA_LANG", "auto", "zh|en", "language of messages (auto: by LANG)",
     "提示语言（auto：按 LANG）"},
};

constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

bool is_on(std::string_view text) {
  return text == "on" || text == "true" || text == "1" || text == "yes";
}
bool is_off(std::string_view text) {
  return text == "off" || text == "false" || text == "0" || text == "no" || text.empty();
}

std::string default_config_path(const ReadEnvironment& environment) {
  const auto xdg = environment("XDG_CONFIG_HOME");
  if (xdg && xdg->starts_with('/')) return *xdg + "/munia/config.toml";
  const auto home = environment("HOME");
  return home && !home->empty() ? *home + "/.config/munia/config.toml" : "";
}

std::string toml_text(const toml::value& value, const std::string& key, const std::string& path,
                      Lang lang) {
  if (value.is_string()) return value.as_string().str;
  if (value.is_integer()) return std::to_string(value.as_integer());
  if (value.is_boolean()) return value.as_boolean() ? "on" : "off";
  fail(ExitStatus::kCannotLoad, lang.tr("{}: {} must be a string, an integer or true/false",
                                        "{}：{} 应当是字符串、整数或 true/false", path, key));
}

struct ConfigFile {
  std::map<std::string, std::string> settings;
  std::vector<ConfigFlag> command_flags;
};

// [serve] port = 8080, cors = ["…", "…"]
void read_table(const std::string& command, const toml::value& table, const std::string& path,
                Lang lang, ConfigFile& out) {
  for (const auto& [key, value] : table.as_table()) {
    const std::string shown = "[" + command + "] " + key;
    ConfigFlag flag{command, key, {}};
    if (value.is_boolean()) {
      flag.values = {value.as_boolean() ? "true" : "false"};
    } else if (value.is_floating()) {
      flag.values = {fmt::format("{}", value.as_floating())};
    } else if (value.is_array()) {
      for (const toml::value& item : value.as_array()) {
        flag.values.push_back(toml_text(item, shown, path, lang));
      }
    } else {
      flag.values = {toml_text(value, shown, path, lang)};
    }
    if (!flag.values.empty()) out.command_flags.push_back(std::move(flag));
  }
}

ConfigFile read_config(const std::string& path, Lang lang) {
  const Result<std::string> content = read_file(path, kMaxConfigBytes);
  if (!content) fail(ExitStatus::kCannotLoad, content.error().message);
  ConfigFile out;
  try {
    std::istringstream stream(*content);
    const toml::value root = toml::parse(stream, path);
    for (const auto& [key, value] : root.as_table()) {
      if (value.is_table()) {
        read_table(key, value, path, lang, out);
        continue;
      }
      const bool known = std::any_of(std::begin(kSettings), std::end(kSettings),
                                     [&](const SettingInfo& info) { return key == info.key; });
      if (!known) {
        std::string names;
        for (const SettingInfo& info : kSettings) names += std::string(" ") + info.key;
        fail(ExitStatus::kCannotLoad, lang.tr("{}: line {}: unknown setting {}; known are:{}",
                                              "{}：第 {} 行：未知的设置 {}；可用的有：{}", path,
                                              value.location().line(), key, names));
      }
      out.settings[key] = toml_text(value, key, path, lang);
    }
    // The tables come in no order of their own.
    std::sort(out.command_flags.begin(), out.command_flags.end(),
              [](const ConfigFlag& a, const ConfigFlag& b) {
                return std::tie(a.command, a.key) < std::tie(b.command, b.key);
              });
  } catch (const toml::exception& error) {
    std::string what = error.what();
    fail(ExitStatus::kCannotLoad,
         lang.tr("{}: line {}, column {}: not valid TOML: {}",
                 "{}：第 {} 行第 {} 列不是合法的 TOML：{}", path, error.location().line(),
                 error.location().column(), what.substr(0, what.find('\n'))));
  }
  return out;
}

}  // namespace

std::span<const SettingInfo> setting_infos() { return kSettings; }

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (unit.ends_with("iB")) unit.remove_suffix(2);
  if (unit.ends_with("B")) unit.remove_suffix(1);
  int shift = 0;
  if (unit == "K" || unit == "k") shift = 10;
  if (unit == "M" || unit == "m") shift = 20;
  if (unit == "G" || unit == "g") shift = 30;
  if (shift == 0 && !unit.empty()) return std::nullopt;
  if (number > (UINT64_MAX >> shift)) return std::nullopt;
  return number << shift;
}

Lang detect_lang(const std::string& flag, const ReadEnvironment& environment) {
  if (!flag.empty()) return Lang(flag == "zh");
  for (const char* name : {"MUNIA_LANG", "LC_ALL", "LC_MESSAGES", "LANG"}) {
    const auto value = environment(name);
    if (value && !value->empty()) return Lang(value->starts_with("zh"));
  }
  return Lang(false);
}

Settings Settings::resolve(const std::map<std::string, std::string>& flags,
                           const std::optional<std::string>& config_flag,
                           const ReadEnvironment& environment, Lang lang) {
  Settings settings;
  ConfigFile config;
  std::optional<std::string> path = config_flag ? config_flag : environment("MUNIA_CONFIG");
  if (path && path->empty()) path.reset();
  if (path) {
    settings.config_path_ = *path;
  } else if (const std::string usual = default_config_path(environment);
             !usual.empty() && access(usual.c_str(), F_OK) == 0) {
    settings.config_path_ = usual;
  }
  if (!settings.config_path_.empty()) config = read_config(settings.config_path_, lang);
  settings.command_flags_ = std::move(config.command_flags);

  for (const SettingInfo& info : kSettings) {
    Value value{info.fallback, Origin::kDefault};
    if (const auto flag = flags.find(info.key); flag != flags.end()) {
      value = {flag->second, Origin::kFlag};
    } else if (const auto variable = environment(info.environment);
               variable && !variable->empty()) {
      value = {*variable, Origin::kEnvironment};
    } else if (const auto entry = config.settings.find(info.key); entry != config.settings.end()) {
      value = {entry->second, Origin::kConfigFile};
    }
    const std::string_view key = info.key;
    const bool is_switch = key == "offline" || key == "kv_cache" || key == "verify";
    if (is_switch && is_on(value.text)) value.text = "on";
    if (is_switch && is_off(value.text)) value.text = "off";
    settings.values_[info.key] = value;
  }
  settings.check(lang);
  return settings;
}

const Settings::Value& Settings::value(std::string_view key) const {
  const auto entry = values_.find(key);
  MUNIA_CHECK(entry != values_.end());
  return entry->second;
}

std::string Settings::origin_text(std::string_view key) const {
  const Origin origin = value(key).origin;
  for (const SettingInfo& info : kSettings) {
    if (key != info.key) continue;
    if (origin == Origin::kFlag) return info.flag;
    if (origin == Origin::kEnvironment) return info.environment;
  }
  return origin == Origin::kConfigFile ? config_path_ : "default";
}

void Settings::reject(std::string_view key, const std::string& why, Lang lang) const {
  const std::string origin = origin_text(key);
  const std::string name =
      value(key).origin == Origin::kConfigFile ? origin + ": " + std::string(key) : origin;
  fail(ExitStatus::kUsage, lang.tr("{} {}: {}", "{} {}：{}", name, value(key).text, why));
}

void Settings::check(Lang lang) const {
  const auto in_range = [&](std::string_view key, std::int64_t low, std::int64_t high) {
    const auto number = parse_integer(value(key).text);
    if (number && *number >= low && *number <= high) return;
    reject(key, lang.tr("must be an integer from {} to {}", "应当是 {} 到 {} 的整数", low, high),
           lang);
  };
  const auto one_of = [&](std::string_view key, std::initializer_list<std::string_view> choices) {
    if (std::find(choices.begin(), choices.end(), value(key).text) != choices.end()) return;
    std::string list;
    for (const std::string_view choice : choices) {
      list += (list.empty() ? "" : ", ") + std::string(choice);
    }
    reject(key, lang.tr("must be one of {}", "应当是以下之一：{}", list), lang);
  };
  if (value("threads").text != "auto") in_range("threads", 1, 1024);
  if (value("decode_threads").text != "auto") in_range("decode_threads", 1, 1024);
  if (value("context").text != "auto") in_range("context", 2, 1 << 20);
  in_range("spin_us", 0, 1000000);
  in_range("prefill_chunk", 1, 8192);
  one_of("kv_cache", {"on", "off"});
  one_of("offline", {"on", "off"});
  one_of("head", {"auto", "full", "screened"});
  one_of("verify", {"on", "off"});
  one_of("load", {"map", "copy"});
  one_of("lang", {"auto", "zh", "en"});
  one_of("encoding", {"utf-8", "utf8", "UTF-8", "gb18030", "GB18030", "gbk", "GBK"});
  if (!value("cpus").text.empty() && parse_cpu_list(value("cpus").text).empty()) {
    reject("cpus", lang.tr("must be a list of CPUs such as 0,2-3", "应当是 CPU 列表，例如 0,2-3"),
           lang);
  }
  if (!value("max_memory").text.empty() && !parse_bytes(value("max_memory").text)) {
    reject("max_memory",
           lang.tr("must be a number of bytes such as 1500000000, 1500M or 2G",
                   "应当是字节数，例如 1500000000、1500M 或 2G"),
           lang);
  }
  const std::string& prefix_cache = value("prefix_cache").text;
  if (prefix_cache != "auto" && prefix_cache != "off" && !parse_bytes(prefix_cache)) {
    reject("prefix_cache",
           lang.tr("must be auto, off, or a number of bytes such as 200M",
                   "应当是 auto、off 或字节数，例如 200M"),
           lang);
  }
  one_of("weights", {"exact", "int8", "int4"});
  if (model().empty()) reject("model", lang.tr("names no model", "没有给出模型"), lang);
}

std::optional<int> Settings::threads() const {
  const auto number = parse_integer(value("threads").text);
  return number ? std::optional<int>(static_cast<int>(*number)) : std::nullopt;
}
std::optional<int> Settings::decode_threads() const {
  const auto number = parse_integer(value("decode_threads").text);
  return number ? std::optional<int>(static_cast<int>(*number)) : std::nullopt;
}
std::vector<int> Settings::cpus() const { return parse_cpu_list(value("cpus").text); }
std::int64_t Settings::spin_us() const { return *parse_integer(value("spin_us").text); }
std::int64_t Settings::context() const { return parse_integer(value("context").text).value_or(0); }
std::optional<model::WeightMode> Settings::weights() const {
  const Value& weights = value("weights");
  if (weights.origin == Origin::kDefault) return std::nullopt;
  return model::weight_mode_named(weights.text);
}
std::optional<std::uint64_t> Settings::max_memory() const {
  return parse_bytes(value("max_memory").text);
}
std::optional<std::uint64_t> Settings::prefix_cache() const {
  const std::string& text = value("prefix_cache").text;
  return text == "off" ? std::optional<std::uint64_t>(0) : parse_bytes(text);
}
std::int64_t Settings::prefill_chunk() const { return *parse_integer(value("prefill_chunk").text); }
const std::string& Settings::isa() const {
  static const std::string best;
  const std::string& name = value("isa").text;
  return name == "auto" ? best : name;
}
Encoding Settings::encoding() const {
  const char first = value("encoding").text.front();
  return first == 'u' || first == 'U' ? Encoding::kUtf8 : Encoding::kGb18030;
}

}  // namespace munia::cli
