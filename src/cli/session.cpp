#include "cli/session.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <utility>

#include "cli/system_info.h"
#include "kernels/kernels.h"

namespace munia::cli {
namespace {

constexpr std::int64_t kSequences = 16;

std::string isa_names() {
  std::string names;
  const kernels::KernelList list = kernels::available_kernels();
  for (int i = 0; i < list.n_rungs; ++i) {
    names += (names.empty() ? "" : ", ") + std::string(list.rungs[i]->name);
  }
  return names;
}

void check_isa(const Context& context) {
  const std::string& isa = context.settings.isa();
  if (isa.empty() || kernels::select_kernels(isa) != nullptr) return;
  std::string names = isa_names();
  if (isa == "amx") names += fmt::format(" (amx: {})", kernels::amx_problem());
  fail(ExitStatus::kUsage,
       context.lang.tr("{} {}: this machine cannot run it, or there is no such instruction set; "
                       "it can run: {}",
                       "{} {}：本机不能运行，或没有这种指令集；本机可用的有：{}",
                       context.settings.origin_text("isa"), isa, names));
}

/// One line where the CPU has AMX and munia has to do without.
void tell_unused_amx(const Context& context) {
  const std::string_view problem = kernels::amx_problem();
  if (problem.empty() || !context.settings.isa().empty()) return;
  const std::vector<std::string> features = cpu_features();
  if (std::find(features.begin(), features.end(), "amx_bf16") == features.end()) return;
  print_note(context.lang.tr("AMX is not used: {}", "未使用 AMX：{}", problem));
}

std::uint64_t weight_file_bytes(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const auto size = fs::file_size(path, error);
    return error ? 0 : size;
  }
  std::uint64_t total = 0;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().extension() == ".safetensors") total += entry->file_size(ignored);
  }
  return total;
}

/// What a whole context of one sequence, and the scratch of one step, take.
struct MemoryNeed {
  std::uint64_t weights = 0;
  std::uint64_t kv_one_context = 0;
  std::uint64_t activations = 0;
};

MemoryNeed memory_need(const model::Model& model, std::int64_t prefill_chunk) {
  const model::ModelConfig& config = model.config();
  MemoryNeed need;
  need.weights = model.weights().arena.size_bytes();
  const std::int64_t pages = (model.context() + kernels::kPageTokens - 1) / kernels::kPageTokens;
  need.kv_one_context = static_cast<std::uint64_t>(pages) * model.kv_layout().page_bytes();
  const std::int64_t row_floats = 2 * config.hidden_dim +
                                  (2 * config.n_heads + 2 * config.n_kv_heads) * config.head_dim +
                                  2 * config.ffn_dim;
  const std::int64_t logit_rows = 2 * kSequences;
  need.activations =
      static_cast<std::uint64_t>(prefill_chunk * row_floats + logit_rows * config.vocab_size) *
      sizeof(float);
  return need;
}

[[noreturn]] void refuse_memory(const Context& context, std::uint64_t limit,
                                const MemoryNeed& need) {
  fail(ExitStatus::kCannotLoad,
       context.lang.tr(
           "--max-memory {} is too small: weights {} + KV of one context {} + scratch "
           "{} = {}; raise it, or shorten --context or --prefill-chunk",
           "--max-memory {} 太小：权重 {} + 一个上下文的 KV {} + 计算缓冲 {} = {}；请调大，"
           "或减小 --context 或 --prefill-chunk",
           show_bytes(limit), show_bytes(need.weights), show_bytes(need.kv_one_context),
           show_bytes(need.activations),
           show_bytes(need.weights + need.kv_one_context + need.activations)));
}

}  // namespace

