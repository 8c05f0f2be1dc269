// Loops that do nothing but reach a limit of the machine: FMAs in registers, and reads of memory.
// What is measured with them is what the kernels' speed is a share of.
#include <cstdint>

#include "kernels/rungs.h"

#if MUNIA_KERNELS_X86
#include <immintrin.h>
#elif MUNIA_KERNELS_ARM
#include <arm_neon.h>
#endif

#include "kernels/target_region.h"

namespace munia::kernels {
namespace {

volatile float keep_float;  // so that no loop is optimized away
volatile std::uint64_t keep_word;

#if MUNIA_KERNELS_X86

MUNIA_TARGET_BEGIN("avx512f,avx2,fma")

constexpr int kChains = 12;  // independent ones hide the latency on every core known

float fma_loop_avx512(std::int64_t n) {
  __m512 acc[kChains];
  for (__m512& a : acc) a = _mm512_set1_ps(0.5F);
  const __m512 x = _mm512_set1_ps(0.999F);
  for (std::int64_t i = 0; i < n; ++i) {
    MUNIA_UNROLL
    for (int j = 0; j < kChains; ++j) acc[j] = _mm512_fmadd_ps(acc[j], x, x);
  }
  for (const __m512& a : acc) acc[0] = _mm512_add_ps(acc[0], a);
  return _mm512_cvtss_f32(acc[0]);
}

float fma_loop_avx2(std::int64_t n) {
  __m256 acc[kChains];
  for (__m256& a : acc) a = _mm256_set1_ps(0.5F);
  const __m256 x = _mm256_set1_ps(0.999F);
  for (std::int64_t i = 0; i < n; ++i) {
    MUNIA_UNROLL
    for (int j = 0; j < kChains; ++j) acc[j] = _mm256_fmadd_ps(acc[j], x, x);
  }
  for (const __m256& a : acc) acc[0] = _mm256_add_ps(acc[0], a);
  return _mm256_cvtss_f32(acc[0]);
}

std::uint64_t read_avx2(const std::byte* data, std::size_t size_bytes) {
  __m256i sum[4] = {};
  for (std::size_t i = 0; i < size_bytes; i += 128) {
    _mm_prefetch(reinterpret_cast<const char*>(data + i + 1024), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(data + i + 1088), _MM_HINT_T0);
    MUNIA_UNROLL
    for (int j = 0; j < 4; ++j) {
      const auto* at =
          reinterpret_cast<const __m256i*>(data + i + static_cast<std::size_t>(j) * 32);
      sum[j] = _mm256_add_epi64(sum[j], _mm256_load_si256(at));
    }
  }
  const __m256i all =
      _mm256_add_epi64(_mm256_add_epi64(sum[0], sum[1]), _mm256_add_epi64(sum[2], sum[3]));
  return static_cast<std::uint64_t>(_mm256_extract_epi64(all, 0));
}

MUNIA_TARGET_END

#elif MUNIA_KERNELS_ARM

constexpr int kChains = 24;  // in two arrays that the compiler keeps in registers

float fma_loop_neon(std::int64_t n) {
  constexpr int kHalf = kChains / 2;
  float32x4_t low[kHalf];
  float32x4_t high[kHalf];
  for (float32x4_t& a : low) a = vdupq_n_f32(0.5F);
  for (float32x4_t& a : high) a = vdupq_n_f32(0.5F);
  const float32x4_t x = vdupq_n_f32(0.999F);
  for (std::int64_t i = 0; i < n; ++i) {
    MUNIA_UNROLL
    for (int j = 0; j < kHalf; ++j) {
      low[j] = vfmaq_f32(x, low[j], x);
      high[j] = vfmaq_f32(x, high[j], x);
    }
  }
  for (int j = 0; j < kHalf; ++j) low[0] = vaddq_f32(low[0], vaddq_f32(low[j], high[j]));
  return vgetq_lane_f32(low[0], 0);
}

#endif

std::uint64_t read_words(const std::byte* data, std::size_t size_bytes) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(data);
  std::uint64_t sum[4] = {};
  for (std::size_t i = 0; i < size_bytes / sizeof(std::uint64_t); i += 4) {
    for (std::size_t j = 0; j < 4; ++j) sum[j] += words[i + j];
  }
  return sum[0] + sum[1] + sum[2] + sum[3];
}

}  // namespace

double fma_probe(std::string_view rung, std::int64_t n_loops) {
#if MUNIA_KERNELS_X86
  if (rung == "scalar") return 0;
  const bool wide = rung != "avx2" && select_kernels("avx512") != nullptr;
  keep_float = wide ? fma_loop_avx512(n_loops) : fma_loop_avx2(n_loops);
  return 2.0 * kChains * (wide ? 16 : 8) * static_cast<double>(n_loops);
#elif MUNIA_KERNELS_ARM
  if (rung == "scalar") return 0;
  keep_float = fma_loop_neon(n_loops);
  return 2.0 * kChains * 4 * static_cast<double>(n_loops);
#else
  static_cast<void>(rung);
  static_cast<void>(n_loops);
  return 0;
#endif
}

void read_probe(const std::byte* data, std::size_t size_bytes) {
#if MUNIA_KERNELS_X86
  static const bool has_avx2 = select_kernels("avx2") != nullptr;
  if (has_avx2) {
    keep_word = read_avx2(data, size_bytes);
    return;
  }
#endif
  keep_word = read_words(data, size_bytes);
}

}  // namespace munia::kernels
