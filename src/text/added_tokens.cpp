#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"

namespace munia::text {
namespace {

std::size_t char_before(std::string_view text, std::size_t offset) {
  --offset;
  while ((static_cast<unsigned char>(text[offset]) & 0xC0) == 0x80) --offset;
  return offset;
}

bool has_class(std::string_view text, std::size_t offset, CharClass bit) {
  return (char_class(decode_valid(text, offset).code_point) & bit) != 0;
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  return (begin == 0 || !has_class(text, char_before(text, begin), kWord)) &&
         (end == text.size() || !has_class(text, end, kWord));
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(
    const std::vector<std::pair<std::string, const AddedToken*>>& patterns) {
  std::size_t n_bytes = 0;
  for (const auto& [pattern, token] : patterns) n_bytes += pattern.size();
  edges_ = FlatMap(n_bytes);
  token_of_node_.push_back(nullptr);
  for (const auto& [pattern, token] : patterns) {
    if (pattern.empty()) continue;
    first_bytes_[static_cast<unsigned char>(pattern[0])] = true;
    std::uint64_t node = 0;
    for (const char c : pattern) {
      const std::uint64_t key = node << 8 | static_cast<unsigned char>(c);
      if (const auto* next = edges_.find(key)) {
        node = static_cast<std::uint64_t>(next->id);
      } else {
        edges_.set(key, {0, static_cast<TokenId>(n_nodes_)});
        node = n_nodes_++;
        token_of_node_.push_back(nullptr);
      }
    }
    token_of_node_[node] = token;
  }
}

AddedTokenMatcher::Match AddedTokenMatcher::longest_at(std::string_view text, std::size_t begin,
                                                       std::string_view trusted,
                                                       SpecialMatch match) const {
  Match best;
  std::uint64_t node = 0;
  bool all_trusted = match == SpecialMatch::kWhereTrusted;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const auto* next = edges_.find(node << 8 | static_cast<unsigned char>(text[i]));
    if (next == nullptr) break;
    node = static_cast<std::uint64_t>(next->id);
    all_trusted = all_trusted && trusted[i] != '\0';
    const AddedToken* token = token_of_node_[node];
    // A token that may not match here must not hide a shorter one that may.
    if (token != nullptr &&
        (!token->special || match != SpecialMatch::kWhereTrusted || all_trusted)) {
      best = {i + 1, token};
    }
  }
  return best;
}

std::vector<AddedSpan> AddedTokenMatcher::split(std::string_view text, std::string_view trusted,
                                                SpecialMatch match) const {
  std::vector<AddedSpan> spans;
  std::size_t done = 0;  // end of the last span
  for (std::size_t i = 0; i < text.size() && !empty();) {
    if (!first_bytes_[static_cast<unsigned char>(text[i])]) {
      ++i;
      continue;
    }
    const Match found = longest_at(text, i, trusted, match);
    if (found.token == nullptr) {
      ++i;
      continue;
    }
    const AddedToken& token = *found.token;
    std::size_t begin = i;
    std::size_t end = found.end;
    i = end;
    if (token.special && match == SpecialMatch::kNone) continue;
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    if (token.lstrip) {
      while (begin > done) {
        const std::size_t before = char_before(text, begin);
        if (before < done || !has_class(text, before, kSpace)) break;
        begin = before;
      }
    }
    if (token.rstrip) {
      while (end < text.size() && has_class(text, end, kSpace)) {
        end = decode_valid(text, end).end;
      }
    }
    if (done < begin) spans.push_back({done, begin, nullptr});
    spans.push_back({begin, end, &token});
    done = end;
  }
  if (done < text.size()) spans.push_back({done, text.size(), nullptr});
  return spans;
}

}  // namespace munia::text