std::string show_bytes(std::uint64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double amount = static_cast<double>(bytes);
  int unit = 0;
  while (amount >= 1024 && unit < 4) {
    amount /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", amount, units[unit]);
}

Threads choose_threads(const Context& context) {
  const CpuTopology topology = detect_cpu_topology();
  Threads threads;
  threads.cpus = context.settings.cpus();
  for (const int cpu : threads.cpus) {
    if (std::find(topology.allowed_cpus.begin(), topology.allowed_cpus.end(), cpu) !=
        topology.allowed_cpus.end()) {
      continue;
    }
    fail(ExitStatus::kUsage,
         context.lang.tr("{} {}: this process may not use CPU {}", "{} {}：本进程不能使用 CPU {}",
                         context.settings.origin_text("cpus"), context.settings.value("cpus").text,
                         cpu));
  }
  if (const auto asked = context.settings.threads()) {
    threads.n = *asked;
    threads.reason = context.lang.tr("{} threads: asked for by {}", "{} 个线程：由 {} 指定",
                                     threads.n, context.settings.origin_text("threads"));
  } else if (!threads.cpus.empty()) {
    threads.n = static_cast<int>(threads.cpus.size());
    threads.reason = context.lang.tr("{} threads: one for each CPU of --cpus",
                                     "{} 个线程：--cpus 的每个 CPU 一个", threads.n);
  } else {
    threads.n = topology.n_threads;
    threads.reason = topology.reason;
  }
  return threads;
}

std::string find_model_path(const Context& context, const std::string& model) {
  Result<std::string> path = hub::resolve(model, context.hub);
  const bool unnamed = context.settings.value("model").origin == Origin::kDefault &&
                       model == context.settings.model();
  if (!path && unnamed) {
    // Nobody named a model: the one that `pull --default` settled on, and it says which that is.
    if (const Result<hub::InstalledModel> settled = hub::find_default(context.hub)) {
      print_note(hub::describe(*settled));
      return settled->path;
    }
  }
  if (!path) fail(ExitStatus::kCannotLoad, path.error().message);
  return *std::move(path);
}

Session open_session(const Context& context) {
  return open_session(context, context.settings.model());
}

Session open_session(const Context& context, const std::string& model) {
  check_isa(context);
  tell_unused_amx(context);
  Session session;
  session.threads = choose_threads(context);
  const std::string path = find_model_path(context, model);
  const std::optional<std::uint64_t> limit = context.settings.max_memory();
  if (const std::uint64_t file_bytes = weight_file_bytes(path); limit && file_bytes > *limit) {
    fail(ExitStatus::kCannotLoad,
         context.lang.tr("--max-memory {} is too small: the weights of {} alone take {}",
                         "--max-memory {} 太小：{} 的权重就有 {}", show_bytes(*limit), path,
                         show_bytes(file_bytes)));
  }
  engine::EngineOptions options;
  options.max_sequences = kSequences;
  options.prefill_chunk = context.settings.prefill_chunk();
  options.kv_cache = context.settings.kv_cache();
  try {
    auto pool = std::make_unique<ThreadPool>(
        ThreadPool::Options{session.threads.n, session.threads.cpus, context.settings.spin_us()});
    session.bundle =
        engine::load_bundle(path, {context.settings.isa(), context.settings.context()}, *pool);
    if (limit) {
      const MemoryNeed need = memory_need(*session.bundle->model, options.prefill_chunk);
      if (need.weights + need.kv_one_context + need.activations > *limit) {
        refuse_memory(context, *limit, need);
      }
      options.max_kv_bytes = static_cast<std::size_t>(*limit - need.weights - need.activations);
    }
    session.engine = std::make_unique<engine::Engine>(session.bundle, std::move(pool), options);
  } catch (const LoadError& error) {
    fail(ExitStatus::kCannotLoad, error.what());
  } catch (const std::bad_alloc&) {
    fail(ExitStatus::kCannotLoad,
         context.lang.tr("not enough memory to load {}", "内存不足，无法加载 {}", path));
  }
  return session;
}

std::shared_ptr<const engine::ModelBundle> open_text(const Context& context) {
  const std::string path = find_model_path(context, context.settings.model());
  try {
    return engine::load_text_bundle(path);
  } catch (const LoadError& error) {
    fail(ExitStatus::kCannotLoad, error.what());
  }
}

}  // namespace munia::cli
