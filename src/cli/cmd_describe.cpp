// munia describe: the whole command line as one JSON object, in the language of the messages. Not
// in the help: tools/make_man.py and tools/make_completions.py make the manual pages and the
// completions of shells from it.
#include "base/json_writer.h"
#include "cli/commands.h"
#include "hub/hub.h"
#include "tasks/task.h"

namespace munia::cli {
namespace {

void write_names(JsonWriter& writer, const char* key, const std::vector<std::string>& names) {
  writer.key(key).begin_array();
  for (const std::string& name : names) writer.value(name);
  writer.end_array();
}

void write_command(JsonWriter& writer, const CommandDescription& command) {
  writer.begin_object().field("name", command.name).field("help", command.help);
  writer.key("arguments").begin_array();
  for (const CommandDescription::Argument& argument : command.arguments) {
    writer.begin_object()
        .field("name", argument.name)
        .field("help", argument.help)
        .field("required", argument.required)
        .field("many", argument.many)
        .end_object();
  }
  writer.end_array().key("options").begin_array();
  for (const CommandDescription::Option& option : command.options) {
    writer.begin_object();
    write_names(writer, "names", option.names);
    writer.field("value", option.value_name)
        .field("help", option.help)
        .field("common", option.common)
        .end_object();
  }
  writer.end_array().end_object();
}

}  // namespace

void add_describe(CommandLine& line, Context& context) {
  line.command("describe", "the command line as JSON", "以 JSON 描述命令行")
      .hide()
      .run([&context, &line] {
        JsonWriter writer;
        writer.begin_object().field("version", MUNIA_VERSION).key("commands").begin_array();
        for (const CommandDescription& command : line.describe()) write_command(writer, command);
        writer.end_array().key("settings").begin_array();
        for (const SettingInfo& info : setting_infos()) {
          writer.begin_object()
              .field("key", info.key)
              .field("flag", info.flag)
              .field("environment", info.environment)
              .end_object();
        }
        writer.end_array();
        std::vector<std::string> models;
        for (const hub::CatalogueEntry& entry : hub::catalogue()) models.push_back(entry.name);
        write_names(writer, "models", models);
        write_names(writer, "tasks", tasks::builtin_task_names());
        writer.end_object();
        context.out->line(writer.text());
        return ExitStatus::kDone;
      });
}

}  // namespace munia::cli
