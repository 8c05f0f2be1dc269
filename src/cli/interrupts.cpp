#include "cli/interrupts.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <utility>

namespace munia::cli {
namespace {

// A signal handler can reach nothing but globals.
std::atomic<int> signal_pipe{-1};

void handle_signal(int number) {
  const int saved_errno = errno;
  const char byte = number == SIGTERM ? 't' : 'i';
  const ssize_t written = ::write(signal_pipe.load(), &byte, 1);
  static_cast<void>(written);
  errno = saved_errno;
}

void install(int number) {
  struct sigaction old {};
  if (sigaction(number, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = handle_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

Interrupts::Interrupts(Output& output) : output_(output) {
  if (pipe2(pipe_, O_CLOEXEC) != 0) return;  // then Ctrl-C keeps its usual effect
  signal_pipe = pipe_[1];
  thread_ = std::thread([this] { watch(); });
  install(SIGINT);
  install(SIGTERM);
  std::signal(SIGPIPE, SIG_IGN);
}

Interrupts::~Interrupts() {
  if (!thread_.joinable()) return;
  const char byte = 'q';
  const ssize_t written = ::write(pipe_[1], &byte, 1);
  static_cast<void>(written);
  thread_.join();
  // The pipe stays open: a late signal must find it.
}

void Interrupts::on_interrupt(std::function<void()> handler) {
  const std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
}

void Interrupts::on_terminate(std::function<void()> handler) {
  const std::lock_guard lock(mutex_);
  terminate_handler_ = std::move(handler);
}

void Interrupts::watch() {
  char byte = 0;
  for (;;) {
    const ssize_t n = ::read(pipe_[0], &byte, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n != 1 || byte == 'q') return;
    const std::lock_guard lock(mutex_);
    if (const auto& handler = byte == 't' ? terminate_handler_ : handler_) {
      handler();
    } else if (byte == 't') {
      output_.finish_process(128 + SIGTERM);
    } else {
      output_.finish_process(static_cast<int>(ExitStatus::kInterrupted));
    }
  }
}

}  // namespace munia::cli
