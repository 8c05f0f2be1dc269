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
  for (std::int64_t l = 0; l < c_.n_layers; ++l) {
    tap(l);
    model_.architecture_->block(*this, l);
  }
  tap(c_.n_layers);
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
      qkv_dim_((c_.n_heads + 2 * c_.n_kv_heads) * c_.head_dim) {}

template <class Body>
void ForwardPass::for_rows(std::int64_t n_rows, const Body& body) {
  if (n_rows <= kInlineRows) {
    body(0, n_rows);
  } else {
    pool_.parallel_for(n_rows, 4,
                       [&](std::int64_t begin, std::int64_t end, int) { body(begin, end); });
  }
}

// Notes for every row its sequence and position, and the attention jobs of one layer.
void ForwardPass::plan() {
  const std::int64_t n_rep = c_.n_heads / c_.n_kv_heads;
  const std::int64_t tile = attention_tile_tokens(n_rep);
  const KvLayout layout = model_.kv_layout();
  a_.rows_.clear();
  a_.attention_jobs_.clear();
  for (const SequenceSlice& slice : batch_.sequences) {
    const auto n_new = static_cast<std::int64_t>(slice.tokens.size());
    const std::int64_t first_row = static_cast<std::int64_t>(a_.rows_.size());
    for (std::int64_t i = 0; i < n_new; ++i) {
      a_.rows_.push_back(
          {slice.kv, slice.kv->n_tokens() + i, slice.tokens[static_cast<std::size_t>(i)]});
    }
    // Late tiles see most keys and take longest: they come first, so that no thread ends alone.
    for (std::int64_t begin = (n_new - 1) / tile * tile; begin >= 0; begin -= tile) {
      for (std::int64_t kv_head = 0; kv_head < c_.n_kv_heads; ++kv_head) {
        AttentionArgs job;
        const std::int64_t row = first_row + begin;
        const std::int64_t column = kv_head * n_rep * c_.head_dim;
        job.q = a_.qkv_ + row * qkv_dim_ + column;
        job.q_token_stride = qkv_dim_;
        job.n_tokens = std::min(tile, n_new - begin);
        job.n_rep = n_rep;
        job.head_dim = c_.head_dim;
        job.pos_begin = slice.kv->n_tokens() + begin;
        job.pages = slice.kv->pages();
        job.page_offset = layout.offset(0, kv_head);
        job.scale = 1.0F / std::sqrt(static_cast<float>(c_.head_dim));
        job.out = a_.attn_ + row * c_.n_heads * c_.head_dim + column;
        job.out_token_stride = c_.n_heads * c_.head_dim;
        a_.attention_jobs_.push_back(job);
      }
    }
  }
  n_tokens_ = static_cast<std::int64_t>(a_.rows_.size());
  MUNIA_CHECK(n_tokens_ > 0 && n_tokens_ <= a_.limits_.max_tokens);
}

void ForwardPass::embed() {
  for_rows(n_tokens_, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      k_.unpack_row(model_.weights_.embedding, a_.rows_[static_cast<std::size_t>(t)].token,
                    a_.x_ + t * c_.hidden_dim);
    }
  });
}

void ForwardPass::norm(std::span<const float> weight) {
  for_rows(n_tokens_, [&](std::int64_t begin, std::int64_t end) {
    k_.rms_norm(a_.x_ + begin * c_.hidden_dim, weight.data(), c_.rms_norm_eps, end - begin,
                c_.hidden_dim, a_.h_ + begin * c_.hidden_dim);
  });
  normed_ = prepare(a_.h_, n_tokens_, c_.hidden_dim);
}

void ForwardPass::project_qkv(const LayerWeights& layer) {
  float* const q = a_.qkv_;
  float* const k = q + c_.n_heads * c_.head_dim;
  float* const v = k + c_.n_kv_heads * c_.head_dim;
  const std::array<MatmulJob, 3> jobs = {{
      {&layer.q, {q, qkv_dim_, layer.q.bias_or_null(), false}},
      {&layer.k, {k, qkv_dim_, layer.k.bias_or_null(), false}},
      {&layer.v, {v, qkv_dim_, layer.v.bias_or_null(), false}},
  }};
  matmul(jobs, normed_);
}

