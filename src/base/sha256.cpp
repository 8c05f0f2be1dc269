// SHA-256 through the EVP interface of OpenSSL 3, which picks the instructions of the machine.
#include "base/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "base/mapped_file.h"

namespace munia {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  bool finished = false;

  State() {
    if (context == nullptr) throw std::bad_alloc();
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  // OpenSSL 3 looks the digest up in its providers, which a system's configuration may take away.
  if (EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) != 1) {
    throw LoadError({ErrorCode::kUnsupported,
                     "the system's OpenSSL offers no SHA-256; check its provider configuration"});
  }
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  MUNIA_CHECK(!state_->finished);
  MUNIA_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::array<std::byte, 32> Sha256::digest() {
  MUNIA_CHECK(!state_->finished);
  state_->finished = true;
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int n_bytes = 0;
  MUNIA_CHECK(EVP_DigestFinal_ex(state_->context, bytes.data(), &n_bytes) == 1);
  std::array<std::byte, 32> digest{};
  MUNIA_CHECK(n_bytes == digest.size());
  std::memcpy(digest.data(), bytes.data(), digest.size());
  return digest;
}

std::string Sha256::hex_digest() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(64);
  for (const std::byte byte : digest()) {
    hex.push_back(kDigits[std::to_integer<unsigned>(byte) >> 4]);
    hex.push_back(kDigits[std::to_integer<unsigned>(byte) & 15]);
  }
  return hex;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex_digest();
}

Result<std::string> sha256_of_file(const std::string& path,
                                   const std::function<bool()>& cancelled) {
  MUNIA_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  constexpr std::size_t kStep = std::size_t{8} << 20;
  Sha256 hash;
  std::span<const std::byte> rest = file.bytes();
  while (!rest.empty()) {
    if (cancelled && cancelled()) return Error{ErrorCode::kCancelled, "interrupted"};
    const auto step = rest.first(std::min(kStep, rest.size()));
    hash.update(step);
    file.drop(step);
    rest = rest.subspan(step.size());
  }
  return hash.hex_digest();
}

}  // namespace munia
