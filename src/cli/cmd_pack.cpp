// munia pack and munia quantize: write a model as one packed .munia file, which loads without
// packing or parsing; with the weights as they are, or as integers.
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json_writer.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/session.h"
#include "tasks/quantize.h"

namespace munia::cli {
namespace {

namespace fs = std::filesystem;

struct PackFlags {
  std::string output;
  bool force = false;
  std::string texts;  // of quantize: a file, "none", or empty for the built-in ones
};

constexpr const char* kNoTexts = "none";

class Progress {
 public:
  explicit Progress(std::string path) : path_(std::move(path)) {}
  void show(std::uint64_t done, std::uint64_t total) {
    if (!stderr_is_terminal()) return;
    const std::uint64_t percent = total > 0 ? done * 100 / total : 100;
    if (percent == shown_) return;
    shown_ = percent;
    show_progress(
        fmt::format("{}  {} / {} ({}%)", path_, show_bytes(done), show_bytes(total), percent));
  }
  void end() const {
    if (shown_ != kNothing) print_error_text("\n");
  }

 private:
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  std::string path_;
  std::uint64_t shown_ = kNothing;
};

void check_output(const Context& context, const PackFlags& flags) {
  const Lang& lang = context.lang;
  if (flags.output.empty()) {
    fail(ExitStatus::kUsage, lang.pick("-o FILE.munia is missing: the file to write",
                                       "缺少 -o FILE.munia：要写的文件"));
  }
  if (fs::path(flags.output).extension() != ".munia") {
    fail(ExitStatus::kUsage, lang.tr("-o {}: the name of a packed file must end in .munia",
                                     "-o {}：打包文件的名字应以 .munia 结尾", flags.output));
  }
  std::error_code error;
  const fs::file_status status = fs::status(flags.output, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    fail(ExitStatus::kUsage, lang.tr("-o {}: it exists and is not a regular file",
                                     "-o {}：已存在，且不是普通文件", flags.output));
  }
  if (fs::exists(status) && !flags.force) {
    fail(ExitStatus::kUsage, lang.tr("-o {}: the file exists; --force replaces it",
                                     "-o {}：文件已存在；用 --force 覆盖", flags.output));
  }
}

/// INT4 weights made with the texts that the flags name.
tasks::Quantized quantize(const Context& context, const PackFlags& flags,
                          const engine::ModelBundle& bundle, const std::atomic<bool>& stopped,
                          ThreadPool& pool) {
  const std::span<const char* const> built_in = tasks::sample_texts();
  const std::vector<std::string> texts =
      flags.texts.empty() ? std::vector<std::string>(built_in.begin(), built_in.end())
                          : read_texts(flags.texts, context.settings.encoding(), context.lang);
  tasks::QuantizeOptions options;
  options.head = bundle_options(context, 0).head;
  options.cancelled = [&stopped] { return stopped.load(); };
  Result<tasks::Quantized> made = tasks::quantize_with_texts(bundle, texts, options, pool);
  if (!made) {
    if (made.error().code == ErrorCode::kCancelled) {
      fail(ExitStatus::kInterrupted, made.error().message);
    }
    fail(ExitStatus::kFailed, made.error().message);
  }
  print_note(context.lang.tr(
      "rounded with {} texts ({} tokens): the next token's distribution diverges by {:.4f} nats",
      "已按 {} 条文本（{} 个词元）取整：下一词元的分布相差 {:.4f} nats", made->n_texts,
      made->n_tokens, made->divergence));
  return *std::move(made);
}

/// `asked`: the form of the weights; none: as --weights says.
ExitStatus run_pack(const Context& context, const PackFlags& flags,
                    std::optional<model::WeightMode> asked) {
  check_output(context, flags);
  const std::string source = find_model_path(context, context.settings.model());
  const Threads threads = choose_threads(context, source);
  ThreadPool pool(pool_options(context, threads));
  const bool reads_texts = asked == model::WeightMode::kInt4 && flags.texts != kNoTexts;
  if (!reads_texts && !flags.texts.empty() && flags.texts != kNoTexts) {
    fail(ExitStatus::kUsage,
         context.lang.pick("--texts is for --weights int4", "--texts 只用于 --weights int4"));
  }
  const auto loaded = reads_texts ? model::WeightMode::kExact : asked;
  const auto bundle =
      engine::load_bundle(source, bundle_options(context, 0, {.weights = loaded}), pool);

  const auto stopped = std::make_shared<std::atomic<bool>>(false);
  context.interrupts->on_interrupt([stopped] { *stopped = true; });
  tasks::Quantized quantized;
  if (reads_texts) quantized = quantize(context, flags, *bundle, *stopped, pool);
  const model::Model& model = quantized.model ? *quantized.model : *bundle->model;
  Progress progress(flags.output);
  files::MuniaFileWriter::Callbacks callbacks;
  callbacks.on_progress = [&](std::uint64_t done, std::uint64_t total) {
    progress.show(done, total);
  };
  callbacks.cancelled = [stopped] { return stopped->load(); };
  const auto begin = Clock::now();
  const Result<std::uint64_t> size =
      engine::pack_bundle(*bundle, model, flags.output, "munia " MUNIA_VERSION, callbacks);
  const double write_seconds = seconds_since(begin);
  progress.end();
  context.interrupts->on_interrupt({});
  if (!size) {
    const bool cancelled = size.error().code == ErrorCode::kCancelled;
    if (cancelled) print_note(size.error().message);
    fail(cancelled ? ExitStatus::kInterrupted : ExitStatus::kFailed, size.error().message);
  }
  const model::Weights& weights = model.weights();
  if (context.json) {
    JsonWriter writer;
    writer.begin_object()
        .field("path", flags.output)
        .field("size_bytes", *size)
        .field("model", bundle->name)
        .field("source", source)
        .field("weights", weight_mode_name(weights.mode))
        .field("weight_types", weights.types)
        .field("weight_bytes", weights.size_bytes)
        .field("layout", kernels::kPackedLayout)
        .field("texts", quantized.n_texts)
        .field("text_tokens", quantized.n_tokens)
        .field("divergence", quantized.divergence)
        .field("load_seconds", bundle->load_seconds)
        .field("write_seconds", write_seconds)
        .end_object();
    context.out->line(writer.text());
    return ExitStatus::kDone;
  }
  print_note(context.lang.tr("{} packed ({}, {}): loaded in {:.2f} s, written in {:.2f} s",
                             "已打包 {}（{}，{}）：加载 {:.2f} 秒，写入 {:.2f} 秒", bundle->name,
                             weights.types, show_bytes(*size), bundle->load_seconds,
                             write_seconds));
  context.out->line(flags.output);
  return ExitStatus::kDone;
}

void describe_output(CommandSpec& spec, PackFlags& flags) {
  spec.option("-o,--output", flags.output, "FILE.munia", "the file to write", "要写的文件");
  spec.flag("--force", flags.force, "replace the file if it exists", "文件已存在时覆盖");
}

}  // namespace

void add_pack(CommandLine& line, Context& context) {
  CommandSpec& spec =
      line.command("pack", "write the model as one packed .munia file, which loads at once",
                   "把模型写成一个打包的 .munia 文件，可立即加载");
  const auto flags = std::make_shared<PackFlags>();
  describe_output(spec, *flags);
  spec.run([&context, flags] { return run_pack(context, *flags, std::nullopt); });
}

void add_quantize(CommandLine& line, Context& context) {
  CommandSpec& spec =
      line.command("quantize", "write the model with 8- or 4-bit weights as one packed .munia file",
                   "把模型的权重量化为 8 位或 4 位，写成一个打包的 .munia 文件");
  const auto flags = std::make_shared<PackFlags>();
  describe_output(spec, *flags);
  spec.option(
      "--texts", flags->texts, "FILE|none",
      "for int4: texts like those that will be read, one a line; the weights are rounded so "
      "that the answers to them change least (default: built-in ones; none: each weight for "
      "itself)",
      "用于 int4：与将来要处理的文本相似的文本，每行一条；权重的取整使这些文本的结果变化最小"
      "（默认：内置文本；none：逐个权重取整）");
  spec.run([&context, flags] {
    // Without a word the safer of both.
    const auto mode = context.settings.weights().value_or(model::WeightMode::kInt8);
    if (mode == model::WeightMode::kExact) {
      fail(ExitStatus::kUsage,
           context.lang.pick("quantize makes int8 or int4 weights; `munia pack` writes exact ones",
                             "quantize 生成 int8 或 int4 权重；exact 权重请用 `munia pack`"));
    }
    return run_pack(context, *flags, mode);
  });
}

}  // namespace munia::cli
