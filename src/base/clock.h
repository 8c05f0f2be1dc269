// Time as durations are measured: it only goes forward.
#pragma once

#include <chrono>

namespace munia {

using Clock = std::chrono::steady_clock;

inline double ms_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}
inline double ms_since(Clock::time_point begin) { return ms_between(begin, Clock::now()); }
inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace munia
