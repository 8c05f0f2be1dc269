#include "model/forward.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "model/architecture.h"

namespace munia::model {

using kernels::AttentionArgs;
using kernels::kPanelRows;
using kernels::PreparedRows;

// ---- The page: what a decoder computes
// -----------------------------------------------------------

void ForwardPass::run() {
  plan();
  embed();  // x [n_tokens, hidden_dim]
  const std::int64_t n_blocks = batch_.n_blocks.value_or(c_.n_layers);
  for (std::int64_t l = 0; l < n_blocks; ++l) {
    tap(l);
    block_of(l)(*this, l);
  }
  tap(n_blocks);
  compute_logits();  // logits [n_logit_rows, vocab_size]
  advance();
}

void decoder_block(ForwardPass& pass, std::int64_t l) {
  const LayerWeights& layer = pass.layer(l);
  pass.norm(layer.attn_norm);
  pass.project_qkv(layer);
  pass.rotate_and_store(l);
  pass.attend(l);
  pass.project_attn(layer);
  pass.norm(layer.ffn_norm);
  pass.gate_and_up(layer);
  pass.project_ffn(layer);
}

void last_decoder_block(ForwardPass& pass, std::int64_t l) {
  const LayerWeights& layer = pass.layer(l);
  pass.norm(layer.attn_norm);
  pass.project_kv(layer);
  pass.rotate_and_store_keys(l);
  if (!pass.keep_wanted_rows()) return;
  pass.project_q(layer);
  pass.rotate_queries();
  pass.attend(l);
  pass.project_attn(layer);
  pass.norm(layer.ffn_norm);
  pass.gate_and_up(layer);
  pass.project_ffn(layer);
}

// ---- The steps
// -----------------------------------------------------------------------------------

namespace {

// Below this many rows a row-wise step is cheaper on one thread than a hand-off to the pool.
constexpr std::int64_t kInlineRows = 4;

}  // namespace

std::int64_t attention_tile_tokens(std::int64_t n_rep) {
  return std::max<std::int64_t>(1, 32 / n_rep);
}

ForwardPass::ForwardPass(const Model& model, const Batch& batch, Activations& activations,
                         ThreadPool& pool)
    : model_(model),
      c_(model.config_),
      k_(*model.kernels_),
      batch_(batch),
      a_(activations),
      pool_(pool),
      k_column_(c_.n_heads * c_.head_dim),
      v_column_(k_column_ + c_.n_kv_heads * c_.head_dim),
      qkv_dim_(v_column_ + c_.n_kv_heads * c_.head_dim) {}

template <class Body>
void ForwardPass::for_rows(std::int64_t n_rows, const Body& body) {
  if (n_rows <= kInlineRows) {
    body(0, n_rows);
  } else {
    pool_.parallel_for(n_rows, 4,
                       [&](std::int64_t begin, std::int64_t end, int) { body(begin, end); });
  }
}

// Where every layer but the last, or a last layer that somebody watches, has all rows.
Architecture::Block ForwardPass::block_of(std::int64_t layer) const {
  const auto is_tapped = [this](const HiddenTap& tap) { return tap.layer == c_.n_layers; };
  const bool prunes = layer == c_.n_layers - 1 && model_.architecture_->last_block != nullptr &&
                      static_cast<std::int64_t>(a_.wanted_.size()) < n_rows_ &&
                      batch_.observer == nullptr &&
                      std::none_of(batch_.taps.begin(), batch_.taps.end(), is_tapped);
  return prunes ? model_.architecture_->last_block : model_.architecture_->block;
}

// Notes for every row its sequence and position, which rows want logits, and the attention jobs.
void ForwardPass::plan() {
  a_.rows_.clear();
  a_.wanted_.clear();
  for (const SequenceSlice& slice : batch_.sequences) {
    const auto first_row = static_cast<std::int64_t>(a_.rows_.size());
    for (std::size_t i = 0; i < slice.tokens.size(); ++i) {
      a_.rows_.push_back(
          {slice.kv, slice.kv->n_tokens() + static_cast<std::int64_t>(i), slice.tokens[i]});
    }
    for (const LogitRow& wanted : slice.logit_rows) {
      a_.wanted_.push_back({first_row + wanted.index, &wanted});
    }
  }
  n_rows_ = static_cast<std::int64_t>(a_.rows_.size());
  MUNIA_CHECK(n_rows_ > 0 && n_rows_ <= a_.limits_.max_tokens);
  MUNIA_CHECK(static_cast<std::int64_t>(a_.wanted_.size()) <= a_.limits_.max_logit_rows);
  plan_attention();
}

// Jobs for runs of rows that stand behind each other in one sequence.
void ForwardPass::plan_attention() {
  const std::int64_t n_rep = c_.n_heads / c_.n_kv_heads;
  const std::int64_t tile = attention_tile_tokens(n_rep);
  const KvLayout layout = model_.kv_layout();
  a_.attention_jobs_.clear();
  for (std::int64_t first_row = 0; first_row < n_rows_;) {
    const Activations::Row& first = a_.rows_[static_cast<std::size_t>(first_row)];
    std::int64_t n_run = 1;
    for (; first_row + n_run < n_rows_; ++n_run) {
      const Activations::Row& next = a_.rows_[static_cast<std::size_t>(first_row + n_run)];
      if (next.kv != first.kv || next.pos != first.pos + n_run) break;
    }
    // Late tiles see most keys and take longest: they come first, so that no thread ends alone.
    for (std::int64_t begin = (n_run - 1) / tile * tile; begin >= 0; begin -= tile) {
      for (std::int64_t kv_head = 0; kv_head < c_.n_kv_heads; ++kv_head) {
        AttentionArgs job;
        const std::int64_t row = first_row + begin;
        const std::int64_t column = kv_head * n_rep * c_.head_dim;
        job.q = a_.qkv_ + row * qkv_dim_ + column;
        job.q_token_stride = qkv_dim_;
        job.n_tokens = std::min(tile, n_run - begin);
        job.n_rep = n_rep;
        job.head_dim = c_.head_dim;
        job.pos_begin = first.pos + begin;
        job.pages = first.kv->pages();
        job.page_offset = layout.offset(0, kv_head);
        job.scale = 1.0F / std::sqrt(static_cast<float>(c_.head_dim));
        job.out = a_.attn_ + row * c_.n_heads * c_.head_dim + column;
        job.out_token_stride = c_.n_heads * c_.head_dim;
        a_.attention_jobs_.push_back(job);
      }
    }
    first_row += n_run;
  }
}

void ForwardPass::embed() {
  for_rows(n_rows_, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      k_.unpack_row(model_.weights_.embedding, a_.rows_[static_cast<std::size_t>(t)].token,
                    a_.x_ + t * c_.hidden_dim);
    }
  });
}

