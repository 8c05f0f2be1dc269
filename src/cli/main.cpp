// The program's entry: language, command line, settings, signals, and the one place where failures
// become exit statuses and sentences on standard error.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string>

#include "base/json_writer.h"
#include "cli/commands.h"

namespace {

using namespace munia;
using namespace munia::cli;

std::optional<std::string> read_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

/// A descriptor 0 to 2 that the parent closed would be given to the next file that is opened.
bool keep_standard_descriptors() {
  const bool output_was_closed = fcntl(STDOUT_FILENO, F_GETFD) == -1 && errno == EBADF;
  int fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) close(fd);
  return !output_was_closed;
}

hub::HubOptions hub_options(const Settings& settings) {
  const auto variable = [](const char* name) { return read_environment(name).value_or(""); };
  hub::HubOptions options;
  options.home =
      hub::model_home({variable("MUNIA_HOME"), variable("XDG_CACHE_HOME"), variable("HOME")});
  if (const std::string endpoint = variable("HF_ENDPOINT"); !endpoint.empty()) {
    options.hf_endpoint = endpoint;
  }
  // As ModelScope's own tools take it: a host, or an address.
  if (const std::string domain = variable("MODELSCOPE_DOMAIN"); !domain.empty()) {
    options.modelscope_endpoint =
        domain.find("://") == std::string::npos ? "https://" + domain : domain;
  }
  options.hf_token = variable("HF_TOKEN");
  options.offline = settings.offline();
  return options;
}

void add_commands(CommandLine& line, Context& context) {
  add_predict(line, context);
  add_classify(line, context);
  add_chat(line, context);
  add_generate(line, context);
  add_tokenize(line, context);
  add_detokenize(line, context);
  add_render(line, context);
  add_score(line, context);
  add_logits(line, context);
  add_serve(line, context);
  add_bench(line, context);
  add_tune(line, context);
  add_eval(line, context);
  add_fit(line, context);
  add_doctor(line, context);
  add_config(line, context);
  add_pack(line, context);
  add_quantize(line, context);
  add_pull(line, context);
  add_models(line, context);
  add_rm(line, context);
  add_bundle(line, context);
  add_describe(line, context);
}

ExitStatus run(int argc, const char* const* argv, Context& context) {
  CommandLine line(context.lang);
  add_commands(line, context);
  const CommandLine::Parsed parsed = line.parse(argc, argv);
  context.json = parsed.json;
  if (parsed.version) {
    JsonWriter writer;
    writer.begin_object().field("version", MUNIA_VERSION).end_object();
    context.out->line(parsed.json ? writer.text() : "munia " MUNIA_VERSION);
    return ExitStatus::kDone;
  }
  if (!parsed.run) {
    if (argc > 1 && !parsed.text.empty()) {
      context.out->piece(parsed.text);
      return ExitStatus::kDone;
    }
    print_error_text(parsed.text);
    return ExitStatus::kUsage;
  }
  context.settings = Settings::resolve(parsed.flags, parsed.config, read_environment, context.lang);
  const std::string& lang = context.settings.value("lang").text;
  if (lang != "auto") context.lang = Lang(lang == "zh");
  line.apply_config(context.settings.command_flags(), context.settings.config_path());
  context.hub = hub_options(context.settings);
  context.notify_socket = read_environment("NOTIFY_SOCKET").value_or("");
  return parsed.run();
}

}  // namespace

int main(int argc, char** argv) {
  const bool output_open = keep_standard_descriptors();
  const std::string lang_flag = CommandLine::find_lang_flag(argc, argv);
  Context context;
  context.lang = detect_lang(lang_flag, read_environment);
  Output output(STDOUT_FILENO, [&context](int code) {
    // A reader that went away has seen what it wanted; the rest is not an error.
    if (code == EPIPE) std::_Exit(static_cast<int>(ExitStatus::kDone));
    print_note(context.lang.tr("cannot write to standard output: {}", "无法写入标准输出：{}",
                               std::strerror(code)));
    std::_Exit(static_cast<int>(ExitStatus::kFailed));
  });
  Interrupts interrupts(output);
  context.out = &output;
  context.interrupts = &interrupts;
  if (!output_open) {
    print_note(context.lang.pick("standard output is closed", "标准输出已关闭"));
    return static_cast<int>(ExitStatus::kFailed);
  }
  ExitStatus status = ExitStatus::kDone;
  try {
    status = run(argc, argv, context);
  } catch (const CommandFailure& failure) {
    output.end_line();
    if (failure.status() != ExitStatus::kInterrupted) print_note(failure.what());
    status = failure.status();
  } catch (const LoadError& error) {
    print_note(error.what());
    status = ExitStatus::kCannotLoad;
  } catch (const std::bad_alloc&) {
    print_note(context.lang.pick("not enough memory", "内存不足"));
    status = ExitStatus::kFailed;
  }
  return static_cast<int>(status);
}
