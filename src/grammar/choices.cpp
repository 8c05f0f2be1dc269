#include "grammar/choices.h"

#include <utility>

#include "base/utf8.h"

namespace munia::grammar {
namespace {

constexpr std::size_t kMaxChoices = 1024;
constexpr std::size_t kMaxBytes = std::size_t{64} << 10;

}  // namespace

Result<GrammarPtr> choice_grammar(std::vector<std::string> choices) {
  if (choices.empty()) {
    return Error{ErrorCode::kInvalidArgument, "the list of choices is empty; name at least one"};
  }
  std::size_t n_bytes = 0;
  for (const std::string& choice : choices) {
    if (choice.empty()) {
      return Error{ErrorCode::kInvalidArgument, "a choice is an empty text; give it a character"};
    }
    if (find_invalid_utf8(choice)) {
      return Error{ErrorCode::kInvalidArgument, "a choice is not valid UTF-8"};
    }
    n_bytes += choice.size();
  }
  if (choices.size() > kMaxChoices || n_bytes > kMaxBytes) {
    return Error{ErrorCode::kLimit,
                 "there are " + std::to_string(choices.size()) + " choices of together " +
                     std::to_string(n_bytes) +
                     " bytes; at most 1,024 choices of 65,536 bytes are allowed"};
  }
  Builder builder;
  const Rule rule = builder.rule(builder.add_rule());
  builder.one_of(rule.start, std::move(choices), rule.end);
  return std::move(builder).finish();
}

}  // namespace munia::grammar
