// Ctrl-C, SIGTERM and a reader that goes away. The signal handler only writes a byte into a pipe; a
// thread acts on it: it calls the command's own handler (chat: stop the reply), or ends the output
// line and the process.
#pragma once

#include <functional>
#include <mutex>
#include <thread>

#include "cli/output.h"

namespace munia::cli {

class Interrupts {
 public:
  /// Installs the handlers; one object per process. SIGINT and SIGTERM that the parent ignores stay
  /// ignored.
  explicit Interrupts(Output& output);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// What Ctrl-C does from now on, on another thread; empty: exit status 130 at once, with complete
  /// lines.
  void on_interrupt(std::function<void()> handler);
  /// What SIGTERM does from now on, likewise; empty: the process ends at once.
  void on_terminate(std::function<void()> handler);

 private:
  void watch();
  Output& output_;
  std::mutex mutex_;
  std::function<void()> handler_;
  std::function<void()> terminate_handler_;
  int pipe_[2] = {-1, -1};
  std::thread thread_;
};

}  // namespace munia::cli
