#include "cli/service_notice.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace munia::cli {
namespace {

// A line end in the text would begin another field.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

void ServiceNotice::ready(const std::string& status) const {
  send("READY=1\nSTATUS=" + one_line(status));
}

void ServiceNotice::status(const std::string& status) const { send("STATUS=" + one_line(status)); }

void ServiceNotice::stopping(const std::string& status) const {
  send("STOPPING=1\nSTATUS=" + one_line(status));
}

void ServiceNotice::send(const std::string& message) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.size() < 2 || socket_.size() >= sizeof address.sun_path) return;
  if (socket_.front() != '/' && socket_.front() != '@') return;
  std::copy(socket_.begin(), socket_.end(), address.sun_path);
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const std::size_t length = offsetof(sockaddr_un, sun_path) + socket_.size();
  sendto(fd, message.data(), message.size(), MSG_NOSIGNAL,
         reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(length));
  close(fd);
}

}  // namespace munia::cli
