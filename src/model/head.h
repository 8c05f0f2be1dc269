// The output layer: logits of normed rows, whole, for some ids only, or as far as the largest one
// needs. All three give the same bytes for every logit that they compute: they run the same panel
// kernel. Knows no model and no sequence, so that it can be tested on heads of any kind.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace munia::model {

/// Changes a row of numbers in place, id by id, never turning a larger value of an id into a
/// smaller one (a penalty, a bias). May be empty. Called from any thread of the pool, for several
/// rows at once.
struct MonotoneChange {
  void (*apply)(const void* context, std::span<float> values) = nullptr;
  const void* context = nullptr;
};

/// A token of a slice whose logits are wanted, and which of them.
struct LogitRow {
  enum class Want : std::uint8_t {
    kAll,      // every logit
    kIds,      // those of `ids`; the others are unspecified
    kLargest,  // those of every id that may be the largest after `change`; the others are -inf or
               // right, so the argmax of the changed row is that of the whole one, ties included
  };
  // Not explicit: a list of indices is a list of rows that want every logit.
  LogitRow(std::int64_t token_index) : index(token_index) {}
  std::int64_t index;  // into the slice's tokens
  Want want = Want::kAll;
  std::span<const std::int32_t> ids;  // of kIds; must outlive the pass
  MonotoneChange change;              // of kLargest
};

/// Whether greedy decoding screens the head with a smaller copy of it: 8 bits for a head of floats
/// (half of a BF16 head's bytes), 4 for INT8.
enum class HeadMode : std::uint8_t {
  kAuto,      // where it pays: large heads of F32, F16, BF16 or INT8
  kFull,      // never
  kScreened,  // all heads of these types: the copy of another would be no smaller than it
};

/// The copy, one of both forms. Empty where it is not wanted.
///
/// The copy of floats (kernels/screen.h) gives bounds that hold for every input. Of INT8 a copy
/// that is smaller cannot do that and still rule anything out, so its bounds are kSureDeviations
/// standard deviations of the error that rounding to 4 bits makes: were it not random they could
/// fail, and then another token than the largest would be taken. (For normal errors: once in 10^10
/// tokens.)
struct HeadScreen {
  kernels::ScreenMatrix matrix;   // of a head of floats
  kernels::PackedMatrix nibbles;  // of an INT8 head: INT4
  /// [n_panels][n_error_groups(n_cols)], each of kErrorCols k: the mean squared difference between
  /// a weight of the head and of `nibbles`, the largest of the panel's rows.
  std::vector<float> errors;
  AlignedBuffer memory;  // empty too where the copy borrows a mapped file
  std::size_t size_bytes() const {
    return matrix.panel_bytes * static_cast<std::size_t>(matrix.n_panels()) + nibbles.size_bytes() +
           errors.size() * sizeof(float);
  }
};
inline constexpr std::int64_t kErrorCols = 64;  // k that share an entry of HeadScreen::errors
inline constexpr float kSureDeviations = 8;
constexpr std::int64_t n_error_groups(std::int64_t n_cols) {
  return (n_cols + kErrorCols - 1) / kErrorCols;
}
HeadScreen make_head_screen(const kernels::PackedMatrix& head, HeadMode mode,
                            const kernels::Kernels& kernels, ThreadPool& pool);

/// Rows computed so far, and what screening left of them.
struct HeadCounts {
  std::int64_t rows_in_full = 0;   // the whole head was multiplied
  std::int64_t rows_by_ids = 0;    // only the panels of the wanted ids
  std::int64_t rows_screened = 0;  // only what the bounds could not rule out
  std::int64_t survivors = 0;      // ids left by screening, over rows_screened
};

/// What screening left of one row.
struct HeadSurvivors {
  std::vector<std::int32_t> panels;  // that hold an id which may be the largest
  std::int64_t n_ids = 0;
  bool helped = false;  // false: more panels than are worth picking out
};

/// What the head needs beside its input and output, allocated once.
struct HeadScratch {
  HeadScratch(const kernels::Kernels& kernels, std::int64_t vocab_size, std::int64_t hidden_dim,
              int n_threads, std::int64_t max_rows);
  std::size_t thread_bytes;                  // of matmul scratch for one thread
  AlignedBuffer matmul;                      // [n_threads][thread_bytes]
  AlignedBuffer prepared;                    // rows of x prepared for matmul
  std::vector<std::int32_t> panels;          // to be multiplied
  std::int64_t screen_rows;                  // the most that are screened at once
  std::vector<std::int16_t> codes;           // [screen_rows][screen_padded_cols(hidden_dim)]
  std::vector<kernels::ScreenGroup> groups;  // [screen_rows][screen_groups(hidden_dim)]
  std::vector<float> lower;                  // [screen_rows][vocab_size]
  std::vector<float> squares;                // [screen_rows][n_error_groups(hidden_dim)]
  std::vector<HeadSurvivors> survivors;      // [screen_rows]
  HeadCounts counts;
};

/// The head of one pass; borrows everything. Rows are at most HeadScratch's max_rows.
class Head {
 public:
  Head(const kernels::PackedMatrix& head, const HeadScreen& screen, const kernels::Kernels& kernels,
       ThreadPool& pool, HeadScratch& scratch)
      : head_(head), screen_(screen), k_(kernels), pool_(pool), s_(scratch) {}

  /// Whether largest() takes n_rows rows. More rows share one reading of the whole head, which then
  /// costs no more than screening them.
  bool can_screen(std::int64_t n_rows) const;

  // h [n_rows, hidden_dim] normed rows -> logits [n_rows, vocab_size], by LogitRow::Want.
  void all(const float* h, std::int64_t n_rows, float* logits);
  void some(const float* h, std::span<const LogitRow* const> rows, float* logits);
  void largest(const float* h, std::span<const LogitRow* const> rows, float* logits);

 private:
  kernels::PreparedRows prepare(const float* h, std::int64_t n_rows);
  bool bound_floats(const float* h, std::int64_t n_rows, float* upper);
  void bound_int8(const float* h, std::int64_t n_rows, float* upper);
  void multiply_panels(std::span<const std::int32_t> panels, const kernels::PreparedRows& x,
                       float* logits);
  void find_survivors(std::span<const float> lower, std::span<const float> upper,
                      HeadSurvivors& found) const;

  const kernels::PackedMatrix& head_;
  const HeadScreen& screen_;
  const kernels::Kernels& k_;
  ThreadPool& pool_;
  HeadScratch& s_;
};

}  // namespace munia::model
