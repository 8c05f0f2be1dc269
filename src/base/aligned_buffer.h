// Owned memory for weights, caches and activations: page-aligned, zeroed, asking the kernel for
// huge pages (numerics: the largest single gain for decode). Moves, never copies.
#pragma once

#include <cstddef>
#include <span>

namespace munia {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  /// `size_bytes` zeroed bytes, aligned to 2 MiB when that large, else to 4 KiB (so always to 64).
  /// Throws std::bad_alloc when the system has no memory.
  explicit AlignedBuffer(std::size_t size_bytes);
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size_bytes() const { return size_bytes_; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
};

}  // namespace munia
