#include "model/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace munia::model {

using kernels::kPageTokens;
using kernels::kPanelRows;

KvPool::KvPool(const KvLayout& layout, std::size_t max_bytes)
    : layout_(layout), max_bytes_(max_bytes) {}

std::size_t KvPool::used_bytes() const { return n_pages_used_ * layout_.page_bytes(); }

bool KvPool::take_buffer(AlignedBuffer& page) {
  if ((n_pages_used_ + 1) * layout_.page_bytes() > max_bytes_) return false;
  if (free_pages_.empty()) {
    try {
      page = AlignedBuffer(layout_.page_bytes());
    } catch (const std::bad_alloc&) {
      return false;  // the same to the caller as the limit: no room for this sequence
    }
  } else {
    page = std::move(free_pages_.back());
    free_pages_.pop_back();
  }
  return true;
}

std::shared_ptr<float> KvPool::allocate() {
  auto page = std::make_unique<AlignedBuffer>();
  while (!take_buffer(*page)) {
    if (!reclaim_ || !reclaim_()) return nullptr;
  }
  ++n_pages_used_;
  float* data = page->as<float>();
  // The pool outlives its pages: each holds a reference, and comes back when its last user lets go.
  return {data, [self = shared_from_this(), buffer = page.release()](float*) {
            self->free_pages_.push_back(std::move(*buffer));
            --self->n_pages_used_;
            delete buffer;
          }};
}

Status KvCache::reserve(std::int64_t n_new) {
  const std::int64_t n_pages = (n_tokens_ + n_new + kPageTokens - 1) / kPageTokens;
  const std::size_t before = pages_.size();
  while (static_cast<std::int64_t>(pages_.size()) < n_pages) {
    std::shared_ptr<float> page = pool_->allocate();
    if (page == nullptr) {
      pages_.resize(before);
      page_addresses_.resize(before);
      return Error{ErrorCode::kLimit,
                   "no memory left for the KV cache: " + std::to_string(pool_->used_bytes()) +
                       " of " + std::to_string(pool_->max_bytes()) + " bytes are in use"};
    }
    page_addresses_.push_back(page.get());
    pages_.push_back(std::move(page));
  }
  return {};
}

KvCache::Slot KvCache::slot(std::int64_t layer, std::int64_t kv_head, std::int64_t pos) const {
  const KvLayout& layout = pool_->layout();
  float* part =
      pages_[static_cast<std::size_t>(pos / kPageTokens)].get() + layout.offset(layer, kv_head);
  const std::int64_t in_page = pos % kPageTokens;
  return {part + (in_page / kPanelRows) * layout.head_dim * kPanelRows + in_page % kPanelRows,
          part + (kPageTokens + in_page) * layout.head_dim};
}

void KvCache::truncate(std::int64_t n_tokens) {
  n_tokens_ = std::min(n_tokens_, n_tokens);
  const auto n_pages = static_cast<std::size_t>((n_tokens_ + kPageTokens - 1) / kPageTokens);
  pages_.resize(n_pages);
  page_addresses_.resize(n_pages);
}

Result<KvCache> KvCache::fork() const {
  KvCache copy(pool_);
  const auto n_full = static_cast<std::size_t>(n_tokens_ / kPageTokens);
  copy.pages_.assign(pages_.begin(), pages_.begin() + static_cast<std::ptrdiff_t>(n_full));
  copy.page_addresses_.assign(page_addresses_.begin(),
                              page_addresses_.begin() + static_cast<std::ptrdiff_t>(n_full));
  copy.n_tokens_ = static_cast<std::int64_t>(n_full) * kPageTokens;
  const std::int64_t n_rest = n_tokens_ - copy.n_tokens_;
  if (n_rest > 0) {
    MUNIA_RETURN_IF_ERROR(copy.reserve(n_rest));
    std::memcpy(copy.pages_.back().get(), pages_[n_full].get(), layout().page_bytes());
    copy.n_tokens_ = n_tokens_;
  }
  return copy;
}

void KvCache::append_page(std::shared_ptr<float> page) {
  MUNIA_CHECK(n_tokens_ % kPageTokens == 0);
  truncate(n_tokens_);  // drops pages that were only reserved
  page_addresses_.push_back(page.get());
  pages_.push_back(std::move(page));
  n_tokens_ += kPageTokens;
}

bool KvCache::append_copy(const float* page, std::int64_t n_tokens) {
  MUNIA_CHECK(n_tokens_ % kPageTokens == 0 && n_tokens < kPageTokens);
  truncate(n_tokens_);
  if (!reserve(n_tokens)) return false;
  // The whole page: its K panels hold all positions side by side.
  std::memcpy(pages_.back().get(), page, layout().page_bytes());
  n_tokens_ += n_tokens;
  return true;
}

}  // namespace munia::model
