#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "cli/settings.h"

namespace munia::cli {
namespace {

// The argument library splits a word "[a,b]" into a list; texts such as "[笑]" must arrive whole.
// A mark before the bracket, taken off again when values are read, keeps it from doing so.
constexpr char kBracketMark = '\x01';

std::string mark(const std::string& word) {
  const bool bracketed = word.size() >= 2 && word.front() == '[' && word.back() == ']';
  return bracketed ? kBracketMark + word : word;
}
std::string unmark(const std::string& word) {
  return word.size() > 1 && word[0] == kBracketMark && word[1] == '[' ? word.substr(1) : word;
}

std::string with_default(const char* help, const std::string& value) {
  return value.empty() ? help : std::string(help) + " [" + value + "]";
}

// Those that are not hidden, in the order of help.
std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); });
}

}  // namespace

CommandSpec& CommandSpec::texts(const char* name, std::vector<std::string>& out,
                                const char* help_en, const char* help_zh) {
  app_->add_option_function<std::vector<std::string>>(
          name,
          [&out](const std::vector<std::string>& words) {
            for (const std::string& word : words) out.push_back(unmark(word));
          },
          lang_.pick(help_en, help_zh))
      ->type_name("")
      ->expected(-1);
  return *this;
}

CommandSpec& CommandSpec::positional(const char* name, std::string& out, bool required,
                                     const char* help_en, const char* help_zh) {
  app_->add_option_function<std::string>(
          name, [&out](const std::string& word) { out = unmark(word); },
          lang_.pick(help_en, help_zh))
      ->type_name("")
      ->required(required);
  return *this;
}

CommandSpec& CommandSpec::option(const char* names, std::string& out, const char* value_name,
                                 const char* help_en, const char* help_zh) {
  app_->add_option_function<std::string>(
          names, [&out](const std::string& word) { out = unmark(word); },
          with_default(lang_.pick(help_en, help_zh), out))
      ->type_name(value_name);
  return *this;
}

CommandSpec& CommandSpec::option(const char* names, std::vector<std::string>& out,
                                 const char* value_name, const char* help_en, const char* help_zh) {
  app_->add_option_function<std::vector<std::string>>(
          names,
          [&out](const std::vector<std::string>& words) {
            for (const std::string& word : words) out.push_back(unmark(word));
          },
          lang_.pick(help_en, help_zh))
      ->type_name(value_name)
      ->expected(1)
      ->allow_extra_args(false)  // one value each time; a text may follow
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}

CommandSpec& CommandSpec::integer(const char* names, std::int64_t& out, std::int64_t low,
                                  std::int64_t high, const char* help_en, const char* help_zh) {
  const Lang lang = lang_;
  const std::string shown = names;
  app_->add_option_function<std::string>(
          names,
          [&out, lang, low, high, shown](const std::string& word) {
            const auto number = parse_integer(word);
            if (!number || *number < low || *number > high) {
              fail(ExitStatus::kUsage,
                   lang.tr("{} {}: must be an integer from {} to {}",
                           "{} {}：应当是 {} 到 {} 的整数", shown, word, low, high));
            }
            out = *number;
          },
          with_default(lang_.pick(help_en, help_zh), std::to_string(out)))
      ->type_name("N");
  return *this;
}

CommandSpec& CommandSpec::number(const char* names, float& out, float low, float high,
                                 const char* help_en, const char* help_zh) {
  const Lang lang = lang_;
  const std::string shown = names;
  app_->add_option_function<std::string>(
          names,
          [&out, lang, low, high, shown](const std::string& word) {
            float number = 0;
            const auto [end, error] =
                std::from_chars(word.data(), word.data() + word.size(), number);
            const bool whole = error == std::errc() && end == word.data() + word.size();
            if (!whole || !(number >= low && number <= high)) {
              fail(ExitStatus::kUsage,
                   lang.tr("{} {}: must be a number from {} to {}", "{} {}：应当是 {} 到 {} 的数",
                           shown, word, low, high));
            }
            out = number;
          },
          with_default(lang_.pick(help_en, help_zh), fmt::format("{}", out)))
      ->type_name("X");
  return *this;
}

CommandSpec& CommandSpec::flag(const char* names, bool& out, const char* help_en,
                               const char* help_zh) {
  app_->add_flag_callback(
      names, [&out] { out = true; }, lang_.pick(help_en, help_zh));
  return *this;
}

