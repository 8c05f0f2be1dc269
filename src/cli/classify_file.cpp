#include "cli/classify_file.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/session.h"
#include "cli/table_input.h"
#include "table/csv_writer.h"
#include "table/row_reader.h"
#include "table/row_writer.h"
#include "tasks/bulk.h"

namespace munia::cli {
namespace {

namespace fs = std::filesystem;
using table::Format;

// A kill costs what was computed after the last commit.
constexpr double kSecondsBetweenCommits = 1;
constexpr std::int64_t kRowsBetweenCommits = 1024;
constexpr std::size_t kMostBufferedBytes = std::size_t{4} << 20;
constexpr std::int64_t kMostNotes = 20;  // of rejected rows; the others are only counted

std::unique_ptr<table::RowReader> open_reader(const Context& context, const FilePlan& plan) {
  table::ReadOptions options;
  options.json_fields = {plan.options.column.empty() ? "text" : plan.options.column};
  return value_or_fail(table::open_rows(open_table(context, plan.input), plan.from, options));
}

/// The place of the texts among a row's fields.
std::size_t text_column(const Context& context, const FilePlan& plan,
                        const std::vector<std::string>& header) {
  if (plan.from == Format::kText || plan.from == Format::kJsonLines) return 0;
  if (!plan.options.column.empty()) {
    return value_or_fail(table::find_column(header, plan.options.column), plan.input + ": ");
  }
  for (const char* usual : {"text", "review"}) {
    if (std::find(header.begin(), header.end(), usual) != header.end()) {
      return value_or_fail(table::find_column(header, usual), plan.input + ": ");
    }
  }
  if (header.size() == 1) return 0;
  // The error names the columns.
  return value_or_fail(table::find_column(header, "text"),
                       context.lang.tr("{}: name the column of the texts with --column: ",
                                       "{}：请用 --column 指定文本所在的列：", plan.input));
}

/// A line on a terminal's standard error, again and again.
class Progress {
 public:
  Progress(const Context& context, std::uint64_t input_bytes)
      : context_(context), input_bytes_(input_bytes), shown_(stderr_is_terminal()) {}

  void show(std::int64_t n_rows, std::uint64_t bytes_read) {
    if (!shown_ || seconds_since(last_) < 0.2) return;
    last_ = Clock::now();
    const double seconds = seconds_since(begin_);
    std::string line = context_.lang.tr("{} rows  {:.1f}/s", "{} 行  {:.1f} 行/秒", n_rows,
                                        static_cast<double>(n_rows) / seconds);
    if (input_bytes_ > first_bytes_ && bytes_read > first_bytes_) {
      const double done = static_cast<double>(bytes_read - first_bytes_) /
                          static_cast<double>(input_bytes_ - first_bytes_);
      const auto left = static_cast<std::int64_t>(seconds * (1 - done) / done);
      line += context_.lang.tr("  {:.0f}%  {}:{:02}:{:02} left", "  {:.0f}%  剩余 {}:{:02}:{:02}",
                               100 * done, left / 3600, left / 60 % 60, left % 60);
    }
    show_progress(line);
  }
  /// What was read before counts as done.
  void begin(std::uint64_t bytes_read) {
    begin_ = Clock::now();
    first_bytes_ = bytes_read;
  }
  double seconds() const { return seconds_since(begin_); }

 private:
  const Context& context_;
  std::uint64_t input_bytes_;
  bool shown_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
  std::uint64_t first_bytes_ = 0;
};

/// Rows read and not written yet, and those that were.
class FileRun {
 public:
  FileRun(const Context& context, const FilePlan& plan)
      : context_(context), plan_(plan), reader_(open_reader(context, plan)) {
    text_column_ = text_column(context, plan, reader_->header());
    writer_ = value_or_fail(
        table::make_row_writer(plan.from, plan.to, reader_->header(), plan.added_names()),
        plan.input + ": ");
  }

  ExitStatus run() {
    if (plan_.to_file) {
      file_.emplace(context_, plan_.options.output, plan_.options.rejects,
                    identity_of(context_, plan_, model_path()), plan_.options.resume);
      n_read_ = file_->progress().n_read;
      n_rejected_ = file_->progress().n_rejected;
    }
    // A header that was committed before any row stands there already.
    const bool begins = !file_ || (n_read_ == 0 && file_->progress().out_bytes == 0 &&
                                   file_->progress().rejects_bytes == 0);
    skip_rows(n_read_);
    if (begins) {
      rows_ = writer_->header();
      rejects_ = rejects_header();
    }
    {
      const InterruptGuard guard(*this);
      label_rows();
    }
    flush();
    if (source_failure_) fail(request_status(source_failure_->code), source_failure_->message);
    if (file_) file_->finish();
    report();
    return n_rejected_ == 0 || !plan_.options.rejects.empty() ? ExitStatus::kDone
                                                              : ExitStatus::kBadInput;
  }

