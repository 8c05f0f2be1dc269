// Seeded random numbers for sampling: xoshiro256** by Blackman and Vigna (2018), its state filled
// by splitmix64 as its authors advise. The standard library's distributions differ between
// implementations; these are the same numbers everywhere.
#pragma once

#include <bit>
#include <cstdint>
#include <random>

namespace munia::decode {

/// A seed from the system, for a request that names none.
inline std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

class Xoshiro256 {
 public:
  explicit Xoshiro256(std::uint64_t seed) {
    for (std::uint64_t& word : state_) word = splitmix64(seed);
  }
  Xoshiro256(std::uint64_t s0, std::uint64_t s1, std::uint64_t s2, std::uint64_t s3)
      : state_{s0, s1, s2, s3} {}

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// In [0, 1), with 53 random bits.
  double next_double() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  static std::uint64_t splitmix64(std::uint64_t& state) {
    state += 0x9E3779B97F4A7C15;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_[4];
};

}  // namespace munia::decode