void ForwardPass::norm(std::span<const float> weight) {
  for_rows(n_rows_, [&](std::int64_t begin, std::int64_t end) {
    k_.rms_norm(a_.x_ + begin * c_.hidden_dim, weight.data(), c_.rms_norm_eps, end - begin,
                c_.hidden_dim, a_.h_ + begin * c_.hidden_dim);
  });
}

void ForwardPass::project_qkv(const LayerWeights& layer) {
  const std::array<MatmulJob, 3> jobs = {{
      {&layer.q, {a_.qkv_, qkv_dim_, layer.q.bias_or_null(), false}},
      {&layer.k, {a_.qkv_ + k_column_, qkv_dim_, layer.k.bias_or_null(), false}},
      {&layer.v, {a_.qkv_ + v_column_, qkv_dim_, layer.v.bias_or_null(), false}},
  }};
  matmul(jobs, a_.h_);
}

void ForwardPass::project_q(const LayerWeights& layer) {
  const std::array<MatmulJob, 1> jobs = {
      {{&layer.q, {a_.qkv_, qkv_dim_, layer.q.bias_or_null(), false}}}};
  matmul(jobs, a_.h_);
}

void ForwardPass::project_kv(const LayerWeights& layer) {
  const std::array<MatmulJob, 2> jobs = {{
      {&layer.k, {a_.qkv_ + k_column_, qkv_dim_, layer.k.bias_or_null(), false}},
      {&layer.v, {a_.qkv_ + v_column_, qkv_dim_, layer.v.bias_or_null(), false}},
  }};
  matmul(jobs, a_.h_);
}

void ForwardPass::norm_queries(const LayerWeights& layer) {
  norm_heads(layer.q_norm, 0, c_.n_heads);
}

void ForwardPass::norm_keys(const LayerWeights& layer) {
  norm_heads(layer.k_norm, k_column_, c_.n_kv_heads);
}

// Norms n_heads heads from `column` of qkv on, each by itself; weight [head_dim]. In place:
// rms_norm has read a row when it writes it.
void ForwardPass::norm_heads(std::span<const float> weight, std::int64_t column,
                             std::int64_t n_heads) {
  for_rows(n_rows_, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      float* const heads = a_.qkv_ + t * qkv_dim_ + column;  // [n_heads, head_dim]
      k_.rms_norm(heads, weight.data(), c_.rms_norm_eps, n_heads, c_.head_dim, heads);
    }
  });
}

void ForwardPass::rotate_and_store(std::int64_t layer) {
  // q and k stand side by side: one call rotates the heads of both.
  rotate(0, c_.n_heads + c_.n_kv_heads);
  store(layer);
}

