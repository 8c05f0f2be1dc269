// For tests on machines without AMX: catches the illegal-instruction signal that each tile
// instruction raises, decodes the instruction and does its work in memory. So the very code that
// runs on tile hardware runs here too: its encodings, configurations, addresses and their order.
// What a CPU would refuse (shapes that do not fit, tiles that were not configured) ends the test
// program with a message. One thread only.
#pragma once

#include "kernels/amx.h"

#if MUNIA_KERNELS_X86 && defined(__linux__)

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>

namespace munia::kernels {

class TrappedTiles {
 public:
  TrappedTiles() {
    state() = {};
    struct sigaction action = {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, &before_);
  }
  ~TrappedTiles() { sigaction(SIGILL, &before_, nullptr); }
  TrappedTiles(const TrappedTiles&) = delete;
  TrappedTiles& operator=(const TrappedTiles&) = delete;
  /// Tile instructions done so far.
  std::int64_t n_instructions() const { return state().n_instructions; }

 private:
  struct Config {
    std::uint8_t palette;
    std::uint8_t start_row;
    std::uint8_t reserved[14];
    std::uint16_t row_bytes[16];
    std::uint8_t rows[16];
  };
  struct State {
    Config config;
    alignas(64) std::byte tiles[8][16][64];
    std::int64_t n_instructions;
  };
  static State& state() {
    static State the_state;
    return the_state;
  }

  static void require(bool holds, const char* what) {
    if (holds) return;
    constexpr char kPrefix[] = "trapped tiles: a CPU would refuse: ";
    if (write(STDERR_FILENO, kPrefix, sizeof(kPrefix) - 1) < 0) _exit(3);
    if (write(STDERR_FILENO, what, std::strlen(what)) < 0) _exit(3);
    _exit(3);
  }

  static void configure(const void* from) {
    State& s = state();
    std::memcpy(&s.config, from, sizeof(s.config));
    std::memset(s.tiles, 0, sizeof(s.tiles));
    require(s.config.palette == 1 && s.config.start_row == 0, "palette or start row\n");
    for (const std::uint8_t byte : s.config.reserved) require(byte == 0, "reserved byte\n");
    for (int t = 0; t < 16; ++t) {
      const int rows = s.config.rows[t];
      const int row_bytes = s.config.row_bytes[t];
      if (t >= 8) require(rows == 0 && row_bytes == 0, "a ninth tile\n");
      require(rows <= 16 && row_bytes <= 64 && (rows == 0) == (row_bytes == 0), "tile shape\n");
    }
  }

  static void move_rows(int tile, std::byte* rows, std::int64_t stride, bool to_tile) {
    State& s = state();
    require(s.config.palette == 1 && s.config.rows[tile] > 0, "tile not configured\n");
    if (to_tile) std::memset(s.tiles[tile], 0, sizeof(s.tiles[tile]));
    for (int r = 0; r < s.config.rows[tile]; ++r) {
      std::byte* row = rows + r * stride;
      if (to_tile) {
        std::memcpy(s.tiles[tile][r], row, s.config.row_bytes[tile]);
      } else {
        std::memcpy(row, s.tiles[tile][r], s.config.row_bytes[tile]);
      }
    }
  }

  static void multiply(int c, int a, int b) {
    State& s = state();
    const Config& config = s.config;
    require(c != a && c != b && a != b, "one tile twice\n");
    require(config.palette == 1 && config.rows[c] > 0, "product without configuration\n");
    require(config.rows[c] == config.rows[a], "rows of C and A differ\n");
    require(config.row_bytes[a] == 4 * config.rows[b], "k of A and B differ\n");
    require(config.row_bytes[c] == config.row_bytes[b], "lanes of C and B differ\n");
    TileProduct product;
    product.rows = config.rows[c];
    product.n_cols = 2 * config.rows[b];
    std::memcpy(product.c, s.tiles[c], sizeof(product.c));
    std::memcpy(product.a, s.tiles[a], sizeof(product.a));
    std::memcpy(product.b, s.tiles[b], sizeof(product.b));
    multiply_emulated_tiles(product);
    std::memcpy(s.tiles[c], product.c, sizeof(product.c));
  }

  /// C4, a byte with map 2, a byte with vvvv and the prefix, the opcode, ModRM [SIB
  /// [displacement]].
  static void handle(int, siginfo_t*, void* context) {
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const auto* code = reinterpret_cast<const std::uint8_t*>(registers[REG_RIP]);
    require(code[0] == 0xC4 && (code[1] & 0x1F) == 2 && (code[2] & 0x84) == 0,
            "not a tile opcode\n");
    const bool extends_index = (code[1] & 0x40) == 0;
    const bool extends_base = (code[1] & 0x20) == 0;
    const int source_2 = ~(code[2] >> 3) & 15;
    enum { kNone, k66, kF3, kF2 };
    const int prefix = code[2] & 3;
    const int opcode = code[3];
    const int mod = code[4] >> 6;
    const int reg = (code[4] >> 3) & 7;
    const int rm = code[4] & 7;
    const std::uint8_t* end = code + 5;
    std::byte* base = nullptr;
    std::int64_t index = 0;
    if (mod != 3) {
      // In the order of the encoding: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
      constexpr int kRegisters[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                    REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                    REG_R12, REG_R13, REG_R14, REG_R15};
      int base_number = rm;
      if (rm == 4) {
        const int sib = *end++;
        base_number = sib & 7;
        const int index_number = ((sib >> 3) & 7) + (extends_index ? 8 : 0);
        if (index_number != 4) index = registers[kRegisters[index_number]] << (sib >> 6);
      }
      std::int64_t displacement = 0;
      if (mod == 1) {
        displacement = static_cast<std::int8_t>(*end++);
      } else if (mod == 2 || base_number == 5) {
        std::int32_t value = 0;
        std::memcpy(&value, end, sizeof(value));
        displacement = value;
        end += sizeof(value);
      }
      std::int64_t address = displacement;
      if (mod == 0 && base_number == 5) {
        if (rm == 5) address += reinterpret_cast<std::int64_t>(end);  // relative to the next one
      } else {
        address += registers[kRegisters[base_number + (extends_base ? 8 : 0)]];
      }
      base = reinterpret_cast<std::byte*>(address);
    }
    State& s = state();
    if (opcode == 0x49 && prefix == kNone && mod != 3) {
      configure(base + index);
    } else if (opcode == 0x49 && prefix == kNone && code[4] == 0xC0) {
      s.config = {};
    } else if (opcode == 0x49 && prefix == kF2 && mod == 3 && rm == 0) {
      require(s.config.rows[reg] > 0, "tilezero without configuration\n");
      std::memset(s.tiles[reg], 0, sizeof(s.tiles[reg]));
    } else if (opcode == 0x4B && prefix == kF2 && mod != 3 && rm == 4) {
      move_rows(reg, base, index, true);
    } else if (opcode == 0x4B && prefix == kF3 && mod != 3 && rm == 4) {
      move_rows(reg, base, index, false);
    } else if (opcode == 0x5C && prefix == kF3 && mod == 3) {
      multiply(reg, rm, source_2);
    } else {
      require(false, "unknown tile instruction\n");
    }
    ++s.n_instructions;
    registers[REG_RIP] = reinterpret_cast<greg_t>(end);
  }

  struct sigaction before_ = {};
};

}  // namespace munia::kernels

#endif  // MUNIA_KERNELS_X86 && __linux__
