#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace munia {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// FIPS 180-4's examples, as NIST publishes them.
TEST(Sha256, EqualsThePublishedExamples) {
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(bytes_of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(bytes_of(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnTheParts) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (const std::size_t step : {1U, 3U, 63U, 64U, 65U, 299U}) {
    Sha256 hash;
    for (std::size_t i = 0; i < text.size(); i += step) hash.update(bytes_of(text.substr(i, step)));
    hash.update({});
    EXPECT_EQ(hash.hex_digest(), sha256_hex(bytes_of(text)));
  }
}

}  // namespace
}  // namespace munia
