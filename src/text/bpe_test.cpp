// BPE against its definition: merge the pair of lowest rank, the leftmost of equals, until none is
// left. Random vocabularies and words on both sides of the size where a heap takes over.
#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace munia::text {
namespace {

struct Model {
  std::vector<std::string> tokens;  // by id; letters first
  std::vector<std::pair<TokenId, TokenId>> merges;
};

Model random_model(std::mt19937& random, int n_letters, int n_merges) {
  Model model;
  std::map<std::string, TokenId> ids;
  for (int i = 0; i < n_letters; ++i) {
    model.tokens.emplace_back(1, static_cast<char>('a' + i));
    ids[model.tokens.back()] = i;
  }
  std::map<std::pair<TokenId, TokenId>, bool> seen;
  for (int tries = 0; tries < 20 * n_merges; ++tries) {
    if (static_cast<int>(model.merges.size()) == n_merges) break;
    const auto left = static_cast<TokenId>(random() % model.tokens.size());
    const auto right = static_cast<TokenId>(random() % model.tokens.size());
    const std::string joined = model.tokens[left] + model.tokens[right];
    if (joined.size() > 12 || std::exchange(seen[{left, right}], true)) continue;
    // Some tokens are made by two different merges.
    if (ids.emplace(joined, static_cast<TokenId>(model.tokens.size())).second) {
      model.tokens.push_back(joined);
    }
    model.merges.emplace_back(left, right);
  }
  std::shuffle(model.merges.begin(), model.merges.end(), random);
  return model;
}

Bpe make_bpe(const Model& model) {
  TokenTable table(model.tokens.size(), model.tokens.size(), 1 << 16);
  for (std::size_t i = 0; i < model.tokens.size(); ++i) {
    EXPECT_TRUE(table.add(static_cast<TokenId>(i), model.tokens[i]));
  }
  Bpe bpe(std::move(table), model.merges.size(), {});
  for (const auto& [left, right] : model.merges) {
    EXPECT_TRUE(bpe.add_merge(model.tokens[left], model.tokens[right]).ok());
  }
  bpe.finish();
  return bpe;
}

std::vector<TokenId> by_definition(const Model& model, const std::string& word) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  std::map<std::pair<std::string, std::string>, std::size_t> ranks;
  for (std::size_t i = 0; i < model.merges.size(); ++i) {
    const auto& [left, right] = model.merges[i];
    ranks[{model.tokens[left], model.tokens[right]}] = i;
  }
  for (;;) {
    std::size_t best = parts.size();
    std::size_t best_rank = model.merges.size();
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto it = ranks.find({parts[i], parts[i + 1]});
      if (it != ranks.end() && it->second < best_rank) {
        best = i;
        best_rank = it->second;
      }
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  std::vector<TokenId> ids;
  for (const auto& part : parts) {
    for (std::size_t i = 0; i < model.tokens.size(); ++i) {
      if (model.tokens[i] == part) ids.push_back(static_cast<TokenId>(i));
    }
  }
  return ids;
}

TEST(Bpe, EqualsItsDefinitionOnRandomModels) {
  std::mt19937 random(11);
  Bpe::Scratch scratch;
  for (int round = 0; round < 60; ++round) {
    const int n_letters = 1 + static_cast<int>(random() % 4);
    const Model model = random_model(random, n_letters, 1 + static_cast<int>(random() % 40));
    const Bpe bpe = make_bpe(model);
    for (int word = 0; word < 20; ++word) {
      std::string text(1 + random() % (word < 15 ? 30 : 250), 'a');
      for (char& c : text) c = static_cast<char>('a' + random() % n_letters);
      const std::vector<TokenId> want = by_definition(model, text);
      for (int twice = 0; twice < 2; ++twice) {  // the second time may take a remembered answer
        std::vector<TokenId> ids;
        bpe.encode(text, scratch, ids);
        ASSERT_EQ(ids, want) << "round " << round << ": " << text;
      }
    }
  }
}

TEST(Bpe, AlphabetWritesEachByteAsOneCharacter) {
  EXPECT_EQ(bytes_of_token_text("Ġa"), " a");
  EXPECT_EQ(bytes_of_token_text("Ċ"), "\n");
  EXPECT_EQ(bytes_of_token_text("ä¸Ń"), "中");
  EXPECT_EQ(bytes_of_token_text(""), "");
  EXPECT_EQ(bytes_of_token_text("a b"), std::nullopt);  // a space is not in the alphabet
  EXPECT_EQ(bytes_of_token_text("中"), std::nullopt);
  EXPECT_EQ(bytes_of_token_text("a\xC4"), std::nullopt);  // cut off
}

TEST(Bpe, BytesWithoutATokenAreLeftOutOrUnknown) {
  const auto encode = [](Bpe::Options options) {
    TokenTable table(3, 3, 16);
    table.add(0, "a");
    table.add(1, "b");
    table.add(2, "?");
    Bpe bpe(std::move(table), 0, options);
    bpe.finish();
    Bpe::Scratch scratch;
    std::vector<TokenId> ids;
    bpe.encode("axyb", scratch, ids);
    return ids;
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(encode({false, std::nullopt, false}), (Ids{0, 1}));
  EXPECT_EQ(encode({false, 2, false}), (Ids{0, 2, 2, 1}));
  EXPECT_EQ(encode({false, 2, true}), (Ids{0, 2, 1}));
}

}  // namespace
}  // namespace munia::text
