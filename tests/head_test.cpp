// What is left out leaves the bytes as they are: the last block on wanted rows only, logits of some
// ids only, and the largest logit by screening; on models of every architecture and format, in
// ragged batches, chunks, with one or more threads, on every rung. Runs on real files too where
// MUNIA_TEST_QWEN_GGUF and MUNIA_TEST_SMOLLM2_GGUF name them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

#include "tiny_model.h"
#include "token_ids.h"

namespace munia::test {
namespace {

using model::LogitRow;

// All of tests/models, and the real files.
std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(MUNIA_SOURCE_DIR "/tests/models")) {
    if (entry.is_directory() || entry.path().extension() == ".gguf") {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  for (const char* variable : {"MUNIA_TEST_QWEN_GGUF", "MUNIA_TEST_SMOLLM2_GGUF"}) {
    names.push_back(std::string("$") + variable);
  }
  return names;
}

class HeadOfModel : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    path_ = GetParam();
    if (path_[0] != '$') return;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "real files take too long under a sanitizer";
#endif
    const char* real = std::getenv(path_.c_str() + 1);
    if (real == nullptr) GTEST_SKIP() << path_.substr(1) << " names no file";
    path_ = real;
    is_real_ = true;
  }

  // The scalar rung and emulated tiles are too slow for real files.
  std::vector<std::string> rungs() const {
    std::vector<std::string> names = rung_names();
    if (is_real_) {
      std::erase_if(names, [](const std::string& name) {
        return name == "scalar" || name == "amx-emulated";
      });
    }
    return names;
  }

  std::string path_;
  bool is_real_ = false;
};

