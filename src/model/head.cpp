#include "model/head.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "model/weight_mode.h"

namespace munia::model {
namespace {

using kernels::kPanelRows;
using kernels::PackedMatrix;
using kernels::PreparedRows;
using kernels::WeightType;

// Below this many panels a full pass is over before screening has started: 16,384 outputs.
constexpr std::int64_t kLeastPanels = 1024;
// Where more than this part of the panels hold a survivor, the full pass is as quick: it reads them
// in one stream.
constexpr std::int64_t kMostSurvivors = 8;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool is_wanted(const PackedMatrix& head, HeadMode mode) {
  return (kernels::can_screen(head.type) || head.type == WeightType::kInt8) &&
         (mode == HeadMode::kScreened ||
          (mode == HeadMode::kAuto && head.n_panels() >= kLeastPanels));
}

/// The largest mean squared difference of a row in a group, for 16 rows [n_cols][16].
void write_errors(const float* exact, const float* copy, std::int64_t n_cols, float* errors) {
  for (std::int64_t begin = 0; begin < n_cols; begin += kErrorCols) {
    const std::int64_t end = std::min(begin + kErrorCols, n_cols);
    std::array<float, kPanelRows> sums{};
    for (std::int64_t i = begin * kPanelRows; i < end * kPanelRows; ++i) {
      const float rest = exact[i] - copy[i];
      sums[static_cast<std::size_t>(i % kPanelRows)] += rest * rest;
    }
    *errors++ = *std::max_element(sums.begin(), sums.end()) / static_cast<float>(end - begin);
  }
}

HeadScreen make_nibbles(const PackedMatrix& head, const kernels::Kernels& kernels,
                        ThreadPool& pool) {
  HeadScreen screen;
  PackedMatrix& nibbles = screen.nibbles;
  nibbles = head;
  nibbles.type = WeightType::kInt4;
  nibbles.panel_bytes = kernels::packed_panel_bytes(nibbles.type, nibbles.n_cols);
  screen.memory = AlignedBuffer(nibbles.size_bytes());
  std::byte* const data = screen.memory.data();
  nibbles.data = data;
  const std::int64_t n_groups = n_error_groups(head.n_cols);
  screen.errors.resize(static_cast<std::size_t>(head.n_panels() * n_groups));
  pool.parallel_for(head.n_panels(), 16, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> exact;
    std::vector<float> copy(static_cast<std::size_t>(kPanelRows * head.n_cols));
    for (std::int64_t panel = begin; panel < end; ++panel) {
      quantize_panel(kernels, head, panel, nibbles.type, nullptr, exact,
                     data + static_cast<std::size_t>(panel) * nibbles.panel_bytes);
      kernels.unpack_panel(nibbles, panel, copy.data());
      write_errors(exact.data(), copy.data(), head.n_cols, screen.errors.data() + panel * n_groups);
    }
  });
  return screen;
}

}  // namespace

HeadScreen make_head_screen(const PackedMatrix& head, HeadMode mode,
                            const kernels::Kernels& kernels, ThreadPool& pool) {
  HeadScreen screen;
  if (!is_wanted(head, mode)) return screen;
  if (head.type == WeightType::kInt8) return make_nibbles(head, kernels, pool);
  const std::size_t panel_bytes = kernels::screen_panel_bytes(head.n_cols);
  screen.memory = AlignedBuffer(panel_bytes * static_cast<std::size_t>(head.n_panels()));
  std::byte* const data = screen.memory.data();
  pool.parallel_for(head.n_panels(), 16, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      kernels.screen_pack(head, panel, data + static_cast<std::size_t>(panel) * panel_bytes);
    }
  });
  screen.matrix = {head.n_rows, head.n_cols, data, panel_bytes};
  return screen;
}

HeadScratch::HeadScratch(const kernels::Kernels& kernels, std::int64_t vocab_size,
                         std::int64_t hidden_dim, int n_threads, std::int64_t max_rows)
    : thread_bytes((std::max(kernels.matmul_scratch_bytes(1, hidden_dim),
                             kernels.matmul_scratch_bytes(max_rows, hidden_dim)) +
                    63) /
                   64 * 64),
      matmul(thread_bytes * static_cast<std::size_t>(n_threads)),
      prepared(kernels.prepared_bytes(max_rows, hidden_dim)),
      screen_rows(std::min(kernels.screen_rows, max_rows)),
      codes(static_cast<std::size_t>(screen_rows * kernels::screen_padded_cols(hidden_dim))),
      groups(static_cast<std::size_t>(screen_rows * kernels::screen_groups(hidden_dim))),
      lower(static_cast<std::size_t>(screen_rows * vocab_size)),
      squares(static_cast<std::size_t>(screen_rows * n_error_groups(hidden_dim))),
      survivors(static_cast<std::size_t>(screen_rows)) {
  panels.reserve(static_cast<std::size_t>((vocab_size + kPanelRows - 1) / kPanelRows));
}

