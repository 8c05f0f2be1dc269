// SHA-256 of bytes (OpenSSL): hashes of files and of logits.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace munia {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(std::span<const std::byte> bytes);
  std::array<std::byte, 32> digest();  // the object is spent
  std::string hex_digest();            // 64 lower-case digits; the object is spent

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_hex(std::span<const std::byte> bytes);
/// Of a whole file; kCancelled when `cancelled` (may be empty) says so, asked every few megabytes.
Result<std::string> sha256_of_file(const std::string& path,
                                   const std::function<bool()>& cancelled = nullptr);

}  // namespace munia