std::size_t argmax(std::span<const float> logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

const std::size_t kLengths[] = {9, 1, 40, 3, 77, 2};

// Prompts of kLengths in steps of at most `chunk` tokens of each; want(sequence, token) tells what
// is asked of a row. With `tapped`, the whole last block is computed. Returns the computed rows by
// sequence, in order.
template <class Wanted>
std::vector<std::vector<std::vector<float>>> run(Runner& runner, std::size_t chunk, bool tapped,
                                                 const Wanted& wanted) {
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<model::KvCache> caches;
  for (std::size_t s = 0; s < std::size(kLengths); ++s) {
    prompts.push_back(tokens_of_length(kLengths[s], static_cast<std::uint32_t>(s)));
    caches.push_back(runner.new_cache());
  }
  std::vector<std::vector<std::vector<float>>> rows(prompts.size());
  std::vector<float> tap(static_cast<std::size_t>(320 * runner.model().config().hidden_dim));
  for (std::size_t begin = 0; begin < 77; begin += chunk) {
    model::Batch batch;
    std::vector<std::size_t> owners;
    for (std::size_t s = 0; s < prompts.size(); ++s) {
      if (begin >= prompts[s].size()) continue;
      model::SequenceSlice slice;
      slice.kv = &caches[s];
      slice.tokens =
          std::span(prompts[s]).subspan(begin, std::min(chunk, prompts[s].size() - begin));
      for (std::size_t i = 0; i < slice.tokens.size(); ++i) {
        LogitRow row(static_cast<std::int64_t>(i));
        if (!wanted(s, begin + i, row)) continue;
        slice.logit_rows.push_back(row);
        owners.push_back(s);
      }
      batch.sequences.push_back(std::move(slice));
    }
    if (tapped) batch.taps.push_back({runner.model().config().n_layers, tap.data()});
    runner.forward(batch);
    for (std::size_t i = 0; i < owners.size(); ++i) {
      const std::span<const float> row = runner.activations().logits(static_cast<std::int64_t>(i));
      rows[owners[i]].emplace_back(row.begin(), row.end());
    }
  }
  return rows;
}

bool last_only(std::size_t s, std::size_t token, LogitRow&) { return token + 1 == kLengths[s]; }
bool some_tokens(std::size_t s, std::size_t token, LogitRow&) {
  return s != 3 && (token * 7 + s) % 5 < 2;
}

TEST_P(HeadOfModel, TheLastBlockOnWantedRowsOnlyGivesTheSameBytes) {
  for (const std::string& isa : rungs()) {
    std::vector<std::vector<std::vector<float>>> first[2];
    for (const int n_threads : {1, 2}) {
      if (is_real_ && n_threads == 1) continue;
      Runner runner(path_, isa, n_threads);
      for (const std::size_t chunk : {77U, 16U, 5U}) {
        if (is_real_ && chunk == 5) continue;
        const auto last = run(runner, chunk, false, last_only);
        const auto some = run(runner, chunk, false, some_tokens);
        if (first[0].empty()) {
          first[0] = run(runner, 77, true, last_only);
          first[1] = run(runner, 77, true, some_tokens);
        }
        // A vector of floats compares by value; no logit is NaN, and -0 would show in the hash
        // tests.
        EXPECT_EQ(last, first[0]) << isa << ", chunk " << chunk;
        EXPECT_EQ(some, first[1]) << isa << ", chunk " << chunk;
      }
    }
  }
}

TEST_P(HeadOfModel, SomeIdsAndTheLargestAreThoseOfTheWholeRow) {
  const std::vector<std::int32_t> ids = {0, 17, 18, 333, 379};
  for (const std::string& isa : rungs()) {
    Runner runner(path_, isa, 2, model::HeadMode::kScreened);
    const auto whole = run(runner, 20, false, some_tokens);
    const auto mixed = run(runner, 20, false, [&](std::size_t s, std::size_t token, LogitRow& row) {
      if (token % 3 == 0) {
        row.want = LogitRow::Want::kIds;
        row.ids = ids;
      } else if (token % 3 == 1) {
        row.want = LogitRow::Want::kLargest;
      }
      return some_tokens(s, token, row);
    });
    const auto by_ids =
        run(runner, 20, false, [&](std::size_t s, std::size_t token, LogitRow& row) {
          row.want = LogitRow::Want::kIds;
          row.ids = ids;
          return some_tokens(s, token, row);
        });
    const model::HeadCounts before = runner.activations().head_counts();
    const auto largest =
        run(runner, 2, false, [&](std::size_t s, std::size_t token, LogitRow& row) {
          row.want = LogitRow::Want::kLargest;
          return some_tokens(s, token, row);
        });
    const model::HeadCounts& counts = runner.activations().head_counts();
    EXPECT_GT(counts.rows_by_ids, 0);
    std::size_t n_rows = 0;
    for (std::size_t s = 0; s < whole.size(); ++s) {
      ASSERT_EQ(mixed[s].size(), whole[s].size());
      std::size_t row = 0;
      for (std::size_t token = 0; token < kLengths[s]; ++token) {
        LogitRow unused(0);
        if (!some_tokens(s, token, unused)) continue;
        const std::vector<float>& want = whole[s][row];
        EXPECT_EQ(argmax(largest[s][row]), argmax(want)) << isa;
        if (token % 3 == 1) {
          EXPECT_EQ(argmax(mixed[s][row]), argmax(want)) << isa;
        }
        if (token % 3 == 2) {
          EXPECT_EQ(mixed[s][row], want) << isa;
        }
        for (const std::int32_t id : ids) {
          const auto at = static_cast<std::size_t>(id);
          EXPECT_EQ(by_ids[s][row][at], want[at]) << isa << ", id " << id;
          if (token % 3 == 0) {
            EXPECT_EQ(mixed[s][row][at], want[at]) << isa << ", id " << id;
          }
        }
        ++row;
      }
      n_rows += row;
    }
    ASSERT_GT(n_rows, 20U);
    const auto screened = static_cast<double>(counts.rows_screened - before.rows_screened);
    if (screened > 0) {
      std::printf("%s: %.0f of %zu rows screened, %.1f ids left of %lld\n", isa.c_str(), screened,
                  n_rows, static_cast<double>(counts.survivors - before.survivors) / screened,
                  static_cast<long long>(runner.model().config().vocab_size));
    }
    EXPECT_EQ(screened > 0, kernels::can_screen(runner.model().weights().head.type));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, HeadOfModel, testing::ValuesIn(model_names()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return c == '-' || c == '.' || c == '$'; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace munia::test
