// Fuzzer: any bytes as a safetensors file. Whatever is accepted is then read to its last byte.
#include <cstddef>
#include <cstdint>

#include "files/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using munia::files::Safetensors;
  const auto result = Safetensors::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (!result) {
    MUNIA_CHECK(!result.error().message.empty());
    return 0;
  }
  std::size_t n_bytes = 0;
  volatile unsigned sum = 0;
  for (const auto& tensor : (*result)->tensors()) {
    MUNIA_CHECK((*result)->find_tensor(tensor.name) == &tensor);
    for (const std::int64_t extent : tensor.shape) MUNIA_CHECK(extent >= 0);
    for (const std::byte byte : tensor.bytes) sum = sum + static_cast<unsigned>(byte);
    n_bytes += tensor.bytes.size();
  }
  // Tensors neither overlap nor leave holes, so together they are the file without its header.
  MUNIA_CHECK(n_bytes + 10 <= size);
  return 0;
}
