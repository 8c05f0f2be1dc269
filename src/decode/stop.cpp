// One automaton of Knuth, Morris and Pratt per stop string: its state is the length of the longest
// beginning of the stop string that ends the text so far, which is exactly what must be held back.
// Linear in the text whatever the stop strings are, since they come from strangers.
#include "decode/stop.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace munia::decode {

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (std::string& stop : stops) {
    if (stop.empty() || find_invalid_utf8(stop)) continue;
    Pattern pattern;
    pattern.text = std::move(stop);
    pattern.fallback.assign(pattern.text.size(), 0);
    for (std::size_t i = 1; i < pattern.text.size(); ++i) {
      std::size_t n = pattern.fallback[i - 1];
      while (n > 0 && pattern.text[n] != pattern.text[i]) n = pattern.fallback[n - 1];
      pattern.fallback[i] = n + (pattern.text[n] == pattern.text[i] ? 1 : 0);
    }
    patterns_.push_back(std::move(pattern));
  }
}

// True when `byte` completes the stop string.
bool StopMatcher::advance(Pattern& pattern, char byte) {
  std::size_t& n = pattern.n_matched;
  while (n > 0 && pattern.text[n] != byte) n = pattern.fallback[n - 1];
  if (pattern.text[n] == byte) ++n;
  return n == pattern.text.size();
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  std::string shown = std::move(held_);
  held_.clear();
  for (const char byte : text) {
    shown.push_back(byte);
    std::size_t n_dropped = 0;
    for (Pattern& pattern : patterns_) {
      if (advance(pattern, byte)) n_dropped = std::max(n_dropped, pattern.text.size());
    }
    if (n_dropped > 0) {
      stopped_ = true;
      shown.resize(shown.size() - n_dropped);
      return shown;
    }
  }
  std::size_t n_held = 0;
  for (const Pattern& pattern : patterns_) n_held = std::max(n_held, pattern.n_matched);
  held_ = shown.substr(shown.size() - n_held);
  shown.resize(shown.size() - n_held);
  return shown;
}

std::string StopMatcher::finish() {
  for (Pattern& pattern : patterns_) pattern.n_matched = 0;
  return std::exchange(held_, {});
}

}  // namespace munia::decode
