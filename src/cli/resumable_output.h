// An output file that is never half-written and survives a kill at any moment. Rows go to
// PATH.partial; PATH.journal says what they were made from and, commit by commit, how far they are
// good; finish() gives the file its name and removes the journal. What a killed run wrote after its
// last commit is cut off when the next one resumes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "cli/context.h"

namespace munia::cli {

struct BulkProgress {
  std::int64_t n_read = 0;      // rows taken from the input, rejected ones included
  std::int64_t n_rejected = 0;  // of them
  std::uint64_t out_bytes = 0;
  std::uint64_t rejects_bytes = 0;
};

class ResumableOutput {
 public:
  /// What a run depends on, by name ("input", "task", "model", …): a run resumes only where all of
  /// it is the same.
  using Identity = std::map<std::string, std::string>;

  /// Begins anew, or goes on where a killed run stopped. `rejects_path` may be empty. Fails with
  /// status 2 when an unfinished file is there and `resume` is not asked for, was made from
  /// something else (which is named), or is being written by another run; with status 1 when a file
  /// can't be written.
  ResumableOutput(const Context& context, std::string path, std::string rejects_path,
                  const Identity& identity, bool resume);
  ~ResumableOutput();
  ResumableOutput(const ResumableOutput&) = delete;
  ResumableOutput& operator=(const ResumableOutput&) = delete;

  /// How far the file is good: at first how far an earlier run came, all zero when it begins anew.
  const BulkProgress& progress() const { return progress_; }
  /// Appends rows and rejected rows and makes them good; `n_read` and `n_rejected` of all so far.
  void commit(std::string_view rows, std::string_view rejects, std::int64_t n_read,
              std::int64_t n_rejected);
  /// The file gets its name; the journal goes.
  void finish();

 private:
  int open_file(const std::string& path);
  void cut(int fd, std::uint64_t size, const std::string& path);
  void write_all(int fd, std::string_view bytes, const std::string& path);
  void read_journal(const Identity& identity);
  [[noreturn]] void fail_write(const std::string& path) const;

  const Context& context_;
  std::string path_;
  std::string partial_path_;
  std::string journal_path_;
  std::string rejects_path_;
  int partial_ = -1;
  int journal_ = -1;
  int rejects_ = -1;
  BulkProgress progress_;
};

}  // namespace munia::cli
