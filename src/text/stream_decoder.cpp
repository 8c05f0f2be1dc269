#include "text/stream_decoder.h"

#include "base/utf8.h"

namespace munia::text {

std::string StreamDecoder::push(std::string_view bytes) {
  tail_ += bytes;
  std::string out;
  std::size_t offset = 0;
  while (offset < tail_.size()) {
    const Utf8Char c = decode_utf8(tail_, offset);
    if (c.incomplete) break;
    if (c.valid) {
      out.append(tail_, offset, static_cast<std::size_t>(c.length));
    } else {
      out += kReplacementCharacter;
    }
    offset += static_cast<std::size_t>(c.length);
  }
  tail_.erase(0, offset);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out = replace_invalid_utf8(tail_);
  tail_.clear();
  return out;
}

}  // namespace munia::text
