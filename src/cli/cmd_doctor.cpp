// munia doctor: what this machine gives and what munia makes of it, what could be set better, and
// self-tests of kernels and tokenizer.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/json_writer.h"
#include "base/mapped_file.h"
#include "base/sha256.h"
#include "base/system_info.h"
#include "cli/commands.h"
#include "cli/self_check.h"
#include "cli/session.h"
#include "files/munia_file.h"
#include "model/weights.h"

namespace munia::cli {
namespace {

class Doctor {
 public:
  explicit Doctor(const Context& context) : context_(context), lang_(context.lang) {}

  ExitStatus run();

 private:
  void report(const char* check, const std::string& value, const std::string& hint = "");
  void cpu();
  void report_threads();
  void memory();
  void kernels_test();
  void model();
  void model_file(const std::filesystem::path& path);
  void packed_file(const std::filesystem::path& path);

  const Context& context_;
  Lang lang_;
  bool failed_ = false;
};

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

void Doctor::report(const char* check, const std::string& value, const std::string& hint) {
  if (context_.json) {
    JsonWriter writer;
    writer.begin_object().field("check", check).field("value", value);
    writer.key("hint");
    hint.empty() ? writer.null() : writer.value(hint);
    writer.end_object();
    context_.out->line(writer.text());
    return;
  }
  context_.out->line(fmt::format("{:<15} {}", check, value));
  if (!hint.empty()) context_.out->line(fmt::format("{:<15} -> {}", "", hint));
}

void Doctor::cpu() {
  report("cpu", cpu_name().value_or(lang_.pick("unknown", "未知")));
  report("features", join(cpu_features()));

  const kernels::KernelList list = kernels::available_kernels();
  std::vector<std::string> rungs;
  for (int i = 0; i < list.n_rungs; ++i) rungs.emplace_back(list.rungs[i]->name);
  report("kernels", join(rungs));
  const std::string& asked = context_.settings.isa();
  const kernels::Kernels* chosen = kernels::select_kernels(asked);
  if (chosen == nullptr) {
    failed_ = true;
    report("kernel chosen",
           lang_.tr("none: this machine cannot run {}", "无：本机不能运行 {}", asked));
  } else if (asked.empty()) {
    report("kernel chosen",
           lang_.tr("{}: the best of this machine; --isa or MUNIA_ISA takes another",
                    "{}：本机最好的；可用 --isa 或 MUNIA_ISA 另选", chosen->name));
  } else {
    report("kernel chosen", lang_.tr("{}: asked for by {}", "{}：由 {} 指定", chosen->name,
                                     context_.settings.origin_text("isa")));
  }
  const std::string_view problem = kernels::amx_problem();
  report("amx", problem.empty()
                    ? lang_.pick("works; its tiles passed their self-test", "可用；自检通过")
                    : lang_.tr("not used: {}", "未使用：{}", problem));
  report_threads();

  const CgroupFacts cgroup = read_cgroup();
  if (cgroup.throttled_periods) {
    report("throttling",
           lang_.tr("{} periods, {:.1f} s since the container started",
                    "容器启动以来 {} 个周期，共 {:.1f} 秒", *cgroup.throttled_periods,
                    cgroup.throttled_seconds.value_or(0)),
           *cgroup.throttled_periods == 0
               ? ""
               : lang_.pick("the CPU quota has stopped this container: latency jumps; raise the "
                            "quota or lower --threads",
                            "CPU 配额曾使本容器暂停，延迟会突增；请提高配额或减小 --threads"));
  } else {
    report("throttling", lang_.pick("not told by the system", "系统未提供"));
  }
  const auto governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  report("governor", governor.value_or(lang_.pick("not told by the system", "系统未提供")),
         !governor || *governor == "performance"
             ? ""
             : "echo performance | sudo tee "
               "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor");
}

void Doctor::report_threads() {
  const std::optional<std::string> path = known_model_path(context_);
  const Threads threads = choose_threads(context_, path.value_or(""));
  report("threads", threads.reason);
  if (threads.tuned_from.empty()) {
    report("tuned", lang_.pick("no", "否"),
           path ? lang_.pick("`munia tune` measures which number of threads is best for the model",
                             "`munia tune` 可测出此模型的最佳线程数")
                : "");
  } else {
    report("tuned", threads.tuned_from);
  }
}

void Doctor::memory() {
  const auto huge = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const bool off = huge && huge->find("[never]") != std::string::npos;
  report("huge pages", huge.value_or(lang_.pick("not told by the system", "系统未提供")),
         off ? "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled" : "");
  report("memory", keyed_value("/proc/meminfo", "MemTotal").value_or("?") +
                       lang_.pick(" in all, ", "（总量），") +
                       keyed_value("/proc/meminfo", "MemAvailable").value_or("?") +
                       lang_.pick(" available", "（可用）"));
  const CgroupFacts cgroup = read_cgroup();
  report("memory limit", cgroup.memory_limit_bytes ? show_bytes(*cgroup.memory_limit_bytes)
                                                   : lang_.pick("none (cgroup)", "无（cgroup）"));
}

void Doctor::kernels_test() {
  for (const KernelCheck& check : check_kernels()) {
    const bool equal = check.failed.empty();
    failed_ = failed_ || !equal;
    std::string own;
    if (check.n_own_order > 0) {
      own = lang_.tr(" ({} of them to the emulation of its tiles)",
                     "（其中 {} 种与模拟的 tile 相同）", check.n_own_order);
    }
    report("kernel test",
           equal ? lang_.tr("{}: equal to scalar byte for byte, {} weight types{}",
                            "{}：与 scalar 逐字节相同，{} 种权重类型{}", check.rung, check.n_types,
                            own)
                 : lang_.tr("{}: FAILED, differs from scalar for {}",
                            "{}：失败，与 scalar 不同：{}", check.rung, join(check.failed)));
  }
}

void Doctor::model_file(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path.string());
  if (!file) {
    failed_ = true;
    report("model file", file.error().message);
    return;
  }
  constexpr std::size_t kStep = std::size_t{16} << 20;
  Sha256 hash;
  for (std::size_t begin = 0; begin < file->bytes().size(); begin += kStep) {
    const auto part = file->bytes().subspan(begin, std::min(kStep, file->bytes().size() - begin));
    hash.update(part);
    file->drop(part);
  }
  report("model file", path.filename().string() + "  " + show_bytes(file->bytes().size()) +
                           "  sha256 " + hash.hex_digest());
}

void Doctor::packed_file(const std::filesystem::path& path) {
  const auto file = files::MuniaFile::open(path.string(), kernels::kPackedLayout);
  Status status = file ? Status() : Status(file.error());
  if (status) {
    ThreadPool pool(pool_options(context_, choose_threads(context_, path.string())));
    status = model::verify_packed(**file, pool);
  }
  failed_ = failed_ || !status;
  report("packed file", status ? lang_.tr("{} parts, all checksums right; layout {}",
                                          "{} 个部分，校验和全部正确；布局 {}",
                                          (*file)->parts().size(), (*file)->layout())
                               : status.error().message);
}

void Doctor::model() {
  std::string found;
  try {
    found = find_model_path(context_, context_.settings.model());
  } catch (const CommandFailure& failure) {
    if (context_.settings.value("model").origin != Origin::kDefault) throw;
    report("model",
           lang_.pick("none here; the tests that need one are left out",
                      "本机没有模型；需要模型的检查已略过"),
           failure.what());
    return;
  }
  namespace fs = std::filesystem;
  report("model", found);
  std::error_code error;
  std::vector<fs::path> files;
  if (fs::is_directory(found, error)) {
    for (fs::directory_iterator entry(found, error), end; !error && entry != end;
         entry.increment(error)) {
      std::error_code ignored;
      if (entry->is_regular_file(ignored)) files.push_back(entry->path());
    }
  } else {
    files.emplace_back(found);
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    model_file(file);
    if (file.extension() == ".munia") packed_file(file);
  }
  const auto bundle = open_text(context_);
  const std::string wrong = check_tokenizer(*bundle->tokenizer);
  failed_ = failed_ || !wrong.empty();
  report("tokenizer test",
         wrong.empty() ? lang_.tr("texts come back whole; {} tokens", "文本往返一致；{} 个词元",
                                  bundle->tokenizer->vocab_size())
                       : lang_.tr("FAILED: {}", "失败：{}", wrong));
}

ExitStatus Doctor::run() {
  report("version", "munia " MUNIA_VERSION);
  cpu();
  memory();
  kernels_test();
  model();
  return failed_ ? ExitStatus::kFailed : ExitStatus::kDone;
}

}  // namespace

void add_doctor(CommandLine& line, Context& context) {
  line.command("doctor", "what this machine gives, what to set better, and self-tests",
               "检查本机条件、可改进的设置，并自检")
      .run([&context] { return Doctor(context).run(); });
}

}  // namespace munia::cli
