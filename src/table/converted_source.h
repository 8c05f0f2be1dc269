// Byte sources that change what another one gives, piece by piece: unpacked from gzip, or turned
// from GB18030 (so also GBK and GB2312) into UTF-8. Memory is bounded whatever the input holds.
#pragma once

#include <memory>
#include <string_view>

#include "base/error.h"
#include "table/byte_source.h"

namespace munia::table {

/// True for a path that ends in ".gz", whatever the case.
bool is_gzip_path(std::string_view path);

/// What the gzip file `packed` holds (all its members, one after the other; RFC 1952, by zlib).
/// read() fails with kInvalidData where it is damaged or cut off.
std::unique_ptr<ByteSource> unpack_gzip(std::unique_ptr<ByteSource> packed);

/// `source` in UTF-8 (by iconv). A byte that is not GB18030 becomes one that is not UTF-8, so that
/// a reader refuses its row and no other. kUnsupported where this system's iconv lacks the
/// encoding.
Result<std::unique_ptr<ByteSource>> convert_gb18030(std::unique_ptr<ByteSource> source);

}  // namespace munia::table
