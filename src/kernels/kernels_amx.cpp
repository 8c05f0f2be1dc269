// The AMX rung: BF16 and quantized weights times float32 activations, split into three BF16 terms,
// on tiles. All other kernels are those of the AVX-512 rung, attention and norms included.
//
// The other types keep the AVX-512 rung's arithmetic, and so its bytes. F16 weights would need two
// BF16 terms each (6 products in place of 3), F32 weights three (9): 6,250 / 9 GFLOP/s of a machine
// with 400 of FMA leave little over a tuned FMA kernel, at twice and three times the bytes of
// panels through the caches. INT8 and INT4 could go by tiles of bytes, with the same results.
#include <algorithm>
#include "kernels/amx.h"

#if MUNIA_KERNELS_X86

#if defined(__GNUC__) && !defined(__clang__)
// GCC bug 105593: see kernels_avx512.cpp.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <bit>
#include <cerrno>
#include <cstring>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels/packed_format.h"
#include "kernels/scalar_math.h"
#include "kernels/target_region.h"

#define MUNIA_VNNI 0
MUNIA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
namespace munia::kernels {
namespace amx {
namespace {

// clang-format off
#include "kernels/vec_avx512.inc"
#include "kernels/outputs_simd.inc"
#include "kernels/amx_tiles.inc"
#include "kernels/amx_rows.inc"
#include "kernels/amx_matmul.inc"
#include "kernels/decode_simd.inc"
#include "kernels/amx_codes.inc"
// clang-format on

inline std::size_t matmul_scratch_bytes(std::int64_t n_rows, std::int64_t n_cols) {
  constexpr std::size_t kForBf16 = kSumsBytes + kNarrowPanels * kTileBytes;
  const std::int64_t total_rows = smaller(n_rows, codes_chunk_rows(n_cols));
  const std::size_t for_codes =
      sizeof(WideBlock) + static_cast<std::size_t>(total_rows * kRowBytes);
  const std::size_t for_others = best_avx512_kernels().matmul_scratch_bytes(n_rows, n_cols);
  const std::size_t own = kForBf16 > for_codes ? kForBf16 : for_codes;
  return own > for_others ? own : for_others;
}

template <class Tiles>
void matmul(const PackedMatrix& w, const PreparedRows& x, const MatmulOutput& out,
            std::int64_t panel_begin, std::int64_t panel_end, std::byte* scratch) {
  const auto codes = [&]<WeightType kType>() {
    matmul_codes<kType, Tiles>(w, x, out, panel_begin, panel_end, scratch);
  };
  switch (w.type) {
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kInt8:
    case WeightType::kInt4:
      return best_avx512_kernels().matmul(
          w, {x.data + own_bytes(x.n_rows, x.n_cols), x.n_rows, x.n_cols}, out, panel_begin,
          panel_end, scratch);
    case WeightType::kBf16:
      return matmul_bf16<Tiles>(w, x, out, panel_begin, panel_end, scratch);
    case WeightType::kQ4_0:
      return codes.template operator()<WeightType::kQ4_0>();
    case WeightType::kQ4_1:
      return codes.template operator()<WeightType::kQ4_1>();
    case WeightType::kQ5_0:
      return codes.template operator()<WeightType::kQ5_0>();
    case WeightType::kQ5_1:
      return codes.template operator()<WeightType::kQ5_1>();
    case WeightType::kQ8_0:
      return codes.template operator()<WeightType::kQ8_0>();
    case WeightType::kQ4K:
      return codes.template operator()<WeightType::kQ4K>();
    case WeightType::kQ5K:
      return codes.template operator()<WeightType::kQ5K>();
    case WeightType::kQ6K:
      return codes.template operator()<WeightType::kQ6K>();
  }
}

template <class Tiles>
void multiply_tiles(TileProduct& product) {
  Tiles tiles;
  tiles.configure(product.n_cols == 16 ? kTileConfigs.codes16[product.rows]
                                       : kTileConfigs.codes32[product.rows]);
  tiles.template load<0>(reinterpret_cast<const std::byte*>(product.c));
  tiles.template load<4>(reinterpret_cast<const std::byte*>(product.a));
  tiles.template load<6>(reinterpret_cast<const std::byte*>(product.b));
  tiles.template multiply<0, 4, 6>();
  tiles.template store<0>(product.c[0]);
}

inline void run_products(std::int64_t n) {
  HardwareTiles tiles;
  tiles.configure(kTileConfigs.wide[kUnitRows]);  // clears all tiles
  for (std::int64_t i = 0; i < n; ++i) {
    tiles.multiply<0, 6, 7>();
    tiles.multiply<1, 6, 7>();
    tiles.multiply<2, 6, 7>();
    tiles.multiply<3, 6, 7>();
    tiles.multiply<4, 6, 7>();
    tiles.multiply<5, 6, 7>();
  }
}

}  // namespace
}  // namespace amx
}  // namespace munia::kernels
MUNIA_TARGET_END

