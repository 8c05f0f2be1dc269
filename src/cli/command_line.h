// The command line as commands see it: a command names its texts, options and switches once, with
// help in both languages, and gets the checked values back. command_line.cpp is the only file that
// includes the argument library; it maps that library's failures to exit status 2.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/exit_status.h"
#include "cli/lang.h"

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace munia::cli {

struct ConfigFlag;

/// A command as its help shows it, for manual pages and the completions of shells.
struct CommandDescription {
  struct Option {
    std::vector<std::string> names;  // "-o", "--output"
    std::string value_name;          // empty for a switch
    std::string help;
    bool common = false;  // one that all commands have
  };
  struct Argument {
    std::string name;
    std::string help;
    bool required = false;
    bool many = false;
  };
  std::string name;  // empty for the program itself
  std::string help;
  std::vector<Argument> arguments;
  std::vector<Option> options;
};

/// One command while it is being described. The variables that take values must live until run().
class CommandSpec {
 public:
  CommandSpec(CLI::App& app, Lang lang) : app_(&app), lang_(lang) {}

  /// Any number of texts, as they are typed (also "[a,b]" and "").
  CommandSpec& texts(const char* name, std::vector<std::string>& out, const char* help_en,
                     const char* help_zh);
  CommandSpec& positional(const char* name, std::string& out, bool required, const char* help_en,
                          const char* help_zh);
  /// `names` such as "-o,--output"; an option that is not given leaves `out` as it is.
  CommandSpec& option(const char* names, std::string& out, const char* value_name,
                      const char* help_en, const char* help_zh);
  CommandSpec& option(const char* names, std::vector<std::string>& out, const char* value_name,
                      const char* help_en, const char* help_zh);
  CommandSpec& integer(const char* names, std::int64_t& out, std::int64_t low, std::int64_t high,
                       const char* help_en, const char* help_zh);
  CommandSpec& number(const char* names, float& out, float low, float high, const char* help_en,
                      const char* help_zh);
  CommandSpec& flag(const char* names, bool& out, const char* help_en, const char* help_zh);
  /// The command is left out of help and of descriptions.
  CommandSpec& hide();
  /// What the command does once everything is parsed.
  void run(std::function<ExitStatus()> body);

 private:
  friend class CommandLine;
  CLI::App* app_;
  Lang lang_;
  std::function<ExitStatus()>* selected_ = nullptr;
};

class CommandLine {
 public:
  explicit CommandLine(Lang lang);
  ~CommandLine();

  CommandSpec& command(const char* name, const char* help_en, const char* help_zh);

  struct Parsed {
    std::function<ExitStatus()> run;           // empty: nothing is to be run
    std::string text;                          // for standard output
    std::map<std::string, std::string> flags;  // settings named on the command line, by key
    std::optional<std::string> config;
    bool json = false;
    bool version = false;
  };
  /// Fails with status 2 and a sentence that names the flag or command.
  Parsed parse(int argc, const char* const* argv);
  /// After parse(): gives the running command the flags of its table that the command line does not
  /// name. Fails with status 3 at a table or key that names no command or flag, with 2 at a bad
  /// value; both sentences begin with `path`.
  void apply_config(const std::vector<ConfigFlag>& config, const std::string& path);
  /// The program itself, then its commands in the order of help.
  std::vector<CommandDescription> describe() const;

  /// The value of --lang in unparsed arguments, or empty.
  static std::string find_lang_flag(int argc, const char* const* argv);

 private:
  void add_common(CLI::App& app);
  const char* common_group() const { return lang_.pick("Common flags", "通用选项"); }
  CommandDescription describe(const CLI::App& app) const;
  [[noreturn]] void fail_parse(const CLI::Error& error) const;
  Lang lang_;
  std::unique_ptr<CLI::App> app_;
  std::vector<std::unique_ptr<CommandSpec>> commands_;
  Parsed parsed_;
};

}  // namespace munia::cli
