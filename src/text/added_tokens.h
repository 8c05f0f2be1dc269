// Finds added tokens ("<|im_end|>", "<tool_call>") in text, before it is normalized or cut:
// leftmost first, the longest of those that start together, as Hugging Face tokenizers does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe.h"

namespace munia::text {

struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool special = false;     // a control token: never formed by a user's text
  bool normalized = false;  // looked for in the normalized text, else in the text as it came
  bool lstrip = false;      // takes the white space on its left with it
  bool rstrip = false;
  bool single_word = false;  // only where no word character stands next to it
};

/// Which special tokens may match. The others always may.
enum class SpecialMatch {
  kNone,         // none: they are plain text, as with Hugging Face's encode_special_tokens
  kAll,          // all, as Hugging Face does by default
  kWhereTrusted  // those of which every byte is trusted
};

/// A part of the text: an added token, or what stands between two.
struct AddedSpan {
  std::size_t begin;
  std::size_t end;
  const AddedToken* token;  // nullptr for text between
};

class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  /// `patterns`: the text to look for and its token (which must outlive the matcher).
  explicit AddedTokenMatcher(
      const std::vector<std::pair<std::string, const AddedToken*>>& patterns);

  bool empty() const { return n_nodes_ <= 1; }
  /// Cuts valid UTF-8 `text`; `trusted` has a mark per byte (needed for kWhereTrusted only). Spans
  /// are in order; a token's span takes in the spaces that it strips. Text between is never empty.
  std::vector<AddedSpan> split(std::string_view text, std::string_view trusted,
                               SpecialMatch match) const;

 private:
  struct Match {
    std::size_t end = 0;
    const AddedToken* token = nullptr;
  };
  Match longest_at(std::string_view text, std::size_t begin, std::string_view trusted,
                   SpecialMatch match) const;

  FlatMap edges_;  // node << 8 | byte -> next node (a trie)
  std::vector<const AddedToken*> token_of_node_;
  std::size_t n_nodes_ = 1;
  bool first_bytes_[256] = {};
};

}  // namespace munia::text