bool Head::can_screen(std::int64_t n_rows) const {
  return (screen_.matrix.data != nullptr || screen_.nibbles.data != nullptr) &&
         n_rows <= s_.screen_rows;
}

PreparedRows Head::prepare(const float* h, std::int64_t n_rows) {
  const std::int64_t n_units = (n_rows + k_.prepare_unit_rows - 1) / k_.prepare_unit_rows;
  k_.prepare_rows(h, n_rows, head_.n_cols, kernels::only(head_.type), 0, n_units,
                  s_.prepared.data());
  return {s_.prepared.data(), n_rows, head_.n_cols};
}

void Head::all(const float* h, std::int64_t n_rows, float* logits) {
  if (n_rows == 0) return;
  const PreparedRows x = prepare(h, n_rows);
  const kernels::MatmulOutput out{logits, head_.n_rows, nullptr, false};
  pool_.parallel_for(head_.n_panels(), 32, [&](std::int64_t begin, std::int64_t end, int thread) {
    k_.matmul(head_, x, out, begin, end,
              s_.matmul.data() + static_cast<std::size_t>(thread) * s_.thread_bytes);
  });
  s_.counts.rows_in_full += n_rows;
}

// Those panels only, for all rows of x.
void Head::multiply_panels(std::span<const std::int32_t> panels, const PreparedRows& x,
                           float* logits) {
  if (panels.empty()) return;
  const kernels::MatmulOutput out{logits, head_.n_rows, nullptr, false};
  const auto n_panels = static_cast<std::int64_t>(panels.size());
  pool_.parallel_for(n_panels, 4, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t panel = panels[static_cast<std::size_t>(i)];
      k_.matmul(head_, x, out, panel, panel + 1,
                s_.matmul.data() + static_cast<std::size_t>(thread) * s_.thread_bytes);
    }
  });
}

// Rows usually ask for the same labels: the panels of all are multiplied with all.
void Head::some(const float* h, std::span<const LogitRow* const> rows, float* logits) {
  if (rows.empty()) return;
  s_.panels.clear();
  for (const LogitRow* row : rows) {
    for (const std::int32_t id : row->ids) {
      const auto panel = static_cast<std::int32_t>(id / kPanelRows);
      MUNIA_CHECK(id >= 0 && id < head_.n_rows);
      const auto place = std::lower_bound(s_.panels.begin(), s_.panels.end(), panel);
      if (place == s_.panels.end() || *place != panel) s_.panels.insert(place, panel);
    }
  }
  const auto n_rows = static_cast<std::int64_t>(rows.size());
  multiply_panels(s_.panels, prepare(h, n_rows), logits);
  s_.counts.rows_by_ids += n_rows;
}

// An id may be the largest when its upper bound reaches the best lower bound.
void Head::find_survivors(std::span<const float> lower, std::span<const float> upper,
                          HeadSurvivors& found) const {
  // 16 running maxima, so that the compiler makes a vector of them.
  std::array<float, kPanelRows> best;
  best.fill(-kInfinity);
  const std::size_t n_whole = lower.size() / best.size() * best.size();
  for (std::size_t n = 0; n < n_whole; n += best.size()) {
    for (std::size_t i = 0; i < best.size(); ++i) {
      best[i] = lower[n + i] > best[i] ? lower[n + i] : best[i];
    }
  }
  for (std::size_t n = n_whole; n < lower.size(); ++n) best[0] = std::max(best[0], lower[n]);
  const float threshold = *std::max_element(best.begin(), best.end());
  const std::size_t most_panels = static_cast<std::size_t>(head_.n_panels() / kMostSurvivors);
  found.panels.clear();
  found.n_ids = 0;
  found.helped = false;
  for (std::size_t begin = 0; begin < upper.size(); begin += kPanelRows) {
    const std::size_t end = std::min(begin + kPanelRows, upper.size());
    std::int64_t here = 0;
    for (std::size_t n = begin; n < end; ++n) here += upper[n] < threshold ? 0 : 1;
    if (here == 0) continue;
    if (found.panels.size() == most_panels) return;
    found.panels.push_back(static_cast<std::int32_t>(begin / kPanelRows));
    found.n_ids += here;
  }
  found.helped = true;
}