void ForwardPass::rotate_and_store_keys(std::int64_t layer) {
  rotate(k_column_, c_.n_kv_heads);
  store(layer);
}

void ForwardPass::rotate_queries() { rotate(0, c_.n_heads); }

// Rotates n_heads heads from `column` of qkv on to their rows' positions.
void ForwardPass::rotate(std::int64_t column, std::int64_t n_heads) {
  for_rows(n_rows_, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      k_.rope(a_.qkv_ + t * qkv_dim_ + column, n_heads, c_.head_dim,
              model_.rope_.data() + a_.rows_[static_cast<std::size_t>(t)].pos * c_.head_dim);
    }
  });
}

void ForwardPass::store(std::int64_t layer) {
  for_rows(n_rows_, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const Activations::Row& row = a_.rows_[static_cast<std::size_t>(t)];
      const float* const k = a_.qkv_ + t * qkv_dim_ + k_column_;
      const float* const v = a_.qkv_ + t * qkv_dim_ + v_column_;
      for (std::int64_t h = 0; h < c_.n_kv_heads; ++h) {
        const KvCache::Slot slot = row.kv->slot(layer, h, row.pos);
        const float* const k_head = k + h * c_.head_dim;
        for (std::int64_t d = 0; d < c_.head_dim; ++d) slot.k[d * kPanelRows] = k_head[d];
        std::memcpy(slot.v, v + h * c_.head_dim,
                    static_cast<std::size_t>(c_.head_dim) * sizeof(float));
      }
    }
  });
}

bool ForwardPass::keep_wanted_rows() {
  // Ascending, so a row moves to a place whose own row has moved already or is not wanted.
  n_rows_ = 0;
  for (Activations::WantedRow& wanted : a_.wanted_) {
    const std::int64_t from = wanted.row;
    const std::int64_t to = n_rows_++;
    wanted.row = to;
    if (from == to) continue;
    for (float* rows : {a_.x_, a_.h_}) {
      std::memcpy(rows + to * c_.hidden_dim, rows + from * c_.hidden_dim,
                  static_cast<std::size_t>(c_.hidden_dim) * sizeof(float));
    }
    a_.rows_[static_cast<std::size_t>(to)] = a_.rows_[static_cast<std::size_t>(from)];
  }
  if (n_rows_ == 0) return false;
  plan_attention();
  return true;
}

void ForwardPass::attend(std::int64_t layer) {
  const std::int64_t layer_offset = model_.kv_layout().offset(layer, 0);
  const auto n_jobs = static_cast<std::int64_t>(a_.attention_jobs_.size());
  pool_.parallel_for(n_jobs, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t i = begin; i < end; ++i) {
      AttentionArgs job = a_.attention_jobs_[static_cast<std::size_t>(i)];
      job.page_offset += layer_offset;
      k_.attention(job, scratch(thread));
    }
  });
}

void ForwardPass::project_attn(const LayerWeights& layer) {
  const std::array<MatmulJob, 1> jobs = {
      {{&layer.o, {a_.x_, c_.hidden_dim, layer.o.bias_or_null(), true}}}};
  matmul(jobs, a_.attn_);
}

void ForwardPass::gate_and_up(const LayerWeights& layer) {
  const std::array<MatmulJob, 2> jobs = {{
      {&layer.gate, {a_.gate_, c_.ffn_dim, layer.gate.bias_or_null(), false}},
      {&layer.up, {a_.up_, c_.ffn_dim, layer.up.bias_or_null(), false}},
  }};
  matmul(jobs, a_.h_);
  for_rows(n_rows_, [&](std::int64_t begin, std::int64_t end) {
    k_.silu_mul(a_.gate_ + begin * c_.ffn_dim, a_.up_ + begin * c_.ffn_dim,
                (end - begin) * c_.ffn_dim, a_.gate_ + begin * c_.ffn_dim);
  });
}

void ForwardPass::project_ffn(const LayerWeights& layer) {
  const std::array<MatmulJob, 1> jobs = {
      {{&layer.down, {a_.x_, c_.hidden_dim, layer.down.bias_or_null(), true}}}};
  matmul(jobs, a_.gate_);
}

void ForwardPass::tap(std::int64_t layer) {
  for (const HiddenTap& tap : batch_.taps) {
    if (tap.layer != layer) continue;
    std::memcpy(tap.out, a_.x_, static_cast<std::size_t>(n_rows_ * c_.hidden_dim) * sizeof(float));
  }
}

