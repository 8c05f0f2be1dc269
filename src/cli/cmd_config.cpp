// munia config: each setting, its value, and where the value came from.
#include <fmt/format.h>

#include <map>
#include <string>

#include "base/json_writer.h"
#include "cli/commands.h"
#include "cli/session.h"

namespace munia::cli {
namespace {

const char* origin_name(Origin origin) {
  switch (origin) {
    case Origin::kFlag:
      return "flag";
    case Origin::kEnvironment:
      return "environment";
    case Origin::kConfigFile:
      return "config file";
    case Origin::kDefault:
      break;
  }
  return "default";
}

struct Shown {
  std::string value;
  std::string origin;
  std::string from;
};

/// What tune found stands between the config file and the default.
std::map<std::string, Shown> tuned_values(const Context& context) {
  std::map<std::string, Shown> out;
  if (context.settings.value("threads").origin != Origin::kDefault) return out;
  const auto path = known_model_path(context);
  if (!path) return out;
  const Threads threads = choose_threads(context, *path);
  if (threads.tuned_from.empty()) return out;
  out["threads"] = {std::to_string(threads.n), "tuned", threads.tuned_from};
  if (context.settings.value("decode_threads").origin == Origin::kDefault) {
    out["decode_threads"] = {std::to_string(threads.n_decode), "tuned", threads.tuned_from};
  }
  return out;
}

void print_setting(const Context& context, const std::string& key, const Shown& shown) {
  const auto& [value, origin, from] = shown;
  if (context.json) {
    JsonWriter writer;
    writer.begin_object()
        .field("key", key)
        .field("value", value)
        .field("origin", origin)
        .field("from", from)
        .end_object();
    context.out->line(writer.text());
    return;
  }
  const std::string where = origin == from ? origin : origin + " " + from;
  context.out->line(fmt::format("{:<14} = {:<24} # {}", key, value, where));
}

ExitStatus run_config(const Context& context) {
  const std::map<std::string, Shown> tuned = tuned_values(context);
  for (const SettingInfo& info : setting_infos()) {
    const Settings::Value& set = context.settings.value(info.key);
    Shown shown{set.text, origin_name(set.origin), context.settings.origin_text(info.key)};
    if (const auto found = tuned.find(info.key); found != tuned.end()) shown = found->second;
    print_setting(context, info.key, shown);
  }
  // The tables of the config file: serve.port
  for (const ConfigFlag& flag : context.settings.command_flags()) {
    const std::string value = fmt::format("{}", fmt::join(flag.values, ","));
    print_setting(context, flag.command + "." + flag.key,
                  {value, origin_name(Origin::kConfigFile), context.settings.config_path()});
  }
  return ExitStatus::kDone;
}

}  // namespace

void add_config(CommandLine& line, Context& context) {
  line.command("config", "print each setting with where its value came from",
               "显示各项设置及其来源")
      .run([&context] { return run_config(context); });
}

}  // namespace munia::cli