 private:
  struct PendingRow {
    table::Row row;
    std::string raw;
    std::string problem;  // why the row can't be used; empty: its text is being labelled
    std::size_t n_bytes() const {
      std::size_t n = raw.size();
      for (const std::string& field : row.fields) n += field.size();
      return n;
    }
  };

  /// Ctrl-C asks the loop to stop while there is something to keep; a second one, or one while
  /// standard input may be waited for, ends the process at once: what is committed stays.
  class InterruptGuard {
   public:
    explicit InterruptGuard(FileRun& run) : interrupts_(*run.context_.interrupts) {
      interrupts_.on_interrupt([&run] {
        if (run.interrupted_.exchange(true) || run.plan_.input == "-") {
          run.context_.out->finish_process(static_cast<int>(ExitStatus::kInterrupted));
        }
      });
    }
    ~InterruptGuard() { interrupts_.on_interrupt({}); }
    InterruptGuard(const InterruptGuard&) = delete;
    InterruptGuard& operator=(const InterruptGuard&) = delete;

   private:
    Interrupts& interrupts_;
  };

  /// Found once: finding it may tell the user about it.
  const std::string& model_path() {
    if (model_path_.empty()) model_path_ = find_model_path(context_, context_.settings.model());
    return model_path_;
  }

  void skip_rows(std::int64_t n_rows) {
    for (std::int64_t i = 0; i < n_rows; ++i) {
      const auto row = reader_->next();
      if ((row && !row->has_value()) || !reader_->can_continue()) {
        fail(ExitStatus::kFailed,
             context_.lang.tr("{} ends after {} rows, before the row where the last run stopped "
                              "({}); begin anew without --resume",
                              "{} 只有 {} 行，不到上次停下的第 {} 行；请去掉 --resume 重新开始",
                              plan_.input, i, n_rows));
      }
    }
  }

  std::string rejects_header() const {
    std::string header;
    if (plan_.from == Format::kCsv || plan_.from == Format::kTsv) {
      table::append_csv_row(header, reader_->header(), plan_.from == Format::kTsv ? '\t' : ',');
    }
    return header;
  }

  void label_rows() {
    std::error_code error;
    const std::uint64_t size = plan_.input == "-" ? 0 : fs::file_size(plan_.input, error);
    Progress progress(context_, error ? 0 : size);
    std::optional<Session> session;
    std::optional<tasks::Classifier> classifier;
    std::optional<tasks::BulkClassifier> bulk;
    for (;;) {
      while (!at_end_ && has_room_for_rows() && (!bulk || bulk->has_room())) {
        std::optional<std::string> text = read_row();
        if (!text) continue;
        if (!bulk) {  // the model is loaded once there is work
          session = open_session(context_, model_path(), {.greedy = !plan_.has_probabilities()});
          classifier = make_classifier(*session->engine, plan_.task);
          bulk.emplace(*classifier, tasks::BulkOptions{.long_texts = plan_.long_texts,
                                                       .priority = engine::Priority::kInteractive});
          progress.begin(reader_->bytes_read());
        }
        bulk->add(*std::move(text));
      }
      if (pending_.empty()) break;
      if (interrupted_) {
        flush();
        show_progress("");
        if (file_) {
          print_note(context_.lang.tr("interrupted after {} rows; --resume goes on",
                                      "已在 {} 行后中断；可用 --resume 继续", n_read_));
        }
        fail(ExitStatus::kInterrupted, "");
      }
      finish_row(bulk);
      ++n_rows_;
      if (is_time_to_flush()) flush();
      progress.show(n_rows_, reader_->bytes_read());
    }
    show_progress("");
    seconds_ = progress.seconds();
    n_repeated_ = bulk ? bulk->n_repeated() : 0;
  }

  /// Reads a row into pending_ and returns its text, or nothing (it is wrong, or the end).
  std::optional<std::string> read_row() {
    auto row = reader_->next();
    if (!row) {
      if (!reader_->can_continue()) {  // the rows before it are still labelled
        source_failure_ = row.error();
        at_end_ = true;
      } else {
        push({{}, keeps_raw() ? reader_->raw() : std::string(), row.error().message});
      }
      return std::nullopt;
    }
    if (!row->has_value()) {
      at_end_ = true;
      return std::nullopt;
    }
    std::string text = (*row)->fields[text_column_];
    push({**std::move(row), keeps_raw() ? reader_->raw() : std::string(), {}});
    return text;
  }