// Bounds to s_.lower and `upper`; false where nothing can be said of these rows.
bool Head::bound_floats(const float* h, std::int64_t n_rows, float* upper) {
  const auto hidden_dim = static_cast<std::size_t>(head_.n_cols);
  const double error = k_.matmul_error(head_.n_cols);
  for (std::int64_t t = 0; t < n_rows; ++t) {
    const std::span row(h + t * head_.n_cols, hidden_dim);
    if (!kernels::prepare_screen_row(
            row, error, s_.codes.data() + t * kernels::screen_padded_cols(head_.n_cols),
            s_.groups.data() + t * kernels::screen_groups(head_.n_cols))) {
      return false;
    }
  }
  const kernels::ScreenRows x{s_.codes.data(), s_.groups.data(), n_rows};
  const kernels::ScreenOutput out{s_.lower.data(), upper, head_.n_rows};
  pool_.parallel_for(head_.n_panels(), 32, [&](std::int64_t begin, std::int64_t end, int) {
    k_.screen(screen_.matrix, x, out, begin, end);
  });
  return true;
}

// The error of an output is a sum over k of (difference of the weights) times x. Where the
// differences of a group are independent, of mean 0 and mean square e, its variance is the sum over
// the groups of e |x|^2.
void Head::bound_int8(const float* h, std::int64_t n_rows, float* upper) {
  const PreparedRows x = prepare(h, n_rows);  // the same for INT8 and INT4
  const std::int64_t n_groups = n_error_groups(head_.n_cols);
  for (std::int64_t t = 0; t < n_rows; ++t) {
    for (std::int64_t g = 0; g < n_groups; ++g) {
      float sum = 0;
      const std::int64_t end = std::min((g + 1) * kErrorCols, head_.n_cols);
      for (std::int64_t k = g * kErrorCols; k < end; ++k) {
        sum += h[t * head_.n_cols + k] * h[t * head_.n_cols + k];
      }
      s_.squares[static_cast<std::size_t>(t * n_groups + g)] = sum;
    }
  }
  const kernels::MatmulOutput out{upper, head_.n_rows, nullptr, false};
  pool_.parallel_for(head_.n_panels(), 32, [&](std::int64_t begin, std::int64_t end, int thread) {
    k_.matmul(screen_.nibbles, x, out, begin, end,
              s_.matmul.data() + static_cast<std::size_t>(thread) * s_.thread_bytes);
    for (std::int64_t t = 0; t < n_rows; ++t) {
      const float* squares = s_.squares.data() + t * n_groups;
      for (std::int64_t panel = begin; panel < end; ++panel) {
        const float* errors = screen_.errors.data() + panel * n_groups;
        float variance = 0;
        for (std::int64_t g = 0; g < n_groups; ++g) variance += errors[g] * squares[g];
        const float bound = kSureDeviations * std::sqrt(variance);
        const std::int64_t last = std::min((panel + 1) * kPanelRows, head_.n_rows);
        for (std::int64_t n = panel * kPanelRows; n < last; ++n) {
          const std::int64_t i = t * head_.n_rows + n;
          s_.lower[static_cast<std::size_t>(i)] = upper[i] - bound;
          upper[i] += bound;
        }
      }
    }
  });
}

void Head::largest(const float* h, std::span<const LogitRow* const> rows, float* logits) {
  const auto n_rows = static_cast<std::int64_t>(rows.size());
  if (n_rows == 0) return;
  const auto vocab_size = static_cast<std::size_t>(head_.n_rows);
  if (screen_.nibbles.data != nullptr) {
    bound_int8(h, n_rows, logits);
  } else if (!bound_floats(h, n_rows, logits)) {
    return all(h, n_rows, logits);
  }
  // A few passes over the vocabulary a row: worth a thread when there are several.
  pool_.parallel_for(n_rows, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::span lower(s_.lower.data() + t * head_.n_rows, vocab_size);
      const std::span upper(logits + t * head_.n_rows, vocab_size);
      const MonotoneChange& change = rows[static_cast<std::size_t>(t)]->change;
      if (change.apply != nullptr) {
        change.apply(change.context, lower);
        change.apply(change.context, upper);
      }
      find_survivors(lower, upper, s_.survivors[static_cast<std::size_t>(t)]);
      std::fill(upper.begin(), upper.end(), -kInfinity);
    }
  });
  for (std::int64_t t = 0; t < n_rows; ++t) {
    const HeadSurvivors& found = s_.survivors[static_cast<std::size_t>(t)];
    const float* const row = h + t * head_.n_cols;
    if (!found.helped) {
      all(row, 1, logits + t * head_.n_rows);
      continue;
    }
    multiply_panels(found.panels, prepare(row, 1), logits + t * head_.n_rows);
    s_.counts.survivors += found.n_ids;
    ++s_.counts.rows_screened;
  }
}

}  // namespace munia::model
