// Texts that are longer than the context: their beginning, or pieces that each fit.
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "tasks/classify.h"

namespace munia::tasks {

enum class LongTexts {
  kError,     // refused
  kTruncate,  // the beginning that fits is labelled
  kWindow,    // all pieces are labelled; a label's probability is their mean, weighted by length
};

/// Pieces of `text`, in order and with nothing left out, that each fit the context with the
/// classifier's prompt; at most `most` of them. A piece ends behind a sentence where one ends in
/// its last eighth, else between two characters. kLimit when not even a character fits.
Result<std::vector<std::string_view>> split_to_fit(const Classifier& classifier,
                                                   std::string_view text, std::size_t most);

}  // namespace munia::tasks
