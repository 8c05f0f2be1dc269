// Constants of the packed file that its reader and its writer share.
#pragma once

#include <cstddef>
#include <string_view>

#include "files/munia_file.h"

namespace munia::files {

// The first byte is no ASCII and the end is a DOS line end: text conversion on the way damages it.
inline constexpr std::string_view kMagic = "\x89MUNIA\r\n";
inline constexpr std::size_t kSumOffset = 32;
inline constexpr std::size_t kFixedHeaderBytes = 64;

constexpr std::size_t part_alignment(PartKind kind) {
  return kind == PartKind::kMatrix ? kMatrixAlignment : kPartAlignment;
}

}  // namespace munia::files
