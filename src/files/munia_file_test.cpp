// The packed file: what is written comes back, and every damage is one clear sentence.
#include "files/munia_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/sha256.h"
#include "files/byte_stream.h"

namespace munia::files {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLayout = "test-layout";

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// A 64-aligned copy, as a mapping is.
Result<std::shared_ptr<const MuniaFile>> parse(const std::string& content,
                                               std::string_view layout = kLayout) {
  return MuniaFile::parse(bytes_of(content), "x.munia", layout);
}

std::string refusal(const std::string& content, std::string_view layout = kLayout) {
  const auto file = parse(content, layout);
  return file ? "accepted" : file.error().message;
}

const std::vector<float> kNorm = {1, 2, 3};
const std::string kPanels(5000, 'p');

MuniaPart matrix_part(std::string name) {
  MuniaPart part;
  part.name = std::move(name);
  part.type = "BF16";
  part.n_rows = 5;
  part.n_cols = 7;
  return part;
}

MuniaFileWriter example() {
  MuniaFileWriter writer({std::string(kLayout), "exact", "test"});
  writer.add_matrix(matrix_part("a"), bytes_of(kPanels));
  writer.add_bytes("config", "{}");
  writer.add_vector("norm", kNorm);
  writer.add_matrix(matrix_part("b"), bytes_of(kPanels));
  return writer;
}

// A header made by hand, with a right sum, for tables that the writer would never write.
struct RawPart {
  std::string name = "p";
  std::uint8_t kind = 0;
  std::int64_t n_rows = 0;
  std::int64_t n_cols = 0;
  std::uint64_t offset = 4096;
  std::uint64_t size_bytes = 10;
};
std::string raw_file(const std::vector<RawPart>& parts, std::uint64_t file_bytes = 8192,
                     std::uint32_t n_parts_more = 0, const std::string& behind = "") {
  ByteWriter table;
  table.text(kLayout);
  table.text("exact");
  table.text("test");
  table.number(static_cast<std::uint32_t>(parts.size() + n_parts_more));
  for (const RawPart& part : parts) {
    table.text(part.name);
    table.number(part.kind);
    table.text("F32");
    table.number(part.n_rows);
    table.number(part.n_cols);
    table.number(part.offset);
    table.number(part.size_bytes);
    // The sum of ten zeros, so that a small part at a right place is accepted.
    Sha256 sum;
    sum.update(bytes_of(std::string(part.size_bytes < 8192 ? part.size_bytes : 0, '\0')));
    const auto digest = sum.digest();
    table.raw({reinterpret_cast<const char*>(digest.data()), digest.size()});
  }
  table.raw(behind);
  ByteWriter fixed;
  fixed.raw("\x89MUNIA\r\n");
  fixed.number(kMuniaVersion);
  fixed.number(std::uint32_t{0});
  fixed.number(static_cast<std::uint64_t>(64 + table.size()));
  fixed.number(file_bytes);
  const std::string head = fixed.take();
  const std::string rest = table.take();
  Sha256 sum;
  sum.update(bytes_of(head));
  sum.update(bytes_of(rest));
  const auto digest = sum.digest();
  std::string out = head + std::string(reinterpret_cast<const char*>(digest.data()), 32) + rest;
  out.resize(8192, '\0');
  return out;
}

void expect_has(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message << "\nhas no: " << part;
}

TEST(MuniaFile, WhatIsWrittenComesBack) {
  const std::string content = example().to_string();
  const auto file = parse(content);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ((*file)->producer(), "test");
  ASSERT_EQ((*file)->parts().size(), 4U);
  EXPECT_EQ((*file)->find("nothing"), nullptr);
  const MuniaPart* config = (*file)->find("config");
  ASSERT_NE(config, nullptr);
  EXPECT_EQ(std::memcmp((*file)->bytes(*config).data(), "{}", 2), 0);
  const MuniaPart* norm = (*file)->find("norm");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->offset % 64, 0U);
  EXPECT_EQ(std::memcmp((*file)->bytes(*norm).data(), kNorm.data(), 12), 0);
  for (const char* name : {"a", "b"}) {
    const MuniaPart* part = (*file)->find(name);
    ASSERT_NE(part, nullptr);
    EXPECT_EQ(part->offset % 4096, 0U);
    EXPECT_EQ(part->n_rows, 5);
    EXPECT_EQ(part->n_cols, 7);
    EXPECT_EQ(part->type, "BF16");
    EXPECT_TRUE((*file)->verify(*part).ok());
  }
}

