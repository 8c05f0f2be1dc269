// Fuzzer: any bytes as a GGUF file. Whatever is accepted is then read to its last byte.
#include <cstddef>
#include <cstdint>

#include "files/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using munia::files::GgufFile;
  const auto result = GgufFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (!result) {
    MUNIA_CHECK(!result.error().message.empty());
    return 0;
  }
  const GgufFile& file = **result;
  volatile unsigned sum = 0;
  for (const auto& tensor : file.tensors()) {
    MUNIA_CHECK(file.find_tensor(tensor.name) == &tensor);
    MUNIA_CHECK(!tensor.shape.empty() && tensor.shape.size() <= 4);
    for (const std::byte byte : tensor.bytes) sum = sum + static_cast<unsigned>(byte);
  }
  for (const auto& [key, value] : file.metadata()) {
    MUNIA_CHECK(file.find(key) == &value);
    (void)file.get_int(key);
    (void)file.get_float(key);
    (void)file.get_bool(key, false);
    (void)file.get_string(key);
    (void)file.get_strings(key);
    (void)file.get_ints(key);
  }
  return 0;
}