CommandSpec& CommandSpec::hide() {
  app_->group("");
  return *this;
}

void CommandSpec::run(std::function<ExitStatus()> body) {
  app_->final_callback([selected = selected_, body = std::move(body)] { *selected = body; });
}

CommandLine::CommandLine(Lang lang) : lang_(lang), app_(std::make_unique<CLI::App>()) {
  app_->name("munia");
  app_->description(lang_.pick(
      "munia: a small chat model on a plain CPU tells the feeling of a text and answers it.",
      "munia（文鸟）：在普通 CPU 上用一个小型对话模型判断文本的情感并作出回复。"));
  app_->require_subcommand(0, 1);
  app_->set_help_flag("-h,--help", lang_.pick("print this help", "显示帮助"));
  auto formatter = std::make_shared<CLI::Formatter>();
  formatter->column_width(34);
  if (lang_.zh()) {
    formatter->label("Usage", "用法");
    formatter->label("OPTIONS", "选项");
    formatter->label("Options", "选项");
    formatter->label("SUBCOMMAND", "命令");
    formatter->label("Subcommands", "命令");
    formatter->label("Positionals", "参数");
    formatter->label("REQUIRED", "必需");
  } else {
    formatter->label("SUBCOMMAND", "COMMAND");
    formatter->label("Subcommands", "Commands");
    formatter->label("Positionals", "Arguments");
  }
  app_->formatter(formatter);
  app_->add_flag_callback(
      "--version", [this] { parsed_.version = true; }, lang_.pick("print the version", "显示版本"));
  add_common(*app_);
}

CommandLine::~CommandLine() = default;

void CommandLine::add_common(CLI::App& app) {
  const char* group = common_group();
  app.add_flag_callback(
         "--json", [this] { parsed_.json = true; },
         lang_.pick("JSON Lines on standard output, nothing else there",
                    "标准输出只打印 JSON Lines"))
      ->group(group);
  for (const SettingInfo& info : setting_infos()) {
    const std::string key = info.key;
    const char* help = lang_.pick(info.help_en, info.help_zh);
    if (*info.value_name == '\0') {
      app.add_flag_callback(
             info.flag, [this, key] { parsed_.flags[key] = "on"; }, help)
          ->group(group);
    } else {
      app.add_option_function<std::string>(
             info.flag, [this, key](const std::string& word) { parsed_.flags[key] = unmark(word); },
             with_default(help, info.fallback))
          ->type_name(info.value_name)
          ->group(group);
    }
  }
  app.add_option_function<std::string>(
         "--config", [this](const std::string& word) { parsed_.config = unmark(word); },
         lang_.pick("config file (TOML) [~/.config/munia/config.toml]",
                    "配置文件（TOML）[~/.config/munia/config.toml]"))
      ->type_name("FILE")
      ->group(group);
}

CommandSpec& CommandLine::command(const char* name, const char* help_en, const char* help_zh) {
  CLI::App* sub = app_->add_subcommand(name, lang_.pick(help_en, help_zh));
  add_common(*sub);
  commands_.push_back(std::make_unique<CommandSpec>(*sub, lang_));
  commands_.back()->selected_ = &parsed_.run;
  return *commands_.back();
}

void CommandLine::fail_parse(const CLI::Error& error) const {
  const CLI::App* used = app_->get_subcommands().empty() ? nullptr : app_->get_subcommands()[0];
  const std::string help =
      used == nullptr ? "munia --help" : "munia " + used->get_name() + " --help";
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    std::string unexpected;
    bool looks_like_flag = false;
    for (const std::string& word : app_->remaining(true)) {
      const bool is_flag = word.size() > 1 && word[0] == '-';
      if (unexpected.empty() || (is_flag && !looks_like_flag)) unexpected = unmark(word);
      looks_like_flag = looks_like_flag || is_flag;
    }
    if (used == nullptr && !looks_like_flag) {
      std::string names;
      for (const CLI::App* sub : shown_commands(*app_)) {
        names += (names.empty() ? "" : ", ") + sub->get_name();
      }
      fail(ExitStatus::kUsage, lang_.tr("there is no command \"{}\"; the commands are: {}",
                                        "没有命令 \"{}\"；可用的命令有：{}", unexpected, names));
    }
    fail(ExitStatus::kUsage,
         looks_like_flag
             ? lang_.tr("unknown flag {}; see `{}` (a text that begins with - goes after --)",
                        "未知的选项 {}；见 `{}`（以 - 开头的文本请放在 -- 之后）", unexpected, help)
             : lang_.tr("one argument too many: {}; see `{}`", "多余的参数：{}；见 `{}`",
                        unexpected, help));
  }
  fail(ExitStatus::kUsage, lang_.tr("{}; see `{}`", "命令行有误：{}；见 `{}`", error.what(), help));
}

