// Keys and values of one sequence in float32 pages of kPageTokens positions. Full pages may be
// shared by several sequences (a fork); a page is written only by the sequence that owns it alone.
// Owned by the engine thread; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/error.h"
#include "kernels/kernels.h"
#include "model/config.h"

namespace munia::model {

/// Where a layer's and head's part stands in a page (kernels.h, AttentionArgs).
struct KvLayout {
  std::int64_t n_layers = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;

  std::int64_t head_floats() const { return 2 * kernels::kPageTokens * head_dim; }
  std::int64_t offset(std::int64_t layer, std::int64_t kv_head) const {
    return (layer * n_kv_heads + kv_head) * head_floats();
  }
  std::int64_t page_floats() const { return n_layers * n_kv_heads * head_floats(); }
  std::size_t page_bytes() const { return static_cast<std::size_t>(page_floats()) * sizeof(float); }
};

/// Hands out pages under a byte limit and keeps returned ones for the next sequence.
class KvPool : public std::enable_shared_from_this<KvPool> {
 public:
  KvPool(const KvLayout& layout, std::size_t max_bytes);
  const KvLayout& layout() const { return layout_; }
  std::size_t used_bytes() const;  // in pages that somebody holds: pages times page_bytes()
  std::size_t max_bytes() const { return max_bytes_; }

  /// `reclaim` is asked at the limit to give back a page that no sequence needs; it returns false
  /// when it has none. It must live as long as allocate() is called.
  void set_reclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }
  /// A page with unspecified content, or nullptr when the limit is reached.
  std::shared_ptr<float> allocate();

 private:
  bool take_buffer(AlignedBuffer& page);
  KvLayout layout_;
  std::size_t max_bytes_;
  std::size_t n_pages_used_ = 0;
  std::vector<AlignedBuffer> free_pages_;
  std::function<bool()> reclaim_;
};

class KvCache {
 public:
  explicit KvCache(std::shared_ptr<KvPool> pool) : pool_(std::move(pool)) {}

  std::int64_t n_tokens() const { return n_tokens_; }
  const KvLayout& layout() const { return pool_->layout(); }
  /// Page addresses, for AttentionArgs::pages; covers all reserved positions.
  const float* const* pages() const { return page_addresses_.data(); }

  /// Makes room for `n_new` positions behind n_tokens(). kLimit when the pool is exhausted: the
  /// cache is then as before.
  Status reserve(std::int64_t n_new);
  /// Where position `pos` (reserved, not shared) of a layer and head is written: K element d at
  /// [d * 16] from the first pointer, V element d at [d] from the second.
  struct Slot {
    float* k;  // stride kPanelRows floats between consecutive d
    float* v;
  };
  Slot slot(std::int64_t layer, std::int64_t kv_head, std::int64_t pos) const;
  /// Marks `n_new` reserved positions as written in every layer.
  void advance(std::int64_t n_new) { n_tokens_ += n_new; }
  /// Forgets all positions from `n_tokens` on and returns their pages. To write again into the
  /// middle of a page, be its only user: a fork and the prefix cache share whole pages, and the
  /// prefix cache trusts positions that it has seen.
  void truncate(std::int64_t n_tokens);
  /// A second sequence with the same past: shares full pages, copies a partly filled last one.
  Result<KvCache> fork() const;

  /// The page of positions [index * kPageTokens, (index + 1) * kPageTokens).
  const std::shared_ptr<float>& page(std::int64_t index) const {
    return pages_[static_cast<std::size_t>(index)];
  }
  /// Behind whole pages: the next kPageTokens positions are another sequence's page, shared.
  void append_page(std::shared_ptr<float> page);
  /// Behind whole pages: the next `n_tokens` < kPageTokens positions are copied from another
  /// sequence's page. False when the pool is exhausted: the cache is then as before.
  bool append_copy(const float* page, std::int64_t n_tokens);

 private:
  std::shared_ptr<KvPool> pool_;
  std::vector<std::shared_ptr<float>> pages_;
  std::vector<const float*> page_addresses_;
  std::int64_t n_tokens_ = 0;
};

}  // namespace munia::model
