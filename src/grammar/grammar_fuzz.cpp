// Schemas and regular expressions from anyone: the first byte says which ("s" a schema, else an
// expression), the second seeds a walk. What compiles must be walkable: from every state that is
// met some text ends, and the text of a schema is JSON.
#include <algorithm>
#include <boost/json/parse.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "grammar/matcher.h"
#include "grammar/regex.h"
#include "grammar/schema.h"

namespace {

using namespace munia::grammar;

[[noreturn]] void found(const char*) { std::abort(); }

void walk(const GrammarPtr& grammar, std::uint64_t seed, bool is_json) {
  Matcher matcher(grammar);
  matcher.allow_work(200'000);
  Matcher::State state = matcher.start();
  if (state == Matcher::kNone) return;
  std::string text;
  for (int step = 0; step < 300; ++step) {
    std::vector<std::pair<std::uint8_t, Matcher::State>> next;
    for (int byte = 0; byte < 256; ++byte) {
      const auto to = matcher.next(state, static_cast<std::uint8_t>(byte));
      if (to != Matcher::kNone) next.emplace_back(static_cast<std::uint8_t>(byte), to);
    }
    if (matcher.is_exhausted()) return;
    if (matcher.accepts(state)) {
      if (munia::find_invalid_utf8(text)) found("a text that is not UTF-8");
      boost::json::error_code error;
      if (is_json) boost::json::parse(text, error);
      if (error) found("a text that is not JSON");
    }
    if (next.empty()) {
      if (!matcher.accepts(state)) found("a dead end");
      return;
    }
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    const auto& [byte, to] = next[(seed >> 33) % next.size()];
    text += static_cast<char>(byte);
    state = to;
    if (step % 50 == 49) state = matcher.keep_only(state);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view source(reinterpret_cast<const char*>(data) + 2, size - 2);
  const bool is_schema = data[0] == 's';
  const auto grammar = is_schema ? schema_text_grammar(source) : regex_grammar(source);
  if (grammar) walk(*grammar, data[1], is_schema);
  return 0;
}
