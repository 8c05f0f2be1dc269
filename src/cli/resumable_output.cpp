#include "cli/resumable_output.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/json_writer.h"

namespace munia::cli {
namespace {

namespace json = boost::json;

constexpr std::string_view kVersion = "1";

std::optional<std::uint64_t> size_of(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(info.st_size);
}

std::optional<json::object> parse_line(const std::string& line) {
  json::error_code code;
  const json::value value = json::parse(line, code);
  if (code || !value.is_object()) return std::nullopt;
  return value.get_object();
}

std::int64_t number(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_int64() ? value->get_int64() : -1;
}

std::string identity_line(const ResumableOutput::Identity& identity) {
  JsonWriter writer;
  writer.begin_object().field("journal", kVersion);
  for (const auto& [name, value] : identity) writer.field(name, value);
  return writer.end_object().text() + "\n";
}

std::string commit_line(const BulkProgress& progress) {
  JsonWriter writer;
  writer.begin_object()
      .field("read", progress.n_read)
      .field("rejected", progress.n_rejected)
      .field("bytes", progress.out_bytes)
      .field("rejects_bytes", progress.rejects_bytes)
      .end_object();
  return writer.text() + "\n";
}

/// A key of the identity in a sentence.
std::string shown_name(const Lang& lang, const std::string& name) {
  if (name == "input") return lang.pick("input", "输入");
  if (name == "task") return lang.pick("task", "任务");
  if (name == "model") return lang.pick("model", "模型");
  return lang.pick("set of options", "选项");
}

}  // namespace

ResumableOutput::ResumableOutput(const Context& context, std::string path, std::string rejects_path,
                                 const Identity& identity, bool resume)
    : context_(context),
      path_(std::move(path)),
      partial_path_(path_ + ".partial"),
      journal_path_(path_ + ".journal"),
      rejects_path_(std::move(rejects_path)) {
  const bool unfinished = size_of(partial_path_).has_value() && size_of(journal_path_).has_value();
  if (unfinished && !resume) {
    fail(
        ExitStatus::kUsage,
        context.lang.tr("{} is there from a run that did not end: go on with --resume, or remove "
                        "it and {} to begin anew",
                        "{} 是一次未完成的运行留下的：可用 --resume 继续，或删除它和 {} 后重新开始",
                        partial_path_, journal_path_));
  }
  partial_ = open_file(partial_path_);
  if (flock(partial_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    fail(ExitStatus::kUsage, context.lang.tr("another run is writing {} now; wait for its end",
                                             "另一个运行正在写入 {}；请等它结束", partial_path_));
  }
  if (unfinished) read_journal(identity);
  cut(partial_, progress_.out_bytes, partial_path_);
  if (!rejects_path_.empty()) {
    rejects_ = open_file(rejects_path_);
    cut(rejects_, progress_.rejects_bytes, rejects_path_);
  }
  // Anew and by a rename, so that commits of bytes that were lost are gone, and a kill leaves the
  // old journal or the new one.
  const std::string new_path = journal_path_ + ".new";
  journal_ = open_file(new_path);
  cut(journal_, 0, new_path);
  write_all(journal_, identity_line(identity) + commit_line(progress_), new_path);
  if (rename(new_path.c_str(), journal_path_.c_str()) != 0) fail_write(journal_path_);
}

ResumableOutput::~ResumableOutput() {
  for (const int fd : {partial_, journal_, rejects_}) {
    if (fd >= 0) close(fd);
  }
}

// Sets progress_ to the last commit whose bytes are there; without one the run begins anew.
void ResumableOutput::read_journal(const Identity& identity) {
  std::ifstream in(journal_path_);
  std::string line;
  if (!std::getline(in, line)) return;
  const auto first = parse_line(line);
  if (!first) return;
  const auto text_of = [&](const std::string& name) -> std::string {
    const json::value* value = first->if_contains(name);
    return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
  };
  if (text_of("journal") != kVersion) {
    fail(ExitStatus::kUsage,
         context_.lang.tr("{} is of another version of munia; remove it and {} to begin anew",
                          "{} 来自另一个版本的 munia；请删除它和 {} 后重新开始", journal_path_,
                          partial_path_));
  }
  for (const auto& [name, value] : identity) {
    if (text_of(name) == value) continue;
    const std::string what = shown_name(context_.lang, name);
    fail(ExitStatus::kUsage,
         context_.lang.tr("cannot resume {}: it was made with another {}; use the same, or remove "
                          "it and {} to begin anew",
                          "无法继续 {}：它所用的{}与这次不同；请保持相同，或删除它和 {} 后重新开始",
                          partial_path_, what, journal_path_));
  }
  const std::uint64_t n_out = size_of(partial_path_).value_or(0);
  const std::uint64_t n_rejects = rejects_path_.empty() ? 0 : size_of(rejects_path_).value_or(0);
  while (std::getline(in, line)) {
    const auto commit = parse_line(line);
    if (!commit) return;  // cut off by the kill
    const std::int64_t n_read = number(*commit, "read");
    const std::int64_t n_rejected = number(*commit, "rejected");
    const std::int64_t out = number(*commit, "bytes");
    const std::int64_t rejects = number(*commit, "rejects_bytes");
    if (n_read < 0 || n_rejected < 0 || out < 0 || rejects < 0) return;
    // After a power cut the journal may know more than the disk.
    if (static_cast<std::uint64_t>(out) > n_out ||
        static_cast<std::uint64_t>(rejects) > n_rejects) {
      return;
    }
    progress_ = {n_read, n_rejected, static_cast<std::uint64_t>(out),
                 static_cast<std::uint64_t>(rejects)};
  }
}

int ResumableOutput::open_file(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) fail_write(path);
  return fd;
}

/// Leaves the first `size` bytes and goes on behind them.
void ResumableOutput::cut(int fd, std::uint64_t size, const std::string& path) {
  const auto end = static_cast<off_t>(size);
  // A pipe or a device (as rejects) cannot be cut, and has nothing to cut.
  if ((ftruncate(fd, end) != 0 && errno != EINVAL) ||
      (lseek(fd, end, SEEK_SET) < 0 && errno != ESPIPE)) {
    fail_write(path);
  }
}

void ResumableOutput::write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_write(path);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void ResumableOutput::fail_write(const std::string& path) const {
  const int code = errno;
  fail(ExitStatus::kFailed,
       context_.lang.tr("cannot write {}: {}", "无法写入 {}：{}", path, std::strerror(code)));
}

void ResumableOutput::commit(std::string_view rows, std::string_view rejects, std::int64_t n_read,
                             std::int64_t n_rejected) {
  write_all(partial_, rows, partial_path_);
  if (rejects_ >= 0) write_all(rejects_, rejects, rejects_path_);
  // The rows reach the disk before the journal speaks of them.
  if ((fdatasync(partial_) != 0 && errno != EINVAL && errno != EROFS) ||
      (rejects_ >= 0 && fdatasync(rejects_) != 0 && errno != EINVAL && errno != EROFS)) {
    fail_write(partial_path_);
  }
  progress_.n_read = n_read;
  progress_.n_rejected = n_rejected;
  progress_.out_bytes += rows.size();
  if (rejects_ >= 0) progress_.rejects_bytes += rejects.size();
  write_all(journal_, commit_line(progress_), journal_path_);
}

void ResumableOutput::finish() {
  if (rename(partial_path_.c_str(), path_.c_str()) != 0) fail_write(path_);
  unlink(journal_path_.c_str());
}

}  // namespace munia::cli
