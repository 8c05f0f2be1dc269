#include "base/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

namespace munia {
namespace {
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
}

AlignedBuffer::AlignedBuffer(std::size_t size_bytes) : size_bytes_(size_bytes) {
  if (size_bytes == 0) return;
  const bool huge = size_bytes >= kHugePageBytes;
  if (size_bytes > SIZE_MAX - 2 * kHugePageBytes) throw std::bad_alloc();
  mapping_bytes_ = huge ? size_bytes + kHugePageBytes : size_bytes;
  mapping_ = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw std::bad_alloc();
  }
  auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  if (huge) {
    address = (address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    // Refused where transparent huge pages are off; small pages then serve, more slowly.
    (void)madvise(reinterpret_cast<void*>(address), size_bytes, MADV_HUGEPAGE);
  }
  data_ = reinterpret_cast<std::byte*>(address);
}

AlignedBuffer::~AlignedBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept { *this = std::move(other); }

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  return *this;
}

}  // namespace munia