  bool keeps_raw() const {
    return plan_.from == Format::kJsonLines || !plan_.options.rejects.empty();
  }
  void push(PendingRow row) {
    pending_bytes_ += row.n_bytes();
    pending_.push_back(std::move(row));
  }
  bool has_room_for_rows() const {
    return pending_.empty() ||
           (pending_.size() < kMostPending && pending_bytes_ < kMostPendingBytes);
  }

  void finish_row(std::optional<tasks::BulkClassifier>& bulk) {
    PendingRow row = std::move(pending_.front());
    pending_.pop_front();
    pending_bytes_ -= row.n_bytes();
    if (!row.problem.empty()) {
      reject(row, row.problem);
    } else if (const auto outcome = bulk->take(); outcome) {
      const Status status = writer_->append(rows_, row.row, row.raw, plan_.added_values(*outcome));
      if (!status) fail(ExitStatus::kBadInput, plan_.input + ": " + status.error().message);
    } else {
      const ExitStatus status = request_status(outcome.error().code);
      const std::string problem = plan_.input +
                                  context_.lang.tr(", line {}: ", "，第 {} 行：", row.row.line) +
                                  outcome.error().message;
      if (status != ExitStatus::kBadInput) fail(status, problem);
      reject(row, problem);
    }
    ++n_read_;
  }

  void reject(const PendingRow& row, const std::string& problem) {
    ++n_rejected_;
    ++n_notes_;
    if (n_notes_ <= kMostNotes + 1) show_progress("");
    if (n_notes_ <= kMostNotes) print_note(problem);
    if (n_notes_ == kMostNotes + 1) {
      print_note(context_.lang.pick("more rejected rows are only counted", "其余被拒的行只计数"));
    }
    if (!plan_.options.rejects.empty()) rejects_.append(row.raw).append("\n");
  }

  bool is_time_to_flush() const {
    return rows_.size() + rejects_.size() > kMostBufferedBytes ||
           n_read_ - n_flushed_ >= kRowsBetweenCommits ||
           seconds_since(last_flush_) >= kSecondsBetweenCommits;
  }

  void flush() {
    last_flush_ = Clock::now();
    n_flushed_ = n_read_;
    if (file_) {
      file_->commit(rows_, rejects_, n_read_, n_rejected_);
    } else if (!rows_.empty()) {
      rows_.pop_back();  // line() adds it
      context_.out->line(rows_);
    }
    rows_.clear();
    rejects_.clear();
  }

  void report() const {
    std::string text =
        context_.lang.tr("{} rows in {:.1f} s ({:.1f}/s)", "{} 行，用时 {:.1f} 秒（{:.1f} 行/秒）",
                         n_rows_, seconds_, static_cast<double>(n_rows_) / seconds_);
    if (n_repeated_ > 0) {
      text +=
          context_.lang.tr(", {} equal to earlier ones", "，其中 {} 行与前面的相同", n_repeated_);
    }
    if (n_rejected_ > 0) {
      text += context_.lang.tr(", {} rejected", "，{} 行被拒", n_rejected_);
      if (!plan_.options.rejects.empty()) text += " (" + plan_.options.rejects + ")";
    }
    print_note(text);
  }

  static constexpr std::size_t kMostPending = 1024;
  static constexpr std::size_t kMostPendingBytes = std::size_t{64} << 20;

  const Context& context_;
  const FilePlan& plan_;
  std::unique_ptr<table::RowReader> reader_;
  std::size_t text_column_ = 0;
  std::unique_ptr<table::RowWriter> writer_;
  std::string model_path_;
  std::optional<ResumableOutput> file_;
  std::deque<PendingRow> pending_;
  std::size_t pending_bytes_ = 0;
  std::optional<Error> source_failure_;
  std::int64_t n_read_ = 0;      // with those of the runs before
  std::int64_t n_rejected_ = 0;  // of them
  std::string rows_;
  std::string rejects_;
  Clock::time_point last_flush_ = Clock::now();
  std::int64_t n_flushed_ = 0;  // n_read_ then
  std::atomic<bool> interrupted_ = false;
  bool at_end_ = false;
  std::int64_t n_rows_ = 0;  // of this run
  std::int64_t n_notes_ = 0;
  std::int64_t n_repeated_ = 0;
  double seconds_ = 0;
};

}  // namespace

ExitStatus classify_file(const Context& context, const std::string& input,
                         const FileOptions& options, const TaskOptions& task) {
  const FilePlan plan = make_file_plan(context, input, options, task);
  return FileRun(context, plan).run();
}

}  // namespace munia::cli
