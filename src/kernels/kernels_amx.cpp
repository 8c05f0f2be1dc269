// The AMX rung: BF16 weights times float32 activations, split into three BF16 terms, on tiles. All
// other kernels are those of the AVX-512 rung, attention and norms included.
//
// Other weight types keep the AVX-512 rung's arithmetic, and so its bytes. F16 weights would need
// two BF16 terms each (6 products in place of 3), F32 weights three (9): 6,250 / 9 GFLOP/s of a
// machine with 400 of FMA leave little over a tuned FMA kernel, at twice and three times the bytes
// of panels through the caches.
#include "kernels/amx.h"

#if MUNIA_KERNELS_X86

#if defined(__GNUC__) && !defined(__clang__)
// GCC bug 105593: see kernels_avx512.cpp.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <cerrno>
#include <cstring>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels/packed_format.h"
#include "kernels/target_region.h"

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
// clang-format on

inline std::size_t matmul_scratch_bytes(std::int64_t n_rows, std::int64_t n_cols) {
  constexpr std::size_t kOwn = kSumsBytes + kNarrowPanels * kTileBytes;
  const std::size_t other = kAvx512Kernels.matmul_scratch_bytes(n_rows, n_cols);
  return other > kOwn ? other : kOwn;
}

template <class Tiles>
void matmul(const PackedMatrix& w, const PreparedRows& x, const MatmulOutput& out,
            std::int64_t panel_begin, std::int64_t panel_end, std::byte* scratch) {
  if (amx_has_own_order(w.type)) {
    return matmul_bf16<Tiles>(w, x, out, panel_begin, panel_end, scratch);
  }
  const PreparedRows floats = {x.data + terms_bytes(x.n_rows, x.n_cols), x.n_rows, x.n_cols};
  kAvx512Kernels.matmul(w, floats, out, panel_begin, panel_end, scratch);
}

template <class Tiles>
void multiply_tiles(TileProduct& product) {
  Tiles tiles;
  tiles.configure(kTileConfigs.wide[product.rows]);
  tiles.template load<0>(reinterpret_cast<const std::byte*>(product.c));
  tiles.template load<6>(reinterpret_cast<const std::byte*>(product.a));
  tiles.template load<7>(reinterpret_cast<const std::byte*>(product.b));
  tiles.template multiply<0, 6, 7>();
  tiles.template store<0>(product.c[0]);
}

}  // namespace
}  // namespace amx
}  // namespace munia::kernels
MUNIA_TARGET_END

namespace munia::kernels {
namespace {

template <class Tiles>
Kernels make_kernels(const char* name) {
  Kernels kernels = kAvx512Kernels;
  kernels.name = name;
  kernels.prepared_bytes = amx::prepared_bytes;
  kernels.prepare_unit_rows = amx::kUnitRows;
  kernels.prepare_rows = amx::prepare_rows;
  kernels.matmul_scratch_bytes = amx::matmul_scratch_bytes;
  kernels.matmul = amx::matmul<Tiles>;
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

bool amx_self_test() {
  std::uint32_t state = 1;
  const auto random_bf16 = [&state](std::uint32_t exponents) {
    state = state * 1664525U + 1013904223U;
    const std::uint32_t exponent = 127 - exponents / 2 + (state >> 16) % exponents;
    return static_cast<std::uint16_t>((state >> 31) << 15 | exponent << 7 | ((state >> 8) & 0x7FU));
  };
  for (const int rows : {16, 3, 1, 15}) {
    for (const std::uint32_t exponents : {4U, 40U, 252U}) {  // 252: sums pass both ends of float32
      TileProduct emulated;
      emulated.rows = rows;
      for (auto& row : emulated.a) {
        for (std::uint16_t& value : row) value = random_bf16(exponents);
      }
      for (auto& row : emulated.b) {
        for (std::uint16_t& value : row) value = random_bf16(4);
      }
      for (auto& row : emulated.c) {
        for (float& value : row) value = bf16_to_float(random_bf16(exponents));
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
