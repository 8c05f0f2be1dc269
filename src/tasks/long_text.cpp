#include "tasks/long_text.h"

#include <algorithm>
#include <string>

#include "base/utf8.h"

namespace munia::tasks {
namespace {

constexpr std::size_t kFirstGuess = 4096;  // bytes
constexpr std::size_t kLeastGuess = 64;

/// The largest character boundary of `text` that is not above `at`.
std::size_t boundary(std::string_view text, std::size_t at) {
  if (at >= text.size()) return text.size();
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

/// Behind the last sentence that ends in the last eighth of text[0, end), or `end`.
std::size_t sentence_end(std::string_view text, std::size_t end) {
  std::size_t best = 0;
  for (const std::string_view mark : {"\n", "。", "！", "？", "；", ". ", "! ", "? "}) {
    const std::size_t at = text.substr(0, end).rfind(mark);
    if (at != std::string_view::npos) best = std::max(best, at + mark.size());
  }
  return best > end - end / 8 ? best : end;
}

/// Bytes of the longest beginning of `text` that fits, found to within a hundredth. The first try
/// is `guess` bytes: what is looked at stays in proportion to what fits, however long the text is.
Result<std::size_t> fitting_bytes(const Classifier& classifier, std::string_view text,
                                  std::size_t guess) {
  std::size_t fits = 0;
  std::size_t too_long = text.size() + 1;
  std::size_t tried = boundary(text, guess);
  Status refused;
  while (tried > fits) {
    // Nothing but white space is refused too, but not for its length.
    const std::string_view beginning = text.substr(0, tried);
    const Status status = is_blank(beginning) ? Status() : classifier.check(beginning);
    if (status) {
      fits = tried;
    } else if (status.error().code == ErrorCode::kLimit) {
      too_long = tried;
      refused = status;
    } else {
      return status.error();
    }
    if (too_long - fits <= std::max<std::size_t>(fits / 100, 1)) break;
    const bool has_upper_bound = too_long <= text.size();
    tried = boundary(text, has_upper_bound ? fits + (too_long - fits) / 2 : 2 * fits);
  }
  if (fits == 0 && !refused) return refused.error();
  return fits;
}

}  // namespace

Result<std::vector<std::string_view>> split_to_fit(const Classifier& classifier,
                                                   std::string_view text, std::size_t most) {
  std::vector<std::string_view> pieces;
  std::size_t guess = kFirstGuess;
  while (!text.empty() && pieces.size() < most) {
    MUNIA_ASSIGN_OR_RETURN(std::size_t size, fitting_bytes(classifier, text, guess));
    guess = std::max(size, kLeastGuess);
    if (size < text.size()) size = sentence_end(text, size);
    pieces.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return pieces;
}

}  // namespace munia::tasks
