// The language of everything that people read: each message stands in English and Chinese side by
// side where it is used, and both are checked against the arguments when it is compiled. What the
// library rooms say (Error::message) is English and is passed on as it is.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

namespace munia::cli {

class Lang {
 public:
  explicit Lang(bool zh = false) : zh_(zh) {}
  bool zh() const { return zh_; }

  const char* pick(const char* en, const char* zh) const { return zh_ ? zh : en; }
  /// The message with its {} filled in.
  template <class... Args>
  std::string tr(fmt::format_string<Args...> en, fmt::format_string<Args...> zh,
                 Args&&... args) const {
    return fmt::vformat(zh_ ? fmt::string_view(zh) : fmt::string_view(en),
                        fmt::make_format_args(args...));
  }

 private:
  bool zh_;
};

}  // namespace munia::cli
