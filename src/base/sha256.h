// SHA-256 of bytes (OpenSSL): hashes of files and of logits.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

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

}  // namespace munia
