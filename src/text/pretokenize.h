// Cuts text into the pieces that byte-pair encoding works on, exactly as the regular expressions of
// known tokenizers do. The expressions are recognised by their text and run as hand-written
// scanners, linear in the text; one that is not known is never guessed at.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace munia::text {

// The numbers stand in packed files: new steps go to the end.
enum class SplitStep {
  kQwen2 = 0,    // the expression of Qwen 1.5, 2, 2.5 and 3
  kQwen35,       // that of Qwen 3.5: marks go with letters
  kLlama3,       // as Qwen 2, with numbers of up to three digits
  kGpt2,         // that of GPT-2, which is also ByteLevel's own
  kDigits,       // every digit alone (Digits with individual_digits)
  kDigitRuns,    // runs of digits apart (Digits without it)
  kPrefixSpace,  // not a cut: puts a space before a piece that has none (add_prefix_space)
};
inline constexpr SplitStep kLastSplitStep = SplitStep::kPrefixSpace;

/// The step of a regular expression as tokenizer.json spells it; nothing for an unknown one.
std::optional<SplitStep> split_step_of_regex(std::string_view regex);

/// The end of the piece that starts at text[begin], begin < text.size(), for any step that cuts.
/// `text` is valid UTF-8; the result is above `begin`.
std::size_t piece_end(SplitStep step, std::string_view text, std::size_t begin);

}  // namespace munia::text
