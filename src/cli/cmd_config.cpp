// munia config: each setting, its value, and where the value came from.
#include "cli/commands.h"
#include "cli/json_writer.h"

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

ExitStatus run_config(const Context& context) {
  for (const SettingInfo& info : setting_infos()) {
    const Settings::Value& value = context.settings.value(info.key);
    const std::string origin = origin_name(value.origin);
    const std::string from = context.settings.origin_text(info.key);
    if (context.json) {
      JsonWriter writer;
      writer.begin_object()
          .field("key", info.key)
          .field("value", value.text)
          .field("origin", origin)
          .field("from", from)
          .end_object();
      context.out->line(writer.text());
    } else {
      const std::string where = origin == from ? origin : origin + " " + from;
      context.out->line(fmt::format("{:<14} = {:<24} # {}", info.key, value.text, where));
    }
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