// The wanted rows of x, gathered by what they want of the head, then normed into h.
void ForwardPass::compute_logits() {
  using Want = LogitRow::Want;
  const auto n_rows = static_cast<std::int64_t>(a_.wanted_.size());
  if (n_rows == 0) return;
  Head head(model_.weights_.head, model_.head_screen_, k_, pool_, a_.head_);
  const auto n_that = [this](Want want) {
    return std::count_if(
        a_.wanted_.begin(), a_.wanted_.end(),
        [want](const Activations::WantedRow& wanted) { return wanted.logits->want == want; });
  };
  // Where some row reads the whole head anyway, the others read it with it.
  const std::int64_t n_some = n_that(Want::kIds);
  const bool screens = n_that(Want::kAll) == 0 && head.can_screen(n_rows - n_some);
  const std::int64_t n_largest = screens ? n_rows - n_some : 0;
  const std::int64_t n_all = n_rows - n_some - n_largest;
  std::int64_t next[] = {0, n_all, n_all + n_some};  // slot of: all, some, largest
  for (std::size_t i = 0; i < a_.wanted_.size(); ++i) {
    const Activations::WantedRow& wanted = a_.wanted_[i];
    const int group = wanted.logits->want == Want::kIds ? 1 : screens ? 2 : 0;
    const std::int64_t slot = next[group]++;
    a_.logit_slots_[i] = slot;
    a_.head_rows_[static_cast<std::size_t>(slot)] = wanted.logits;
    std::memcpy(a_.gathered_ + slot * c_.hidden_dim, a_.x_ + wanted.row * c_.hidden_dim,
                static_cast<std::size_t>(c_.hidden_dim) * sizeof(float));
  }
  k_.rms_norm(a_.gathered_, model_.weights_.final_norm.data(), c_.rms_norm_eps, n_rows,
              c_.hidden_dim, a_.h_);
  const auto h = [this](std::int64_t slot) { return a_.h_ + slot * c_.hidden_dim; };
  const auto logits = [this](std::int64_t slot) { return a_.logits_ + slot * c_.vocab_size; };
  const auto rows = [this](std::int64_t slot, std::int64_t n) {
    return std::span<const LogitRow* const>(a_.head_rows_)
        .subspan(static_cast<std::size_t>(slot), static_cast<std::size_t>(n));
  };
  head.all(h(0), n_all, logits(0));
  head.some(h(n_all), rows(n_all, n_some), logits(n_all));
  head.largest(h(n_all + n_some), rows(n_all + n_some, n_largest), logits(n_all + n_some));
}

void ForwardPass::advance() {
  for (const SequenceSlice& slice : batch_.sequences) {
    slice.kv->advance(static_cast<std::int64_t>(slice.tokens.size()));
  }
}

// x [n_rows_, n_cols] in the form that the kernels take for the jobs' weights.
PreparedRows ForwardPass::prepare(std::span<const MatmulJob> jobs, const float* x) {
  const std::int64_t n_cols = jobs.front().linear->w.n_cols;
  kernels::WeightTypes types = 0;
  for (const MatmulJob& job : jobs) types |= kernels::only(job.linear->w.type);
  const std::int64_t n_units = (n_rows_ + k_.prepare_unit_rows - 1) / k_.prepare_unit_rows;
  const auto body = [&](std::int64_t begin, std::int64_t end, int) {
    k_.prepare_rows(x, n_rows_, n_cols, types, begin, end, a_.prepared_);
  };
  if (n_rows_ <= kInlineRows) {
    body(0, n_units, 0);
  } else {
    pool_.parallel_for(n_units, 1, body);
  }
  return {a_.prepared_, n_rows_, n_cols};
}

// All jobs multiply the same rows x [n_rows_, n_cols of the weights]; their panels are numbered
// through, so that one hand-off to the pool covers them all and a thread goes on with the next
// matrix where another still works.
void ForwardPass::matmul(std::span<const MatmulJob> jobs, const float* x) {
  if (batch_.observer != nullptr) batch_.observer->see(*jobs.front().linear, x, n_rows_, pool_);
  const PreparedRows prepared = prepare(jobs, x);
  std::int64_t n_panels = 0;
  for (const MatmulJob& job : jobs) n_panels += job.linear->w.n_panels();
  // About eight chunks per thread, in whole fours: kernels work on several panels at once.
  const std::int64_t share = n_panels / (std::int64_t{8} * pool_.n_threads());
  const std::int64_t grain = std::clamp<std::int64_t>(share / 4 * 4, 4, 32);
  pool_.parallel_for(n_panels, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    std::int64_t first = 0;  // number of the job's first panel
    for (const MatmulJob& job : jobs) {
      const std::int64_t last = first + job.linear->w.n_panels();
      const std::int64_t from = std::max(begin, first);
      const std::int64_t to = std::min(end, last);
      if (from < to)
        k_.matmul(job.linear->w, prepared, job.out, from - first, to - first, scratch(thread));
      first = last;
    }
  });
}

}  // namespace munia::model
