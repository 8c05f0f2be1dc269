// Fuzzer: any bytes as a packed file. The header's sum would hide everything behind it, so the sum
// is put right first where there is a header. Whatever is accepted is read to its last byte.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/sha256.h"
#include "files/munia_file.h"

namespace {

constexpr std::size_t kSumOffset = 32;
constexpr std::size_t kFixedBytes = 64;

void put_sum_right(std::string& bytes) {
  std::uint64_t header_bytes = 0;
  if (bytes.size() < kFixedBytes) return;
  std::memcpy(&header_bytes, bytes.data() + 16, sizeof header_bytes);
  if (header_bytes < kFixedBytes || header_bytes > bytes.size()) return;
  const auto all = std::as_bytes(std::span(bytes.data(), bytes.size()));
  munia::Sha256 sum;
  sum.update(all.first(kSumOffset));
  sum.update(all.subspan(kFixedBytes, header_bytes - kFixedBytes));
  const auto digest = sum.digest();
  std::memcpy(bytes.data() + kSumOffset, digest.data(), digest.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using munia::files::MuniaFile;
  std::string content(reinterpret_cast<const char*>(data), size);
  put_sum_right(content);
  const auto bytes = std::as_bytes(std::span(content.data(), content.size()));
  const auto result = MuniaFile::parse(bytes, "fuzz", "test-layout");
  if (!result) {
    MUNIA_CHECK(!result.error().message.empty());
    return 0;
  }
  const MuniaFile& file = **result;
  volatile unsigned sum = 0;
  std::uint64_t end = 0;
  for (const auto& part : file.parts()) {
    MUNIA_CHECK(file.find(part.name) == &part);
    MUNIA_CHECK(part.offset >= end);
    end = part.offset + part.size_bytes;
    for (const std::byte byte : file.bytes(part)) sum = sum + static_cast<unsigned>(byte);
    if (!file.verify(part)) sum = sum + 1;
  }
  return 0;
}
