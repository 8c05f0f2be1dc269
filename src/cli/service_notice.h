// What a service manager is told while the service runs: READY=1, STATUS=…, STOPPING=1 as datagrams
// to the socket that it names (the protocol of sd_notify(3), for units of Type=notify). Without a
// socket nothing happens; a manager that does not listen is no failure of the service.
#pragma once

#include <string>
#include <utility>

namespace munia::cli {

class ServiceNotice {
 public:
  /// `socket`: a path, or "@NAME" for an abstract socket; empty: nobody wants to know.
  explicit ServiceNotice(std::string socket) : socket_(std::move(socket)) {}

  void ready(const std::string& status) const;
  void status(const std::string& status) const;
  void stopping(const std::string& status) const;

 private:
  void send(const std::string& message) const;
  std::string socket_;
};

}  // namespace munia::cli