TEST(MuniaFile, EveryTruncationIsRefused) {
  const std::string content = example().to_string();
  for (std::size_t size = 0; size < content.size(); size += size < 1200 ? 1 : 97) {
    const std::string message = refusal(content.substr(0, size));
    ASSERT_NE(message, "accepted") << size;
    ASSERT_EQ(message.rfind("x.munia: ", 0), 0U) << message;
    if (size >= 8) expect_has(message, "is cut off: it has " + std::to_string(size));
  }
  expect_has(refusal(content + "x"), "more than the");
}

TEST(MuniaFile, EveryFlippedByteOfTheHeaderAndOfSmallPartsIsFound) {
  const std::string content = example().to_string();
  const auto file = parse(content);
  ASSERT_TRUE(file.ok());
  std::vector<bool> must(content.size());
  const std::size_t header_end = [&] {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, content.data() + 16, 8);
    return bytes;
  }();
  for (std::size_t i = 0; i < header_end; ++i) must[i] = true;
  for (const MuniaPart& part : (*file)->parts()) {
    if (part.kind == PartKind::kMatrix) continue;
    for (std::size_t i = 0; i < part.size_bytes; ++i) must[part.offset + i] = true;
  }
  for (std::size_t i = 0; i < content.size(); ++i) {
    if (!must[i]) continue;
    for (const char bit : {'\x01', '\x80'}) {
      std::string damaged = content;
      damaged[i] = static_cast<char>(damaged[i] ^ bit);
      ASSERT_NE(refusal(damaged), "accepted") << "byte " << i;
    }
  }
}

TEST(MuniaFile, AFlippedByteOfAMatrixIsFoundByVerify) {
  std::string content = example().to_string();
  std::size_t offset = 0;
  {
    const auto file = parse(content);
    ASSERT_TRUE(file.ok());
    offset = (*file)->find("b")->offset + 4999;
  }
  content[offset] ^= 1;
  const auto file = parse(content);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->verify(*(*file)->find("a")).ok());
  const Status status = (*file)->verify(*(*file)->find("b"));
  ASSERT_FALSE(status.ok());
  expect_has(status.error().message, "x.munia: part \"b\" is damaged: its SHA-256 differs");
}

TEST(MuniaFile, OtherFilesVersionsAndLayoutsAreNamed) {
  const std::string content = example().to_string();
  expect_has(refusal("GGUF" + content.substr(4)), "not a packed munia file");
  expect_has(refusal(""), "not a packed munia file");
  std::string newer = content;
  newer[8] = 2;
  expect_has(refusal(newer), "version 2, this munia reads version 1");
  expect_has(refusal(content, "panels32"), "layout \"test-layout\", this munia computes with");
}

TEST(MuniaFile, TablesThatCannotBeAreRefused) {
  const std::uint64_t huge = ~std::uint64_t{0};
  EXPECT_EQ(refusal(raw_file({{}})), "accepted");
  expect_has(refusal(raw_file({{.offset = 4097}})), "no multiple of 64");
  expect_has(refusal(raw_file({{.kind = 2, .n_rows = 1, .n_cols = 1, .offset = 4160}})),
             "no multiple of 4096");
  expect_has(refusal(raw_file({{.offset = 64}})), "inside what stands before it");
  expect_has(
      refusal(raw_file({{.offset = 4096, .size_bytes = 100}, {.name = "q", .offset = 4160}})),
      "inside what stands before it");
  expect_has(refusal(raw_file({{.offset = 8128, .size_bytes = 65}})), "beyond the file's end");
  expect_has(refusal(raw_file({{.offset = 4096, .size_bytes = huge}})), "beyond the file's end");
  expect_has(refusal(raw_file({{.offset = huge - 63, .size_bytes = 64}})), "beyond the file's end");
  expect_has(refusal(raw_file({{}, {.offset = 4160}})), "two parts have the name \"p\"");
  expect_has(refusal(raw_file({{.kind = 3}})), "unknown kind 3");
  expect_has(refusal(raw_file({{.kind = 2, .n_rows = -1, .n_cols = 4}})), "cannot be");
  expect_has(refusal(raw_file({{.kind = 1, .n_rows = 1, .n_cols = std::int64_t{1} << 62}})),
             "cannot be");
  expect_has(refusal(raw_file({{.kind = 1, .n_rows = 1, .n_cols = 3}})), "cannot be");
  expect_has(refusal(raw_file({{.n_rows = 1}})), "cannot be");
  expect_has(refusal(raw_file({}, 8192, 1)), "its table ends early");
  expect_has(refusal(raw_file({}, 8192, 100000)), "at most 65536");
  expect_has(refusal(raw_file({{}}, 8192, 0, "more")), "bytes follow its table");
  expect_has(refusal(raw_file({{}}, huge)), "cut off");
  expect_has(refusal(raw_file({{}}, 100)), "more than the 100");
}

