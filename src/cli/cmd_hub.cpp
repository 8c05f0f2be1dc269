// munia pull, models, rm: the models on this machine. All work is done by the hub room.
#include <atomic>
#include <memory>
#include <utility>

#include "base/json_writer.h"
#include "cli/commands.h"
#include "cli/session.h"

namespace munia::cli {
namespace {

/// A failed request to the hub: what is not found or offered cannot be loaded.
ExitStatus hub_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound:
    case ErrorCode::kUnavailable:
    case ErrorCode::kInvalidData:
      return ExitStatus::kCannotLoad;
    case ErrorCode::kInvalidArgument:
      return ExitStatus::kUsage;
    case ErrorCode::kCancelled:
      return ExitStatus::kInterrupted;
    default:
      return ExitStatus::kFailed;
  }
}

template <class T>
T hub_value(Result<T> result) {
  if (!result) fail(hub_status(result.error().code), result.error().message);
  return *std::move(result);
}

std::string model_json(const hub::InstalledModel& model) {
  JsonWriter writer;
  writer.begin_object()
      .field("name", model.name)
      .field("path", model.path)
      .field("size_bytes", model.size_bytes)
      .field("licence", model.licence)
      .field("licence_address", model.licence_address)
      .field("commercial_use", model.commercial_use)
      .field("origin", model.origin)
      .field("origin_verified", model.origin_verified)
      .field("source", model.source)
      .end_object();
  return writer.text();
}

class ProgressLine {
 public:
  void show(const hub::PullProgress& progress) {
    if (!stderr_is_terminal()) return;
    const std::string done = show_bytes(progress.bytes_done);
    std::string text = progress.file + "  " + done;
    if (progress.bytes_total > 0) {
      text += fmt::format(" / {} ({}%)", show_bytes(progress.bytes_total),
                          progress.bytes_done * 100 / progress.bytes_total);
    }
    if (text == shown_) return;
    shown_ = text;
    show_progress(text);
  }
  void end() {
    if (!shown_.empty()) print_error_text("\n");
    shown_.clear();
  }

 private:
  std::string shown_;
};

ExitStatus run_pull(const Context& context, const std::string& what) {
  ProgressLine progress;
  const auto stopped = std::make_shared<std::atomic<bool>>(false);
  context.interrupts->on_interrupt([stopped] { *stopped = true; });
  hub::PullCallbacks callbacks;
  callbacks.on_progress = [&](const hub::PullProgress& step) { progress.show(step); };
  callbacks.on_note = [&](const std::string& note) {
    progress.end();
    print_note(note);
  };
  callbacks.cancelled = [stopped] { return stopped->load(); };
  auto pulled = what.empty() ? hub::pull_default(context.hub, callbacks)
                             : hub::pull(what, context.hub, callbacks);
  progress.end();
  context.interrupts->on_interrupt({});
  const hub::InstalledModel model = hub_value(std::move(pulled));
  if (context.json) {
    context.out->line(model_json(model));
  } else {
    print_note(hub::describe(model));
    context.out->line(model.path);
  }
  return ExitStatus::kDone;
}

ExitStatus run_models(const Context& context) {
  const auto models = hub_value(hub::list_models(context.hub));
  for (const hub::InstalledModel& model : models) {
    if (context.json) {
      context.out->line(model_json(model));
      continue;
    }
    const std::string licence = model.licence.empty() ? "?" : model.licence;
    const char* origin = model.origin_verified
                             ? ""
                             : context.lang.pick("  (origin not verified)", "  （来源未经核实）");
    context.out->line(
        fmt::format("{}\t{}\t{}{}", model.name, show_bytes(model.size_bytes), licence, origin));
  }
  if (!context.json) {
    std::string names;
    for (const hub::CatalogueEntry& entry : hub::catalogue()) names += " " + entry.name;
    print_note(context.lang.tr("{} here in {}; munia pull knows:{}",
                               "本机有 {} 个，位于 {}；munia pull 可获取：{}", models.size(),
                               context.hub.home, names));
  }
  return ExitStatus::kDone;
}

ExitStatus run_rm(const Context& context, const std::string& name) {
  const Status removed = hub::remove_model(name, context.hub);
  if (!removed) fail(hub_status(removed.error().code), removed.error().message);
  print_note(context.lang.tr("{} removed", "已删除 {}", name));
  return ExitStatus::kDone;
}

}  // namespace

void add_pull(CommandLine& line, Context& context) {
  CommandSpec& spec = line.command("pull", "fetch a model", "获取模型");
  const auto what = std::make_shared<std::string>();
  const auto take_default = std::make_shared<bool>(false);
  spec.positional("NAME", *what, false,
                  "a name, hf:ORG/REPO, modelscope:ORG/REPO or an address; without: the default",
                  "名字、hf:ORG/REPO、modelscope:ORG/REPO 或地址；不给则为默认模型");
  spec.flag("--default", *take_default,
            "the default model, or the next that some source can deliver",
            "默认模型；若无法获取，则取下一个可获取的模型");
  spec.run([&context, what, take_default] {
    if (*take_default && !what->empty()) {
      fail(ExitStatus::kUsage,
           context.lang.tr("give a NAME or --default, not both", "NAME 和 --default 只能用一个"));
    }
    return run_pull(context, *what);
  });
}

void add_models(CommandLine& line, Context& context) {
  line.command("models", "list the models on this machine", "列出本机的模型").run([&context] {
    return run_models(context);
  });
}

void add_rm(CommandLine& line, Context& context) {
  CommandSpec& spec = line.command("rm", "remove a model", "删除模型");
  const auto name = std::make_shared<std::string>();
  spec.positional("NAME", *name, true, "as `munia models` lists it", "`munia models` 列出的名字");
  spec.run([&context, name] { return run_rm(context, *name); });
}

}  // namespace munia::cli
