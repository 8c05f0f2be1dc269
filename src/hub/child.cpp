#include "hub/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include "hub/common.h"

// POSIX leaves its declaration to the program.
extern char** environ;

namespace munia::hub {
namespace {

constexpr std::size_t kMaxOutputBytes = 4096;
constexpr int kTickMs = 100;
constexpr int kPatienceTicks = 30;  // between asking a child to end and ending it

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& s : strings) result.push_back(s.data());
  result.push_back(nullptr);
  return result;
}

// The caller's environment with some variables replaced.
std::vector<std::string> merged_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> merged = changes;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::string_view name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const std::string& change : changes) {
      replaced = replaced || (change.starts_with(name) && change.size() > name.size() &&
                              change[name.size()] == '=');
    }
    if (!replaced) merged.emplace_back(text);
  }
  return merged;
}

int decode_status(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void stop_child(pid_t pid) {
  int status = 0;
  kill(pid, SIGTERM);
  for (int i = 0; i < kPatienceTicks; ++i) {
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == pid || (ended < 0 && errno != EINTR)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(kTickMs));
  }
  kill(pid, SIGKILL);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
}

// Appends what the pipe has; false at its end.
bool drain(int fd, std::string& output) {
  char buffer[4096];
  const ssize_t n = read(fd, buffer, sizeof buffer);
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  if (n == 0) return false;
  output.append(buffer, static_cast<std::size_t>(n));
  if (output.size() > kMaxOutputBytes) output.erase(0, output.size() - kMaxOutputBytes);
  return true;
}

}  // namespace

Result<ChildResult> run_child(const ChildRequest& request, const std::function<bool()>& tick) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Error{ErrorCode::kIo, std::string("cannot make a pipe: ") + std::strerror(errno)};
  }
  std::vector<std::string> arguments = request.arguments;
  std::vector<std::string> environment = merged_environment(request.environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t pid = -1;
  const int code = posix_spawnp(&pid, arguments[0].c_str(), &actions, nullptr,
                                pointers(arguments).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  ChildResult result;
  if (code != 0) {
    close(ends[0]);
    result.output = std::strerror(code);
    return result;
  }
  result.started = true;

  bool open = true;
  while (open) {
    pollfd waited{ends[0], POLLIN, 0};
    if (poll(&waited, 1, kTickMs) > 0) open = drain(ends[0], result.output);
    if (tick && tick()) {
      close(ends[0]);
      stop_child(pid);
      return interrupted();
    }
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_status = decode_status(status);
  return result;
}

}  // namespace munia::hub
