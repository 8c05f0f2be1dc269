#include "text/pretokenize.h"

#include <cstdint>

#include "text/unicode.h"

namespace munia::text {
namespace {

constexpr std::string_view kQwen2Regex =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)re"
    R"re(|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kQwen35Regex =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})re"
    R"re(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kLlama3Regex =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})re"
    R"re(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kGpt2Regex =
    R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)re";

struct Char {
  char32_t code_point = 0;
  std::uint8_t bits = 0;
  std::size_t end = 0;
};

Char char_at(std::string_view text, std::size_t offset) {
  const TextChar c = decode_valid(text, offset);
  return {c.code_point, char_class(c.code_point), c.end};
}

bool is_newline(const Char& c) { return c.code_point == '\r' || c.code_point == '\n'; }

// End of the run of characters from `offset` for which `test` holds, at most `limit` of them.
template <class Test>
std::size_t run_end(std::string_view text, std::size_t offset, Test test,
                    std::size_t limit = SIZE_MAX) {
  for (; offset < text.size() && limit > 0; --limit) {
    const Char c = char_at(text, offset);
    if (!test(c)) break;
    offset = c.end;
  }
  return offset;
}

// End of 's 't 're 've 'm 'll 'd at text[begin] == '\'', or `begin` if there is none. With
// `ignore_case`, U+017F (long s) folds to s as well: the only such code point in these endings.
std::size_t contraction_end(std::string_view text, std::size_t begin, bool ignore_case) {
  const auto letter = [&](std::size_t offset) -> char {
    if (offset >= text.size()) return 0;
    const char c = text[offset];
    return ignore_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  switch (const char first = letter(begin + 1); first) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return begin + 2;
    case 'r':
    case 'v':
      return letter(begin + 2) == 'e' ? begin + 3 : begin;
    case 'l':
      return letter(begin + 2) == 'l' ? begin + 3 : begin;
    default:
      return ignore_case && text.substr(begin + 1, 2) == "\xC5\xBF" ? begin + 3 : begin;
  }
}

// \s+(?!\S)|\s+ and, with `newlines`, \s*[\r\n]+ before them.
std::size_t space_end(std::string_view text, std::size_t begin, bool newlines) {
  std::size_t end = begin;
  std::size_t last = begin;  // start of the run's last character
  std::size_t after_newline = begin;
  while (end < text.size()) {
    const Char c = char_at(text, end);
    if (!(c.bits & kSpace)) break;
    if (is_newline(c)) after_newline = c.end;
    last = end;
    end = c.end;
  }
  if (newlines && after_newline > begin) return after_newline;
  return end == text.size() || last == begin ? end : last;
}

// The expressions of Qwen and Llama 3: `letters` has the classes of a word, numbers come in groups
// of at most `n_digits`.
std::size_t qwen_end(std::string_view text, std::size_t begin, std::uint8_t letters,
                     std::size_t n_digits) {
  const Char c = char_at(text, begin);
  if (c.code_point == '\'') {
    const std::size_t end = contraction_end(text, begin, true);
    if (end > begin) return end;
  }
  const auto is_letter = [&](const Char& x) { return (x.bits & letters) != 0; };
  if (is_letter(c)) return run_end(text, c.end, is_letter);
  if (c.bits & kNumber) {
    return run_end(
        text, begin, [](const Char& x) { return (x.bits & kNumber) != 0; }, n_digits);
  }
  if (!is_newline(c)) {  // one character of another kind before a word goes with it
    const std::size_t end = run_end(text, c.end, is_letter);
    if (end > c.end) return end;
  }
  const auto is_other = [&](const Char& x) { return (x.bits & (letters | kNumber | kSpace)) == 0; };
  const std::size_t other = c.code_point == ' ' ? c.end : begin;
  const std::size_t end = run_end(text, other, is_other);
  if (end > other) return run_end(text, end, is_newline);
  return space_end(text, begin, true);
}

std::size_t gpt2_end(std::string_view text, std::size_t begin) {
  Char c = char_at(text, begin);
  if (c.code_point == '\'') {
    const std::size_t end = contraction_end(text, begin, false);
    if (end > begin) return end;
  }
  if (c.code_point == ' ' && c.end < text.size()) c = char_at(text, c.end);
  if (c.bits & kSpace) return space_end(text, begin, false);
  const std::uint8_t kind = c.bits & (kLetter | kNumber);
  return run_end(text, c.end,
                 [&](const Char& x) { return (x.bits & (kLetter | kNumber | kSpace)) == kind; });
}

}  // namespace

std::optional<SplitStep> split_step_of_regex(std::string_view regex) {
  if (regex == kQwen2Regex) return SplitStep::kQwen2;
  if (regex == kQwen35Regex) return SplitStep::kQwen35;
  if (regex == kLlama3Regex) return SplitStep::kLlama3;
  if (regex == kGpt2Regex) return SplitStep::kGpt2;
  return std::nullopt;
}

std::size_t piece_end(SplitStep step, std::string_view text, std::size_t begin) {
  const auto is_numeric = [](const Char& c) { return (c.bits & kNumeric) != 0; };
  switch (step) {
    case SplitStep::kQwen2:
      return qwen_end(text, begin, kLetter, 1);
    case SplitStep::kQwen35:
      return qwen_end(text, begin, kLetter | kMark, 1);
    case SplitStep::kLlama3:
      return qwen_end(text, begin, kLetter, 3);
    case SplitStep::kGpt2:
      return gpt2_end(text, begin);
    case SplitStep::kDigits:
    case SplitStep::kDigitRuns: {
      const Char c = char_at(text, begin);
      if (!is_numeric(c)) {
        return run_end(text, c.end, [&](const Char& x) { return !is_numeric(x); });
      }
      return step == SplitStep::kDigits ? c.end : run_end(text, c.end, is_numeric);
    }
    case SplitStep::kPrefixSpace:
      break;
  }
  return text.size();
}

}  // namespace munia::text
