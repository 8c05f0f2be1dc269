// The AMX rung: its two tables, and single tile products for the start-up check and the tests.
// Inside this room only.
#pragma once

#include <cstdint>

#include "kernels/packed_format.h"
#include "kernels/rungs.h"

#if MUNIA_KERNELS_X86

namespace munia::kernels {

/// On the tile instructions. Only where amx_self_test() passed may its matmul be called.
const Kernels& amx_kernels();
/// The same on emulated tiles: the same bytes on every machine with AVX-512. For tests.
const Kernels& amx_emulated_kernels();

/// Whether matmul of these tables has an order of its own for the type, or the AVX-512 rung's.
constexpr bool amx_has_own_order(WeightType type) {
  return type != WeightType::kF32 && type != WeightType::kF16 && !is_narrow_type(type);
}

/// Asks the system for the tile registers, once per process for all its threads. 0, or the error
/// number: ENOSPC where a thread has an alternate signal stack too small for them.
int request_tile_registers();
/// Compares tile products of the hardware with the emulation, byte for byte.
bool amx_self_test();

/// c [rows][16] = TDPBF16PS(c, a [rows][n_cols] BF16, b [n_cols/2][16 pairs] BF16); rows lie 64
/// bytes apart.
struct TileProduct {
  int rows = 16;
  int n_cols = 32;  // or 16
  alignas(64) float c[16][16] = {};
  alignas(64) std::uint16_t a[16][32] = {};
  alignas(64) std::uint16_t b[16][32] = {};
};
void multiply_emulated_tiles(TileProduct& product);
void multiply_hardware_tiles(TileProduct& product);

/// n times six independent products of full tiles that stay in registers; returns the
/// floating-point operations. For the bench: the most that the tiles can do.
double run_tile_products(std::int64_t n);

}  // namespace munia::kernels

#endif  // MUNIA_KERNELS_X86