namespace munia::kernels {
namespace {

// E of matmul. BF16: a product passes 16 additions of its half-chain, the sum of the halves, C once
// for each 32 k, and two sums of terms, whose magnitudes add up to less than 1.01 of x's. The other
// float types go by avx512's order.
double amx_matmul_error(std::int64_t n_cols) {
  const auto n_roundings = static_cast<double>(16 + 1 + (n_cols + 31) / 32 + 2);
  return std::max(n_roundings * 1.03 * 0x1p-24, fma_matmul_error(n_cols));
}

template <class Tiles>
Kernels make_kernels(const char* name) {
  Kernels kernels = best_avx512_kernels();
  kernels.name = name;
  kernels.prepared_bytes = amx::prepared_bytes;
  kernels.prepare_unit_rows = amx::kUnitRows;
  kernels.prepare_rows = amx::prepare_rows;
  kernels.matmul_scratch_bytes = amx::matmul_scratch_bytes;
  kernels.matmul = amx::matmul<Tiles>;
  kernels.matmul_error = amx_matmul_error;
  return kernels;
}

}  // namespace

const Kernels& amx_kernels() {
  static const Kernels kernels = make_kernels<amx::HardwareTiles>("amx");
  return kernels;
}

const Kernels& amx_emulated_kernels() {
  static const Kernels kernels = make_kernels<amx::EmulatedTiles>("amx-emulated");
  return kernels;
}

int request_tile_registers() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 ? 0 : errno;
#else
  return ENOSYS;
#endif
}

void multiply_emulated_tiles(TileProduct& product) {
  amx::multiply_tiles<amx::EmulatedTiles>(product);
}
void multiply_hardware_tiles(TileProduct& product) {
  amx::multiply_tiles<amx::HardwareTiles>(product);
}

double run_tile_products(std::int64_t n) {
  amx::run_products(n);
  return static_cast<double>(n) * 6 * 2 * 16 * 16 * 32;
}

bool amx_self_test() {
  struct Range {  // of exponents as stored (127 is 1): [low, low + n)
    std::uint32_t low;
    std::uint32_t n;
  };
  struct Case {
    Range a_and_c;
    Range b;
  };
  // Like sizes, far apart, and down to subnormal products; never so large that a sum overflows: the
  // sign of a NaN is nobody's business.
  constexpr Case kCases[] = {
      {{125, 4}, {125, 4}}, {{107, 40}, {125, 4}}, {{7, 240}, {125, 4}}, {{0, 60}, {107, 20}}};
  std::uint32_t state = 1;
  const auto random_bf16 = [&state](Range exponents) {
    state = state * 1664525U + 1013904223U;
    const std::uint32_t exponent = exponents.low + (state >> 16) % exponents.n;
    return static_cast<std::uint16_t>((state >> 31) << 15 | exponent << 7 | ((state >> 8) & 0x7FU));
  };
  for (const int rows : {16, 3, 1, 15}) {
    for (const Case& range : kCases) {
      TileProduct emulated;
      emulated.rows = rows;
      emulated.n_cols = rows == 15 ? 16 : 32;
      for (auto& row : emulated.a) {
        for (std::uint16_t& value : row) value = random_bf16(range.a_and_c);
      }
      for (auto& row : emulated.b) {
        for (std::uint16_t& value : row) value = random_bf16(range.b);
      }
      for (auto& row : emulated.c) {
        for (float& value : row) value = bf16_to_float(random_bf16(range.a_and_c));
      }
      TileProduct hardware = emulated;
      multiply_emulated_tiles(emulated);
      multiply_hardware_tiles(hardware);
      if (std::memcmp(emulated.c, hardware.c, sizeof(emulated.c)) != 0) return false;
    }
  }
  return true;
}

}  // namespace munia::kernels

#endif  // MUNIA_KERNELS_X86
