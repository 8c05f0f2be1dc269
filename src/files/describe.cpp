#include "files/describe.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>

#include "base/utf8.h"

namespace munia::files {
namespace {

constexpr std::size_t kMaxQuotedBytes = 80;
constexpr std::size_t kMaxShownBytes = 8;

void append_hex(std::string& out, unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

/// `prefix` (lower case) stands at the start of `text`, whatever the case, after white space.
bool starts_with_word(std::string_view text, std::string_view prefix) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  text = text.substr(begin, prefix.size());
  return std::equal(text.begin(), text.end(), prefix.begin(), prefix.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  });
}

struct Magic {
  std::string_view bytes;
  std::string_view meaning;
};

using namespace std::string_view_literals;
constexpr Magic kMagics[] = {
    {"GGUF"sv, "a GGUF file"sv},
    {"FUGG"sv, "a GGUF file written on a big-endian machine"sv},
    {"PK\x03\x04"sv, "a zip archive (a PyTorch .bin file, a wheel, or a packed download)"sv},
    {"\x1f\x8b"sv, "a gzip archive; unpack it first"sv},
    {"\xfd"
     "7zXZ"sv,
     "an xz archive; unpack it first"sv},
    {"\x28\xb5\x2f\xfd"sv, "a zstd archive; unpack it first"sv},
    {"7z\xbc\xaf"sv, "a 7z archive; unpack it first"sv},
    {"\x80\x02"sv, "a Python pickle (an old PyTorch file)"sv},
    {"\x89HDF"sv, "an HDF5 file"sv},
    {"tjgg"sv, "an old ggml file (GGJT), from before GGUF; convert the model anew"sv},
    {"fmgg"sv, "an old ggml file (GGMF), from before GGUF; convert the model anew"sv},
    {"lmgg"sv, "an old ggml file, from before GGUF; convert the model anew"sv},
    {"\x7f"
     "ELF"sv,
     "a program (ELF)"sv},
    {"%PDF"sv, "a PDF document"sv},
};

struct Word {
  std::string_view text;  // lower case
  std::string_view meaning;
};

constexpr Word kWords[] = {
    {"version https://git-lfs"sv,
     "a Git LFS pointer, not the file itself; fetch it (git lfs pull)"sv},
    {"<!doctype html"sv, "an HTML page (a failed download?)"sv},
    {"<html"sv, "an HTML page (a failed download?)"sv},
    {"<?xml"sv, "an XML document (a failed download?)"sv},
    {"<error"sv, "an XML error message (a failed download?)"sv},
    {"{"sv, "JSON text"sv},
};

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  std::size_t offset = 0;
  while (offset < text.size()) {
    if (offset >= kMaxQuotedBytes) return out + "...\"";
    const Utf8Char next = decode_utf8(text, offset);
    const auto length = static_cast<std::size_t>(next.length);
    const bool control =
        next.code_point < 0x20 || (next.code_point >= 0x7F && next.code_point < 0xA0);
    // Bidirectional overrides could turn a message round on a terminal.
    const bool turns = (next.code_point >= 0x202A && next.code_point <= 0x202E) ||
                       (next.code_point >= 0x2066 && next.code_point <= 0x2069);
    const bool escape =
        !next.valid || control || turns || next.code_point == '"' || next.code_point == '\\';
    for (std::size_t i = offset; i < offset + length; ++i) {
      if (escape) {
        out += "\\x";
        append_hex(out, static_cast<unsigned char>(text[i]));
      } else {
        out += text[i];
      }
    }
    offset += length;
  }
  return out + '"';
}

std::string looks_like(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "it is empty";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 256));
  for (const Magic& magic : kMagics) {
    if (text.starts_with(magic.bytes)) return "it looks like " + std::string(magic.meaning);
  }
  if (bytes.size() >= 10) {
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
    if (text[8] == '{' && header_bytes >= 2 && header_bytes <= 100'000'000) {
      return "it looks like a safetensors file";
    }
  }
  for (const Word& word : kWords) {
    if (starts_with_word(text, word.text)) return "it looks like " + std::string(word.meaning);
  }
  if (text.find_first_not_of('\0') == std::string_view::npos) {
    return "it begins with zero bytes only (an unfinished download?)";
  }
  std::string out = "its first bytes are";
  for (const char c : text.substr(0, kMaxShownBytes)) {
    out += ' ';
    append_hex(out, static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace munia::files
