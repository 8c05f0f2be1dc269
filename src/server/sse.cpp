#include "server/sse.h"

namespace munia::server {

Fields sse_headers() {
  return {{"content-type", "text/event-stream; charset=utf-8"},
          {"cache-control", "no-cache"},
          {"x-accel-buffering", "no"}};
}

std::string sse_event(std::string_view json) {
  std::string event = "data: ";
  event.reserve(json.size() + 8);
  // JsonWriter writes one line; a raw line break in JSON can only be white space between tokens.
  for (const char c : json) event += c == '\n' || c == '\r' ? ' ' : c;
  event += "\n\n";
  return event;
}

}  // namespace munia::server
