#include "cli/tuned.h"

#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/affinity.h"
#include "base/mapped_file.h"
#include "base/sha256.h"
#include "base/system_info.h"
#include "kernels/kernels.h"

namespace munia::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxEntries = 64;
constexpr int kMaxThreads = 1024;
// Fewer threads are taken when they are as fast within the noise of such a measurement.
constexpr double kAsGood = 0.97;

std::string machine_digest() {
  std::string facts = cpu_name().value_or("?");
  for (const std::string& feature : cpu_features()) facts += ' ' + feature;
  facts += '|' + std::to_string(sysconf(_SC_NPROCESSORS_CONF));
  facts += '|' + first_line("/etc/machine-id").value_or("");
  // In GiB: the kernel's own part of the memory changes from start to start.
  const auto pages = static_cast<double>(sysconf(_SC_PHYS_PAGES));
  facts += fmt::format("|{:.0f}", pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 30));
  return sha256_hex(std::as_bytes(std::span(facts))).substr(0, 16);
}

/// Bytes and newest time of the model's files: another model under the same name is another key.
std::string model_stamp(const std::string& path) {
  std::uintmax_t bytes = 0;
  std::int64_t newest = INT64_MIN;  // the file clock's times are below 0 today
  const auto add = [&](const fs::path& file) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(file, error);
    if (error) return;
    bytes += size;
    const auto time = fs::last_write_time(file, error);
    if (!error) {
      newest = std::max<std::int64_t>(newest, time.time_since_epoch().count());
    }
  };
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (fs::directory_iterator entry(path, error), end; !error && entry != end;
         entry.increment(error)) {
      add(entry->path());
    }
  } else {
    add(path);
  }
  return std::to_string(bytes) + ':' + std::to_string(newest);
}

std::string canonical(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::canonical(path, error);
  return error ? path : whole.string();
}

std::string text_of(const json::object& entry, const char* key) {
  const json::value* value = entry.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

int count_of(const json::object& entry, const char* key) {
  const json::value* value = entry.if_contains(key);
  if (value == nullptr || !value->is_int64()) return 0;
  const std::int64_t count = value->get_int64();
  return count >= 1 && count <= kMaxThreads ? static_cast<int>(count) : 0;
}

TunedKey key_of(const json::object& entry) {
  return {text_of(entry, "machine"), text_of(entry, "model"), text_of(entry, "stamp"),
          text_of(entry, "cpus"),    text_of(entry, "quota"), text_of(entry, "isa")};
}

/// The entries of the file; none when it is absent or damaged.
json::array read_entries(const std::string& path) {
  const Result<std::string> content = read_file(path, kMaxFileBytes);
  if (!content) return {};
  json::error_code error;
  const json::value root = json::parse(*content, error);
  const json::object* object = error ? nullptr : root.if_object();
  const json::value* entries = object == nullptr ? nullptr : object->if_contains("entries");
  return entries != nullptr && entries->is_array() ? entries->get_array() : json::array{};
}

}  // namespace

TunedKey tuned_key(const Context& context, const std::string& model_path,
                   const CpuTopology& topology) {
  TunedKey key;
  key.machine = machine_digest();
  key.model = canonical(model_path);
  key.stamp = model_stamp(model_path);
  const std::vector<int> bound = context.settings.cpus();
  key.cpus = bound.empty() ? format_cpu_list(topology.allowed_cpus)
                           : context.settings.value("cpus").text + " bound";
  key.quota = topology.quota_cpus ? fmt::format("{:.4g}", *topology.quota_cpus) : "none";
  const kernels::Kernels* rung = kernels::select_kernels(context.settings.isa());
  key.isa = rung == nullptr ? "" : rung->name;
  return key;
}

TunedThreads pick_threads(const std::vector<CountSpeeds>& rows) {
  const auto fewest = [&](double CountSpeeds::*speed) {
    double best = 0;
    for (const CountSpeeds& row : rows) best = std::max(best, row.*speed);
    for (const CountSpeeds& row : rows) {
      if (row.*speed >= kAsGood * best) return row.threads;
    }
    return 1;
  };
  TunedThreads picked;
  picked.decode_threads = fewest(&CountSpeeds::decode);
  // The pool has as many threads as prompts use, and lets some rest while it decodes. Where
  // decoding gained more (an oddity of a noisy run), prompts lose nothing by the larger number.
  picked.threads = std::max(fewest(&CountSpeeds::prefill), picked.decode_threads);
  return picked;
}

std::string tuned_path(const Context& context) {
  return context.hub.home.empty() ? "" : context.hub.home + "/tuned.json";
}

std::optional<TunedThreads> find_tuned(const std::string& path, const TunedKey& key) {
  if (path.empty()) return std::nullopt;
  for (const json::value& value : read_entries(path)) {
    const json::object* entry = value.if_object();
    if (entry == nullptr || key_of(*entry) != key) continue;
    const TunedThreads found = {count_of(*entry, "threads"), count_of(*entry, "decode_threads")};
    if (found.threads < 1 || found.decode_threads < 1 || found.decode_threads > found.threads) {
      return std::nullopt;
    }
    return found;
  }
  return std::nullopt;
}

void store_tuned(const std::string& path, const TunedKey& key, const TunedThreads& threads,
                 const Context& context) {
  json::array entries = read_entries(path);
  const auto replaced = [&](const json::value& value) {
    const json::object* entry = value.if_object();
    if (entry == nullptr) return true;
    TunedKey old = key_of(*entry);
    old.stamp = key.stamp;  // of an older state of the same files
    return old == key;
  };
  entries.erase(std::remove_if(entries.begin(), entries.end(), replaced), entries.end());
  if (entries.size() >= kMaxEntries) entries.erase(entries.begin());
  entries.push_back(json::object{{"machine", key.machine},
                                 {"model", key.model},
                                 {"stamp", key.stamp},
                                 {"cpus", key.cpus},
                                 {"quota", key.quota},
                                 {"isa", key.isa},
                                 {"threads", threads.threads},
                                 {"decode_threads", threads.decode_threads}});
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const std::string part = path + '.' + std::to_string(getpid());
  {
    std::ofstream file(part, std::ios::binary);
    file << json::serialize(json::object{{"version", 1}, {"entries", std::move(entries)}}) << '\n';
    file.flush();
    if (!file) {
      const std::string why = std::strerror(errno);
      fs::remove(part, error);
      fail(ExitStatus::kFailed,
           context.lang.tr("cannot write {}: {}; --no-store only measures",
                           "无法写入 {}：{}；--no-store 只测量不保存", path, why));
    }
  }
  fs::rename(part, path, error);
  if (error) {
    const std::string why = error.message();
    fs::remove(part, error);
    fail(ExitStatus::kFailed,
         context.lang.tr("cannot write {}: {}; --no-store only measures",
                         "无法写入 {}：{}；--no-store 只测量不保存", path, why));
  }
}

std::optional<TunedThreads> tuned_threads(const Context& context, const std::string& model_path,
                                          const CpuTopology& topology) {
  const std::string path = tuned_path(context);
  if (path.empty() || access(path.c_str(), R_OK) != 0) return std::nullopt;
  return find_tuned(path, tuned_key(context, model_path, topology));
}

}  // namespace munia::cli
