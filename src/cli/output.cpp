#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>

namespace munia::cli {

Output::Output(int fd, std::function<void(int)> on_failure)
    : fd_(fd), on_failure_(std::move(on_failure)) {}

void Output::line(std::string_view text) {
  std::string whole(text);
  whole += '\n';
  const std::lock_guard lock(mutex_);
  write_all(whole);
  line_open_ = false;
}

void Output::piece(std::string_view text) {
  if (text.empty()) return;
  const std::lock_guard lock(mutex_);
  write_all(text);
  line_open_ = text.back() != '\n';
}

void Output::end_line() {
  const std::lock_guard lock(mutex_);
  if (line_open_) write_all("\n");
  line_open_ = false;
}

void Output::finish_process(int status) {
  // Waits for a line that is being written, but not for a reader that has stopped reading.
  if (mutex_.try_lock_for(std::chrono::milliseconds(300))) {
    if (line_open_) {
      const ssize_t written = ::write(fd_, "\n", 1);
      static_cast<void>(written);
    }
  }
  std::_Exit(status);
}

void Output::write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd_, text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      on_failure_(errno);
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

void print_error_text(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // nobody reads it: nothing to be done
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

void print_note(std::string_view text) { print_error_text("munia: " + std::string(text) + "\n"); }

bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

void show_progress(std::string_view text) {
  if (stderr_is_terminal()) print_error_text("\r\x1b[K" + std::string(text));
}

}  // namespace munia::cli
