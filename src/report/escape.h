// Text in XML and HTML. Private to this room.
#pragma once

#include <string>
#include <string_view>

namespace munia::report {

/// Text for XML 1.0: markup escaped, control characters (which XML cannot hold) as spaces.
inline std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

}  // namespace munia::report