class MuniaFileOnDisk : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("munia_file_test-" + std::to_string(getpid()));
    fs::create_directories(dir_);
    path_ = (dir_ / "x.munia").string();
  }
  void TearDown() override { fs::remove_all(dir_); }
  std::size_t n_files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(dir_), fs::directory_iterator()));
  }
  fs::path dir_;
  std::string path_;
};

TEST_F(MuniaFileOnDisk, WrittenAndOpened) {
  std::uint64_t last = 0;
  const auto size = example().write(
      path_, {.on_progress = [&](std::uint64_t done, std::uint64_t) { last = done; }});
  ASSERT_TRUE(size.ok()) << size.error().message;
  EXPECT_EQ(*size, fs::file_size(path_));
  EXPECT_EQ(last, *size);
  EXPECT_EQ(n_files(), 1U);
  EXPECT_TRUE(MuniaFile::is_munia_file(path_));
  std::ifstream in(path_, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(content, example().to_string());
  const auto file = MuniaFile::open(path_, kLayout);
  ASSERT_TRUE(file.ok()) << file.error().message;
  std::string read(kPanels.size(), '\0');
  ASSERT_TRUE((*file)
                  ->read((*file)->find("b")->offset,
                         std::as_writable_bytes(std::span(read.data(), read.size())))
                  .ok());
  EXPECT_EQ(read, kPanels);
}

TEST_F(MuniaFileOnDisk, ReplacedWhileOpenItStaysWhatItWas) {
  ASSERT_TRUE(example().write(path_, {}).ok());
  const auto old = MuniaFile::open(path_, kLayout);
  ASSERT_TRUE(old.ok());
  MuniaFileWriter other({std::string(kLayout), "exact", "other"});
  ASSERT_TRUE(other.write(path_, {}).ok());
  const auto now = MuniaFile::open(path_, kLayout);
  ASSERT_TRUE(now.ok());
  EXPECT_EQ((*now)->producer(), "other");
  for (const MuniaPart& part : (*old)->parts()) EXPECT_TRUE((*old)->verify(part).ok());
  std::string read(10, '\0');
  EXPECT_TRUE((*old)
                  ->read((*old)->find("b")->offset,
                         std::as_writable_bytes(std::span(read.data(), read.size())))
                  .ok());
  EXPECT_EQ(read, "pppppppppp");
}

TEST_F(MuniaFileOnDisk, CancelledLeavesNothingAndTheOldFileWhole) {
  ASSERT_TRUE(example().write(path_, {}).ok());
  MuniaFileWriter other = example();
  const auto result = other.write(path_, {.on_progress = {}, .cancelled = [] { return true; }});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(n_files(), 1U);
  EXPECT_TRUE(MuniaFile::open(path_, kLayout).ok());
}

TEST_F(MuniaFileOnDisk, UntilTheEndNothingLooksWhole) {
  std::size_t n_seen = 0;
  MuniaFileWriter writer = example();
  ASSERT_TRUE(writer
                  .write(path_, {.on_progress =
                                     [&](std::uint64_t, std::uint64_t) {
                                       for (const auto& entry : fs::directory_iterator(dir_)) {
                                         ++n_seen;
                                         EXPECT_NE(entry.path().string(), path_);
                                         EXPECT_FALSE(
                                             MuniaFile::open(entry.path().string(), kLayout).ok());
                                       }
                                     }})
                  .ok());
  EXPECT_GE(n_seen, 4U);
}

TEST_F(MuniaFileOnDisk, WhatCannotBeWrittenIsNamed) {
  const auto result = example().write((dir_ / "no" / "x.munia").string(), {});
  ASSERT_FALSE(result.ok());
  expect_has(result.error().message, "no/x.munia");
  expect_has(result.error().message, "No such file");
  EXPECT_FALSE(MuniaFile::is_munia_file(path_));
  EXPECT_EQ(MuniaFile::open(path_, kLayout).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace munia::files