CommandLine::Parsed CommandLine::parse(int argc, const char* const* argv) {
  // The library takes words from the back of the list.
  std::vector<std::string> words;
  for (int i = argc - 1; i >= 1; --i) words.push_back(mark(argv[i]));
  try {
    app_->parse(words);
  } catch (const CLI::Success& asked) {
    std::ostringstream text;
    app_->exit(asked, text, text);
    parsed_.text = text.str();
    parsed_.run = nullptr;
    return parsed_;
  } catch (const CLI::ParseError& error) {
    fail_parse(error);
  }
  if (!parsed_.run && !parsed_.version) parsed_.text = app_->help();
  return parsed_;
}

void CommandLine::apply_config(const std::vector<ConfigFlag>& config, const std::string& path) {
  const CLI::App* running =
      app_->get_subcommands().empty() ? nullptr : app_->get_subcommands().front();
  for (const ConfigFlag& line : config) {
    const auto commands =
        app_->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == line.command; });
    if (commands.empty()) {
      fail(ExitStatus::kCannotLoad, lang_.tr("{}: [{}]: there is no such command",
                                             "{}：[{}]：没有这个命令", path, line.command));
    }
    CLI::App* command = commands.front();
    std::string name = line.key;
    std::replace(name.begin(), name.end(), '_', '-');
    CLI::Option* option = command->get_option_no_throw("--" + name);
    if (option == nullptr || option == command->get_help_ptr() ||
        option->get_group() == common_group()) {
      fail(ExitStatus::kCannotLoad,
           lang_.tr("{}: [{}] {}: `munia {}` has no flag --{} of its own; settings of all commands "
                    "stand above the tables",
                    "{}：[{}] {}：`munia {}` 没有自己的选项 --{}；所有命令共用的设置写在各表之前",
                    path, line.command, line.key, line.command, name));
    }
    if (command != running || option->count() > 0) continue;
    const bool is_switch = option->get_items_expected_max() == 0;
    if (is_switch && line.values == std::vector<std::string>{"false"}) continue;
    std::string why;
    if (is_switch && line.values != std::vector<std::string>{"true"}) {
      why = lang_.pick("must be true or false", "应当是 true 或 false");
    } else {
      try {
        for (const std::string& value : line.values) option->add_result(mark(value));
        option->run_callback();
        continue;
      } catch (const CLI::Error& error) {
        why = error.what();
      } catch (const CommandFailure& failure) {
        why = failure.what();
      }
    }
    fail(ExitStatus::kUsage,
         lang_.tr("{}: [{}] {}: {}", "{}：[{}] {}：{}", path, line.command, line.key, why));
  }
}

CommandDescription CommandLine::describe(const CLI::App& app) const {
  CommandDescription out;
  out.help = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    const std::string& help = option->get_description();
    if (option->get_positional()) {
      out.arguments.push_back({option->get_name(true), help, option->get_required(),
                               option->get_items_expected_max() > 1});
      continue;
    }
    CommandDescription::Option described;
    for (const std::string& name : option->get_snames()) described.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) described.names.push_back("--" + name);
    if (option->get_items_expected_max() > 0) described.value_name = option->get_type_name();
    described.help = help;
    described.common = option->get_group() == common_group();
    out.options.push_back(std::move(described));
  }
  return out;
}

std::vector<CommandDescription> CommandLine::describe() const {
  std::vector<CommandDescription> out{describe(*app_)};
  for (const CLI::App* sub : shown_commands(*app_)) {
    out.push_back(describe(*sub));
    out.back().name = sub->get_name();
  }
  return out;
}

std::string CommandLine::find_lang_flag(int argc, const char* const* argv) {
  constexpr std::string_view kEquals = "--lang=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") break;
    if (word == "--lang" && i + 1 < argc) return argv[i + 1];
    if (word.starts_with(kEquals)) return std::string(word.substr(kEquals.size()));
  }
  return "";
}

}  // namespace munia::cli