void ForwardPass::rotate_and_store(std::int64_t layer) {
  for_rows(n_tokens_, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const Activations::Row& row = a_.rows_[static_cast<std::size_t>(t)];
      float* const q = a_.qkv_ + t * qkv_dim_;
      float* const k = q + c_.n_heads * c_.head_dim;
      const float* const v = k + c_.n_kv_heads * c_.head_dim;
      // q and k stand side by side: one call rotates the heads of both.
      k_.rope(q, c_.n_heads + c_.n_kv_heads, c_.head_dim,
              model_.rope_.data() + row.pos * c_.head_dim);
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
  const PreparedRows attn = prepare(a_.attn_, n_tokens_, c_.n_heads * c_.head_dim);
  const std::array<MatmulJob, 1> jobs = {
      {{&layer.o, {a_.x_, c_.hidden_dim, layer.o.bias_or_null(), true}}}};
  matmul(jobs, attn);
}

void ForwardPass::gate_and_up(const LayerWeights& layer) {
  const std::array<MatmulJob, 2> jobs = {{
      {&layer.gate, {a_.gate_, c_.ffn_dim, layer.gate.bias_or_null(), false}},
      {&layer.up, {a_.up_, c_.ffn_dim, layer.up.bias_or_null(), false}},
  }};
  matmul(jobs, normed_);
  for_rows(n_tokens_, [&](std::int64_t begin, std::int64_t end) {
    k_.silu_mul(a_.gate_ + begin * c_.ffn_dim, a_.up_ + begin * c_.ffn_dim,
                (end - begin) * c_.ffn_dim, a_.gate_ + begin * c_.ffn_dim);
  });
}

void ForwardPass::project_ffn(const LayerWeights& layer) {
  const PreparedRows gate = prepare(a_.gate_, n_tokens_, c_.ffn_dim);
  const std::array<MatmulJob, 1> jobs = {
      {{&layer.down, {a_.x_, c_.hidden_dim, layer.down.bias_or_null(), true}}}};
  matmul(jobs, gate);
}

void ForwardPass::tap(std::int64_t layer) {
  for (const HiddenTap& tap : batch_.taps) {
    if (tap.layer != layer) continue;
    std::memcpy(tap.out, a_.x_,
                static_cast<std::size_t>(n_tokens_ * c_.hidden_dim) * sizeof(float));
  }
}

void ForwardPass::compute_logits() {
  // The wanted rows of x, gathered, then normed into h.
  std::int64_t n_rows = 0;
  std::int64_t first_row = 0;
  for (const SequenceSlice& slice : batch_.sequences) {
    for (const std::int64_t i : slice.logit_rows) {
      std::memcpy(a_.gathered_ + n_rows * c_.hidden_dim, a_.x_ + (first_row + i) * c_.hidden_dim,
                  static_cast<std::size_t>(c_.hidden_dim) * sizeof(float));
      ++n_rows;
    }
    first_row += static_cast<std::int64_t>(slice.tokens.size());
  }
  MUNIA_CHECK(n_rows <= a_.limits_.max_logit_rows);
  if (n_rows == 0) return;
  k_.rms_norm(a_.gathered_, model_.weights_.final_norm.data(), c_.rms_norm_eps, n_rows,
              c_.hidden_dim, a_.h_);
  const PreparedRows x = prepare(a_.h_, n_rows, c_.hidden_dim);
  const Linear head{model_.weights_.head, {}};
  const std::array<MatmulJob, 1> jobs = {{{&head, {a_.logits_, c_.vocab_size, nullptr, false}}}};
  matmul(jobs, x);
}

void ForwardPass::advance() {
  for (const SequenceSlice& slice : batch_.sequences) {
    slice.kv->advance(static_cast<std::int64_t>(slice.tokens.size()));
  }
}

PreparedRows ForwardPass::prepare(const float* x, std::int64_t n_rows, std::int64_t n_cols) {
  const std::int64_t n_units = (n_rows + k_.prepare_unit_rows - 1) / k_.prepare_unit_rows;
  const auto body = [&](std::int64_t begin, std::int64_t end, int) {
    k_.prepare_rows(x, n_rows, n_cols, begin, end, a_.prepared_);
  };
  if (n_rows <= kInlineRows) {
    body(0, n_units, 0);
  } else {
    pool_.parallel_for(n_units, 1, body);
  }
  return {a_.prepared_, n_rows, n_cols};
}

// All jobs multiply the same rows; their panels are numbered through, so that one hand-off to the
// pool covers them all and a thread goes on with the next matrix where another still works.
void ForwardPass::matmul(std::span<const MatmulJob> jobs, const PreparedRows& x) {
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
        k_.matmul(job.linear->w, x, job.out, from - first, to - first, scratch(thread));
      first = last;
    }
  });
}

}  // namespace munia::model
