// The packed file (.munia): weights in the kernels' own panels, ready to be mapped, beside what
// else a model needs (configuration, tokenizer, template) in named parts. This room knows the
// container only: parts with a name, a place and a SHA-256; what they mean is model's and text's.
//
// All numbers are little-endian. The file:
//   0   8   magic: 0x89 "MUNIA" 0x0D 0x0A
//   8   4   version of the container, 1
//   12  4   zero
//   16  8   bytes of the header, from 0 to the end of the table of parts
//   24  8   bytes of the whole file
//   32  32  SHA-256 of the header without these 32 bytes; always verified
//   64      text layout, text weights (model/weight_mode.h), text producer, u32 number of parts,
//           then each part:
//           text name, u8 kind, text type, i64 n_rows, i64 n_cols, u64 offset, u64 size_bytes,
//           32 bytes SHA-256
//   then the parts in order of their offsets, matrices at multiples of 4 KiB, others of 64 bytes.
// A text is u16 length and that many bytes. `layout` names how matrices are packed: a file of
// another layout is refused, never converted. Parts of unknown names are ignored, so that later
// versions can add some under version 1.
// docs/munia_file.md tells users when to use such a file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"

namespace munia::files {

inline constexpr std::uint32_t kMuniaVersion = 1;
inline constexpr std::size_t kMatrixAlignment = 4096;
inline constexpr std::size_t kPartAlignment = 64;

enum class PartKind : std::uint8_t {
  kBytes = 0,   // configuration, tokenizer, template: small, always verified
  kVector = 1,  // f32 [n_cols]: norms and biases, always verified
  kMatrix = 2,  // panels of a weight matrix [n_rows, n_cols]; verified on demand
};

struct MuniaPart {
  std::string name;  // "config", "layer.3.q.weight", …
  PartKind kind = PartKind::kBytes;
  std::string type;         // of a matrix: "BF16", "Q4_K", …; "F32" for a vector
  std::int64_t n_rows = 0;  // of a matrix; 1 for a vector, 0 for bytes
  std::int64_t n_cols = 0;
  std::uint64_t offset = 0;  // from the begin of the file
  std::uint64_t size_bytes = 0;
  std::array<std::byte, 32> sha256{};
};

/// An opened packed file; immutable, shared by whoever borrows its bytes.
class MuniaFile {
 public:
  /// True when `path` is a file that begins with the magic bytes.
  static bool is_munia_file(const std::string& path);
  /// Maps the file and verifies header, places of all parts and the sums of all but matrices.
  /// `layout` is the layout that this program computes with. Every fault is one sentence.
  static Result<std::shared_ptr<const MuniaFile>> open(const std::string& path,
                                                       std::string_view layout);
  /// As open, from bytes in memory that outlive the result (fuzzing, tests); name is for messages.
  static Result<std::shared_ptr<const MuniaFile>> parse(std::span<const std::byte> bytes,
                                                        std::string name, std::string_view layout);

  const std::string& name() const { return name_; }
  const std::string& layout() const { return layout_; }
  const std::string& weights() const { return weights_; }
  const std::string& producer() const { return producer_; }
  std::size_t size_bytes() const { return bytes_.size(); }
  const std::vector<MuniaPart>& parts() const { return parts_; }  // by offset
  const MuniaPart* find(std::string_view name) const;
  std::span<const std::byte> bytes(const MuniaPart& part) const {
    return bytes_.subspan(part.offset, part.size_bytes);
  }
  /// Reads part of the file into memory without mapping its pages; out of the same file even when
  /// another has taken its name since.
  Status read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Tells the system that `part`, bytes of this file, will not be read again.
  void drop(std::span<const std::byte> part) const { file_.drop(part); }
  /// Tells the system that all matrices will be wanted soon.
  void read_ahead() const;
  /// Compares the SHA-256 of one part; the Error names file and part.
  Status verify(const MuniaPart& part) const;

 private:
  MuniaFile() = default;
  Status read_header(std::string_view layout);
  Status read_parts(std::span<const std::byte> table);
  Status verify_small_parts() const;
  Error bad(const std::string& what) const;

  std::string name_;
  MappedFile file_;
  std::span<const std::byte> bytes_;
  std::string layout_, weights_, producer_;
  std::vector<MuniaPart> parts_;
  std::unordered_map<std::string_view, const MuniaPart*> by_name_;
};

/// Writes a packed file: parts are announced first (their bytes are borrowed until write), then all
/// is written under a temporary name in the same directory, made durable and renamed. The header
/// goes out last, so that what a kill leaves behind is never taken for a whole file.
class MuniaFileWriter {
 public:
  struct Header {
    std::string layout;
    std::string weights;
    std::string producer;
  };
  struct Callbacks {
    std::function<void(std::uint64_t done, std::uint64_t total)> on_progress = {};
    std::function<bool()> cancelled = {};
  };

  explicit MuniaFileWriter(Header header) : header_(std::move(header)) {}

  /// Keeps the bytes itself.
  void add_bytes(std::string name, std::string content);
  /// Borrow the bytes.
  void add_vector(std::string name, std::span<const float> values);
  void add_matrix(MuniaPart description, std::span<const std::byte> panels);

  /// kIo, kLimit (no space: the message has the arithmetic) or kCancelled. Returns the bytes
  /// written.
  Result<std::uint64_t> write(const std::string& path, const Callbacks& callbacks);
  /// The whole file in memory (tests, fuzzing).
  std::string to_string();

 private:
  struct Entry {
    MuniaPart part;
    std::span<const std::byte> bytes;
  };
  void place_parts();
  std::string header_bytes() const;

  Header header_;
  std::vector<std::unique_ptr<std::string>> kept_;
  std::vector<Entry> entries_;
  std::uint64_t file_bytes_ = 0;
};

}  // namespace munia::files
