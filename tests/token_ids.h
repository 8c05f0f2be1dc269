// Prompts of tests on the tiny models: seeded ids below their vocabularies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace munia::test {

inline std::vector<std::int32_t> tokens_of_length(std::size_t n, std::uint32_t seed) {
  std::vector<std::int32_t> tokens(n);
  for (std::int32_t& token : tokens) {
    seed = seed * 1664525U + 1013904223U;
    token = static_cast<std::int32_t>((seed >> 8) % 380U);
  }
  return tokens;
}

}  // namespace munia::test
