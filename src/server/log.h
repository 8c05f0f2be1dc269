// The service's log on standard error, as text or JSON Lines. Holds no text of the users unless
// that is asked for (--log-text).
#pragma once

#include <memory>
#include <string>

#include "server/exchange.h"

namespace spdlog {
class logger;
}

namespace munia::server {

struct LogOptions {
  bool json = false;
  bool requests = true;    // a line for each request
  bool user_text = false;  // query and body too
};

class Log {
 public:
  explicit Log(LogOptions options);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void info(const std::string& message);
  void warn(const std::string& message);
  void request(const Request& request, const Record& record);

 private:
  void line(bool warning, const std::string& text, const std::string& json_fields);
  const LogOptions options_;
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace munia::server
