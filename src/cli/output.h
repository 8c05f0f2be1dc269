// Standard output and standard error of the program. Lines go out whole and at once, so that an
// interrupted run leaves complete lines; streamed pieces are flushed one by one and their line is
// ended before the program stops. Safe from several threads.
#pragma once

#include <functional>
#include <mutex>
#include <string_view>

#include "cli/exit_status.h"

namespace munia::cli {

class Output {
 public:
  /// `on_failure` gets the errno of a failed write (EPIPE: the reader went away) and does not
  /// return normally to more output: it ends the program.
  Output(int fd, std::function<void(int)> on_failure);

  /// Writes `text` and a newline.
  void line(std::string_view text);
  /// Writes part of a line.
  void piece(std::string_view text);
  /// Ends the line if a piece left one open.
  void end_line();
  /// Ends an open line and the process, without running destructors: for signals.
  [[noreturn]] void finish_process(int status);

 private:
  void write_all(std::string_view text);
  int fd_;
  std::function<void(int)> on_failure_;
  std::timed_mutex mutex_;
  bool line_open_ = false;
};

/// "munia: text" on standard error, one write.
void print_note(std::string_view text);
/// Text as it is on standard error.
void print_error_text(std::string_view text);
bool stderr_is_terminal();
/// On a terminal's standard error: `text` in place of the line that stands there; "" clears it.
void show_progress(std::string_view text);

}  // namespace munia::cli
