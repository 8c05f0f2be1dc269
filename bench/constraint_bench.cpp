// What a constraint costs beside the model, on a real vocabulary: making a grammar, and the mask of
// allowed tokens behind each token of a reply that fits it. A state that was met before costs a
// look-up, so the mean over a reply's tokens is what counts.
//
//   constraint_bench MODEL [--rounds N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "decode/constraint.h"
#include "engine/model_bundle.h"
#include "grammar/json_parts.h"
#include "grammar/regex.h"
#include "grammar/schema.h"

namespace munia {
namespace {

double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Case {
  const char* name;
  std::string source;  // a schema, or with '/' in front an expression
  std::string reply;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"two fields",
       R"({"type":"object","properties":{"emotion":{"enum":["愤怒","喜悦","悲伤","平静"]},"reason":{"type":"string"}},
           "required":["emotion","reason"],"additionalProperties":false})",
       R"({"emotion": "喜悦", "reason": "The experiment succeeded after three weeks of work, 他非常高兴。"})"},
      {"ten fields",
       R"({"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string"},"age":{"type":"integer",
           "minimum":0,"maximum":150},"score":{"type":"number"},"email":{"type":"string","format":"email"},
           "tags":{"type":"array","items":{"type":"string"},"maxItems":5},"ok":{"type":"boolean"},
           "note":{"type":["string","null"]},"born":{"type":"string","format":"date"},"city":{"type":"string"}},
           "required":["id","name","age","score","email","tags","ok","note","born","city"]})",
       R"({"id": 17, "name": "小明", "age": 23, "score": 0.75, "email": "ming@example.com", "tags": ["a", "好"],)"
       R"( "ok": true, "note": null, "born": "2001-03-14", "city": "成都"})"},
      {"short string (maxLength 60)", R"({"type":"string","maxLength":60})",
       R"("The experiment succeeded after three weeks of work.")"},
      {"any JSON object", "{\"type\":\"object\"}",
       R"({"emotion": "joy", "reason": "The experiment succeeded after weeks.", "n": [1, 2, 3]})"},
      {"expression .{60,200}", "/.{60,200}",
       "The experiment succeeded after three weeks of work, 他非常高兴, and the whole team went "
       "out to eat."},
      {"expression [一-龥]{2,20}。", "/[一-龥]{2,20}。", "今天的实验终于成功了。"},
  };
  return all;
}

Result<grammar::GrammarPtr> grammar_of(const std::string& source) {
  if (source.starts_with('/')) return grammar::regex_grammar(std::string_view(source).substr(1));
  return grammar::schema_text_grammar(source);
}

void measure(const text::Tokenizer& tokenizer,
             const std::shared_ptr<const decode::TokenIndex>& index, const Case& c, int n_rounds) {
  const std::vector<text::TokenId> ids = tokenizer.encode(c.reply).value_or_throw();
  double making = std::numeric_limits<double>::infinity();
  std::vector<double> best(ids.size(), making);
  for (int round = 0; round < n_rounds; ++round) {
    const double begin = now_us();
    const grammar::GrammarPtr grammar = grammar_of(c.source).value_or_throw();
    making = std::min(making, now_us() - begin);
    decode::Constraint constraint(index, grammar);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const double start = now_us();
      if (!constraint.allowed().has(ids[i])) {
        std::fprintf(stderr, "token %zu of \"%s\" is not allowed\n", i, c.name);
        std::exit(1);
      }
      constraint.accept(ids[i]);
      best[i] = std::min(best[i], now_us() - start);
    }
  }
  double sum = 0;
  for (const double time : best) sum += time;
  std::printf("%-30s grammar %7.0f us, %3zu tokens, mask: mean %6.1f us, largest %7.1f us\n",
              c.name, making, ids.size(), sum / static_cast<double>(ids.size()),
              *std::max_element(best.begin(), best.end()));
}

}  // namespace
}  // namespace munia

int main(int argc, char** argv) {
  using namespace munia;
  int n_rounds = 5;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--rounds" && i + 1 < argc) {
      n_rounds = std::max(1, std::atoi(argv[++i]));
    } else {
      path = argv[i];
    }
  }
  if (path.empty()) {
    std::fprintf(stderr, "usage: constraint_bench MODEL [--rounds N]\n");
    return 2;
  }
  try {
    const auto bundle = engine::load_text_bundle(path);
    std::vector<std::string> token_bytes;
    for (text::TokenId id = 0; id < bundle->tokenizer->vocab_size(); ++id) {
      token_bytes.emplace_back(bundle->tokenizer->is_special(id)
                                   ? std::string_view()
                                   : bundle->tokenizer->token_bytes(id));
    }
    const double begin = now_us();
    const auto index = std::make_shared<const decode::TokenIndex>(std::move(token_bytes));
    std::printf("%lld tokens, the longest of %u bytes; index once %.0f ms\n",
                static_cast<long long>(index->vocab_size()), index->max_bytes(),
                (now_us() - begin) / 1000);
    for (const Case& c : cases()) measure(*bundle->tokenizer, index, c, n_rounds);
  } catch (const LoadError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
  return 0;
}
