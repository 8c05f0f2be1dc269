#include "cli/session.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <utility>

#include "base/affinity.h"
#include "base/system_info.h"
#include "cli/tuned.h"
#include "kernels/kernels.h"

namespace munia::cli {
namespace {

constexpr std::uint64_t kPrefixCacheShare = 8;  // of the machine's memory

// What this process may use: the machine's memory or the container's limit.
std::uint64_t memory_bytes() {
  const auto pages = sysconf(_SC_PHYS_PAGES);
  const auto page_bytes = sysconf(_SC_PAGE_SIZE);
  std::uint64_t bytes = UINT64_MAX;
  if (pages > 0 && page_bytes > 0) {
    bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
  }
  return std::min(bytes, read_cgroup().memory_limit_bytes.value_or(UINT64_MAX));
}

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

/// --weights, or nothing where nobody said it: then a packed file's own are taken.
std::optional<model::WeightMode> weights_of(const Context& context, const SessionNeeds& needs) {
  return needs.weights ? needs.weights : context.settings.weights();
}

/// --head. The copy for screening is left out where nothing is greedy, and where --max-memory
/// hardly holds the weights.
model::HeadMode head_mode(const Context& context, std::uint64_t file_bytes, bool greedy) {
  const std::string& head = context.settings.head();
  if (head == "screened") return model::HeadMode::kScreened;
  const std::optional<std::uint64_t> limit = context.settings.max_memory();
  const bool is_tight = limit && *limit < file_bytes + file_bytes / 2;
  return head == "full" || is_tight || !greedy ? model::HeadMode::kFull : model::HeadMode::kAuto;
}

/// What a whole context of one sequence, and the scratch of one step, take.
struct MemoryNeed {
  std::uint64_t weights = 0;
  std::uint64_t kv_one_context = 0;
  std::uint64_t activations = 0;
};

std::uint64_t one_context_bytes(const model::Model& model) {
  const std::int64_t pages = (model.context() + kernels::kPageTokens - 1) / kernels::kPageTokens;
  return static_cast<std::uint64_t>(pages) * model.kv_layout().page_bytes();
}

MemoryNeed memory_need(const model::Model& model, const engine::EngineOptions& options) {
  const model::ModelConfig& config = model.config();
  MemoryNeed need;
  need.weights = model.weights().size_bytes + model.head_screen().size_bytes();
  need.kv_one_context = one_context_bytes(model);
  const std::int64_t row_floats = 2 * config.hidden_dim +
                                  (2 * config.n_heads + 2 * config.n_kv_heads) * config.head_dim +
                                  2 * config.ffn_dim;
  const std::int64_t logit_rows = 2 * options.max_sequences;
  need.activations = static_cast<std::uint64_t>(options.prefill_chunk * row_floats +
                                                logit_rows * config.vocab_size) *
                     sizeof(float);
  return need;
}

/// With as many positions as are needed, or as the model has.
std::shared_ptr<const engine::ModelBundle> load(const std::string& path,
                                                engine::BundleOptions options,
                                                const SessionNeeds& needs, ThreadPool& pool) {
  if (needs.context == 0) return engine::load_bundle(path, options, pool);
  options.context = needs.context;
  try {
    return engine::load_bundle(path, options, pool);
  } catch (const LoadError&) {  // most likely more than the model has: it is refused at once
    options.context = 0;
    auto bundle = engine::load_bundle(path, options, pool);
    options.context = bundle->model->config().context_length;
    if (options.context <= bundle->model->context()) return bundle;
    bundle.reset();
    return engine::load_bundle(path, options, pool);
  }
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

engine::BundleOptions bundle_options(const Context& context, std::uint64_t file_bytes,
                                     const SessionNeeds& needs) {
  const Settings& settings = context.settings;
  engine::BundleOptions options;
  options.isa = settings.isa();
  options.context = settings.context();
  options.head = head_mode(context, file_bytes, needs.greedy);
  options.weights = weights_of(context, needs);
  options.load = settings.load_mapped() ? model::LoadWay::kMap : model::LoadWay::kCopy;
  options.verify = settings.verify();
  return options;
}

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

namespace {

void check_cpus(const Context& context, const CpuTopology& topology) {
  for (const int cpu : context.settings.cpus()) {
    if (std::find(topology.allowed_cpus.begin(), topology.allowed_cpus.end(), cpu) !=
        topology.allowed_cpus.end()) {
      continue;
    }
    fail(ExitStatus::kUsage,
         context.lang.tr("{} {}: this process may not use CPU {}; it may use the CPUs {}",
                         "{} {}：本进程不能使用 CPU {}；可用的 CPU 有 {}",
                         context.settings.origin_text("cpus"), context.settings.value("cpus").text,
                         cpu, format_cpu_list(topology.allowed_cpus)));
  }
}

}  // namespace

Threads choose_threads(const Context& context, const std::string& model_path) {
  const CpuTopology topology = detect_cpu_topology();
  const Settings& settings = context.settings;
  Threads threads;
  check_cpus(context, topology);
  threads.cpus = settings.cpus();
  std::optional<TunedThreads> tuned;
  if (settings.value("threads").origin == Origin::kDefault && !model_path.empty()) {
    tuned = tuned_threads(context, model_path, topology);
  }
  if (const auto asked = settings.threads()) {
    threads.n = *asked;
    threads.reason = context.lang.tr("{} threads: asked for by {}", "{} 个线程：由 {} 指定",
                                     threads.n, settings.origin_text("threads"));
  } else if (tuned) {
    threads.n = tuned->threads;
    threads.n_decode = tuned->decode_threads;
    threads.tuned_from = tuned_path(context);
    threads.reason = context.lang.tr(
        "{} threads, {} for the tokens of a reply: measured by `munia tune` for this model here",
        "{} 个线程，生成回复时 {} 个：由 `munia tune` 为此模型在本机测得", threads.n,
        threads.n_decode);
  } else if (!threads.cpus.empty()) {
    threads.n = static_cast<int>(threads.cpus.size());
    threads.reason = context.lang.tr("{} threads: one for each CPU of --cpus",
                                     "{} 个线程：--cpus 的每个 CPU 一个", threads.n);
  } else {
    threads.n = topology.n_threads;
    threads.reason = topology.reason;
  }
  if (!tuned) threads.n_decode = threads.n;
  if (const auto asked = settings.decode_threads()) threads.n_decode = std::min(*asked, threads.n);
  if (threads.cpus.empty() && threads.n <= static_cast<int>(topology.node_cpus.size())) {
    threads.within = topology.node_cpus;
  }
  return threads;
}

ThreadPool::Options pool_options(const Context& context, const Threads& threads) {
  return {threads.n, threads.cpus, context.settings.spin_us(), threads.within};
}

std::optional<std::string> known_model_path(const Context& context) {
  Result<std::string> path = hub::resolve(context.settings.model(), context.hub);
  if (path) return *std::move(path);
  if (context.settings.value("model").origin != Origin::kDefault) return std::nullopt;
  const Result<hub::InstalledModel> settled = hub::find_default(context.hub);
  return settled ? std::optional(settled->path) : std::nullopt;
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

Session open_session(const Context& context, const SessionNeeds& needs) {
  return open_session(context, context.settings.model(), needs);
}

Session open_session(const Context& context, const std::string& model, const SessionNeeds& needs) {
  check_isa(context);
  tell_unused_amx(context);
  check_cpus(context, detect_cpu_topology());
  Session session;
  const std::string path = find_model_path(context, model);
  session.threads = choose_threads(context, path);
  const std::optional<std::uint64_t> limit = context.settings.max_memory();
  const std::uint64_t file_bytes = weight_file_bytes(path);
  const bool as_stored =
      weights_of(context, needs).value_or(model::WeightMode::kExact) == model::WeightMode::kExact;
  if (limit && as_stored && file_bytes > *limit) {
    fail(ExitStatus::kCannotLoad,
         context.lang.tr("--max-memory {} is too small: the weights of {} alone take {}",
                         "--max-memory {} 太小：{} 的权重就有 {}", show_bytes(*limit), path,
                         show_bytes(file_bytes)));
  }
  engine::EngineOptions options;
  options.max_sequences = needs.max_sequences;
  options.decode_threads = session.threads.n_decode;
  options.prefill_chunk = context.settings.prefill_chunk();
  options.kv_cache = context.settings.kv_cache();
  options.prefix_cache_bytes = context.settings.prefix_cache();
  try {
    auto pool = std::make_unique<ThreadPool>(pool_options(context, session.threads));
    session.bundle = load(path, bundle_options(context, file_bytes, needs), needs, *pool);
    if (limit) {
      const MemoryNeed need = memory_need(*session.bundle->model, options);
      if (need.weights + need.kv_one_context + need.activations > *limit) {
        refuse_memory(context, *limit, need);
      }
      options.max_kv_bytes = static_cast<std::size_t>(*limit - need.weights - need.activations);
    }
    if (!options.prefix_cache_bytes) {
      options.prefix_cache_bytes =
          std::min(one_context_bytes(*session.bundle->model), memory_bytes() / kPrefixCacheShare);
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
