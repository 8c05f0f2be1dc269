// GGUF reader: files are built in memory by a small writer, so that each wrong field is exactly
// one change away from a right file.
#include "files/gguf.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

namespace munia::files {
namespace {

/// Value types of the file format that the tests write.
enum : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

class Writer {
 public:
  template <class T>
  Writer& number(T value) {
    const auto* bytes = reinterpret_cast<const char*>(&value);
    out_.append(bytes, sizeof value);
    return *this;
  }
  Writer& u32(std::uint32_t value) { return number(value); }
  Writer& u64(std::uint64_t value) { return number(value); }
  Writer& raw(std::string_view text) {
    out_.append(text);
    return *this;
  }
  Writer& string(std::string_view text) { return u64(text.size()).raw(text); }
  Writer& header(std::uint64_t n_tensors, std::uint64_t n_keys, std::uint32_t version = 3) {
    return raw("GGUF").u32(version).u64(n_tensors).u64(n_keys);
  }
  Writer& key(std::string_view name, std::uint32_t type) { return string(name).u32(type); }
  Writer& array(std::uint32_t type, std::uint64_t count) { return u32(type).u64(count); }
  Writer& tensor(std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t type,
                 std::uint64_t offset) {
    string(name).u32(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) u64(dim);
    return u32(type).u64(offset);
  }
  Writer& align(std::size_t alignment = 32) {
    out_.resize((out_.size() + alignment - 1) / alignment * alignment, '\0');
    return *this;
  }
  const std::string& text() const { return out_; }

 private:
  std::string out_;
};

/// One of everything: all scalar kinds, three kinds of array, two tensors.
std::string valid_file(std::uint32_t version = 3) {
  Writer w;
  w.header(2, 16, version);
  w.key("general.alignment", kU32).u32(64);
  w.key("u8", kU8).number(std::uint8_t{200});
  w.key("i8", kI8).number(std::int8_t{-100});
  w.key("u16", kU16).number(std::uint16_t{60000});
  w.key("i16", kI16).number(std::int16_t{-30000});
  w.key("i32", kI32).number(std::int32_t{-5});
  w.key("u64", kU64).number(std::uint64_t{1} << 40);
  w.key("i64", kI64).number(std::int64_t{-1} << 40);
  w.key("f32", kF32).number(0.5F);
  w.key("f64", kF64).number(0.1);
  w.key("bool", kBool).number(std::uint8_t{1});
  w.key("name", kString).string("munia");
  w.key("tokens", kArray).array(kString, 3).string("a").string("").string("\xff\xfe");
  w.key("types", kArray).array(kI32, 3).number(1).number(-2).number(3);
  w.key("scores", kArray).array(kF32, 2).number(0.25F).number(-1.0F);
  w.key("flags", kArray).array(kBool, 2).raw(std::string_view("\0\1", 2));
  w.tensor("w", {32, 2}, 8, 0);  // Q8_0: 2 blocks of 34 bytes
  w.tensor("b", {3}, 0, 128);    // F32: 12 bytes
  w.align(64).raw(std::string(68, 'q')).align(64).number(1.0F).number(2.0F).number(3.0F);
  return w.text();
}

Result<std::unique_ptr<GgufFile>> parse(const std::string& text) {
  // A copy of exactly this size, so that the sanitizer sees any read behind its end.
  static std::vector<std::byte> bytes;
  bytes.assign(reinterpret_cast<const std::byte*>(text.data()),
               reinterpret_cast<const std::byte*>(text.data()) + text.size());
  bytes.shrink_to_fit();
  return GgufFile::parse(bytes, "test.gguf");
}

/// The file is refused, and the message has all the given words.
void expect_refused(const std::string& text, std::vector<std::string> words,
                    ErrorCode code = ErrorCode::kInvalidData) {
  const auto result = parse(text);
  ASSERT_FALSE(result.ok()) << "should be refused for: " << words.front();
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_TRUE(result.error().message.starts_with("test.gguf")) << result.error().message;
  for (const std::string& word : words) {
    EXPECT_NE(result.error().message.find(word), std::string::npos)
        << "no '" << word << "' in: " << result.error().message;
  }
}

TEST(Gguf, ReadsEveryKindOfValue) {
  for (const std::uint32_t version : {2U, 3U}) {
    const auto result = parse(valid_file(version));
    ASSERT_TRUE(result.ok()) << result.error().message;
    const GgufFile& file = **result;
    EXPECT_EQ(file.path(), "test.gguf");
    EXPECT_EQ(file.metadata().size(), 16U);
    EXPECT_EQ(*file.get_int("u8"), 200);
    EXPECT_EQ(*file.get_int("i8"), -100);
    EXPECT_EQ(*file.get_int("u16"), 60000);
    EXPECT_EQ(*file.get_int("i16"), -30000);
    EXPECT_EQ(*file.get_int("i32"), -5);
    EXPECT_EQ(*file.get_int("u64"), std::int64_t{1} << 40);
    EXPECT_EQ(*file.get_int("i64"), -(std::int64_t{1} << 40));
    EXPECT_EQ(*file.get_float("f32"), 0.5);
    EXPECT_EQ(*file.get_float("f64"), 0.1);
    EXPECT_TRUE(*file.get_bool("bool", false));
    EXPECT_EQ(*file.get_string("name"), "munia");
    EXPECT_EQ(**file.get_strings("tokens"), (std::vector<std::string>{"a", "", "\xff\xfe"}));
    EXPECT_EQ(**file.get_ints("types"), (std::vector<std::int64_t>{1, -2, 3}));
    EXPECT_EQ(**file.get_ints("flags"), (std::vector<std::int64_t>{0, 1}));
    EXPECT_EQ(std::get<std::vector<double>>(*file.find("scores")),
              (std::vector<double>{0.25, -1.0}));
  }
}

TEST(Gguf, ReadsTensorsSlowestDimensionFirst) {
  const auto result = parse(valid_file());
  ASSERT_TRUE(result.ok()) << result.error().message;
  const GgufFile& file = **result;
  ASSERT_EQ(file.tensors().size(), 2U);
  const TensorView* w = file.find_tensor("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->name, "w");
  EXPECT_EQ(w->type, TensorType::kQ8_0);
  EXPECT_EQ(w->type_name, "Q8_0");
  EXPECT_EQ(w->shape, (std::vector<std::int64_t>{2, 32}));
  ASSERT_EQ(w->bytes.size(), 68U);
  EXPECT_EQ(w->bytes[0], std::byte{'q'});
  EXPECT_EQ(w->bytes[67], std::byte{'q'});
  const TensorView* b = file.find_tensor("b");
  ASSERT_NE(b, nullptr);
  ASSERT_EQ(b->bytes.size(), 12U);
  float values[3];
  std::memcpy(values, b->bytes.data(), sizeof values);
  EXPECT_EQ(values[2], 3.0F);
  EXPECT_EQ(file.find_tensor("c"), nullptr);
}

TEST(Gguf, TypedAccessTellsAbsentFromWrong) {
  const auto result = parse(valid_file());
  ASSERT_TRUE(result.ok());
  const GgufFile& file = **result;
  EXPECT_EQ(*file.get_int("absent", 7), 7);
  EXPECT_EQ(*file.get_float("absent", 0.5), 0.5);
  EXPECT_EQ(*file.get_string("absent", "x"), "x");
  EXPECT_TRUE(*file.get_bool("absent", true));
  EXPECT_EQ(*file.get_strings("absent"), nullptr);
  EXPECT_EQ(*file.get_ints("absent"), nullptr);
  EXPECT_EQ(file.get_int("absent").error().message,
            "test.gguf: metadata key \"absent\" is missing");
  EXPECT_EQ(file.get_int("name", 7).error().message,
            "test.gguf: metadata key \"name\" is a string; it must be an integer");
  EXPECT_EQ(file.get_bool("u8", false).error().message,
            "test.gguf: metadata key \"u8\" is an integer; it must be a truth value");
  EXPECT_FALSE(file.get_float("u8").ok());
  EXPECT_FALSE(file.get_string("tokens").ok());
  EXPECT_FALSE(file.get_ints("scores").ok());
  EXPECT_FALSE(file.get_strings("types").ok());
}

TEST(Gguf, EveryPrefixIsRefused) {
  const std::string whole = valid_file();
  ASSERT_TRUE(parse(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto result = parse(whole.substr(0, size));
    ASSERT_FALSE(result.ok()) << size;
    if (size > 0) {
      const std::string expected =
          "test.gguf is cut off: it has " + std::to_string(size) + " bytes and should have ";
      EXPECT_TRUE(result.error().message.starts_with(expected)) << result.error().message;
    }
  }
  // Once the tensor list is complete, the whole size is known.
  expect_refused(whole.substr(0, whole.size() - 1),
                 {"should have " + std::to_string(whole.size()) + ","});
}

TEST(Gguf, NoSingleChangedByteDoesHarm) {
  const std::string whole = valid_file();
  std::size_t n_refused = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int mask : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ mask);
      const auto result = parse(changed);
      if (!result) {
        ++n_refused;
        EXPECT_FALSE(result.error().message.empty());
        continue;
      }
      for (const TensorView& tensor : (*result)->tensors()) {
        for (const std::byte byte : tensor.bytes)
          (void)*static_cast<const volatile std::byte*>(&byte);
      }
    }
  }
  EXPECT_GT(n_refused, 1000U);
}

TEST(Gguf, TellsOtherFilesApart) {
  expect_refused("", {"not a GGUF file", "empty"});
  expect_refused("PK\x03\x04 and so on", {"not a GGUF file", "zip"});
  expect_refused("<!DOCTYPE html><html>", {"HTML page"});
  expect_refused("\n<HTML>", {"HTML page"});
  expect_refused(std::string("\x02\0\0\0\0\0\0\0{}", 10), {"safetensors"});
  expect_refused("version https://git-lfs.github.com/spec/v1\noid", {"Git LFS pointer"});
  expect_refused("{\"error\": 1}", {"JSON"});
  expect_refused("\x1f\x8b\x08", {"gzip"});
  expect_refused("tjgg\x01", {"old ggml"});
  expect_refused(std::string(64, '\0'), {"zero bytes"});
  expect_refused("abc\x01xyz", {"61 62 63 01 78 79 7a"});
  expect_refused("FUGG", {"big-endian"}, ErrorCode::kUnsupported);
  Writer big_endian;
  big_endian.raw("GGUF").u32(0x03000000).u64(0).u64(0);
  expect_refused(big_endian.text(), {"big-endian"}, ErrorCode::kUnsupported);
  expect_refused(Writer().header(0, 0, 1).text(), {"version 1"}, ErrorCode::kUnsupported);
  expect_refused(Writer().header(0, 0, 4).text(), {"version 4"}, ErrorCode::kUnsupported);
  expect_refused(Writer().header(0, 0, 0).text(), {"version 0"}, ErrorCode::kUnsupported);
}

TEST(Gguf, AcceptsAFileWithoutTensors) {
  EXPECT_TRUE(parse(Writer().header(0, 0).text()).ok());
  EXPECT_TRUE(parse(Writer().header(0, 1).key("k", kBool).number(std::uint8_t{0}).text()).ok());
}

TEST(Gguf, AbsurdCountsAreRefusedWithoutAllocating) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  expect_refused(Writer().header(kHuge, 0).text(), {"tensors", "4611686018427387904"},
                 ErrorCode::kLimit);
  expect_refused(Writer().header(0, kHuge).text(), {"metadata keys"}, ErrorCode::kLimit);
  expect_refused(Writer().header(100'000, 0).text(),
                 {"at least 3200024, for 0 metadata keys and 100000 tensors"});
  expect_refused(Writer().header(0, 100'000).text(),
                 {"at least 1300024, for 100000 metadata keys and 0 tensors"});
  const auto one_key = [] { return Writer().header(0, 1); };
  expect_refused(one_key().u64(kHuge).u64(0).text(), {"key 0", "string of 46116"});
  expect_refused(one_key().key("k", kString).u64(kHuge).text(), {"\"k\"", "string of 46116"});
  expect_refused(one_key().key("k", kString).u64(5000).text(), {"cut off", "\"k\""});
  const std::size_t n_before = one_key().key("k", kArray).array(kU8, 0).text().size();
  for (const auto& [type, value_bytes] :
       {std::pair(kU8, 1U), {kF32, 4U}, {kString, 8U}, {kU64, 8U}}) {
    expect_refused(one_key().key("k", kArray).array(type, kHuge).text(), {"\"k\"", "claims"},
                   ErrorCode::kLimit);
    expect_refused(one_key().key("k", kArray).array(type, 1'000'000).text(),
                   {"at least " + std::to_string(n_before + 1'000'000 * value_bytes)});
  }
}

TEST(Gguf, ArrayValuesAreCountedOverTheWholeFile) {
  constexpr std::uint64_t kMany = 9U << 20;
  Writer w;
  w.header(0, 2);
  w.key("one", kArray).array(kU8, kMany).raw(std::string(kMany, '\1'));
  w.key("two", kArray).array(kU8, kMany).raw(std::string(kMany, '\1'));
  expect_refused(w.text(), {"\"two\"", "all arrays together"}, ErrorCode::kLimit);
}

TEST(Gguf, RefusesWrongMetadata) {
  const auto one_key = [] { return Writer().header(0, 1); };
  expect_refused(one_key().key("k", 13).u64(0).text(), {"\"k\"", "unknown value type 13"});
  expect_refused(one_key().key("k", kArray).array(99, 0).text(), {"unknown value type 99"});
  expect_refused(one_key().key("k", kArray).array(kArray, 1).array(kU8, 0).text(),
                 {"\"k\"", "array of arrays"}, ErrorCode::kUnsupported);
  expect_refused(one_key().key("", kU32).u32(0).text(), {"key 0", "empty"});
  expect_refused(one_key().key("a\xff\x1b", kU32).u32(0).text(), {"not UTF-8", "a\\xff\\x1b"});
  expect_refused(one_key().key(std::string(65536, 'k'), kU32).u32(0).text(), {"65536"});
  expect_refused(one_key().key("k", kBool).number(std::uint8_t{2}).text(), {"truth value", "2"});
  expect_refused(one_key().key("k", kU64).u64(std::uint64_t{1} << 63).text(),
                 {"9223372036854775808"});
  expect_refused(one_key().key("k", kArray).array(kU64, 1).u64(~std::uint64_t{0}).text(),
                 {"18446744073709551615"});
  Writer twice;
  twice.header(0, 2).key("k", kU32).u32(1).key("k", kU32).u32(2);
  expect_refused(twice.text(), {"\"k\"", "twice"});
  for (const std::uint32_t alignment : {0U, 4U, 7U, 33U, 0x80000000U}) {
    expect_refused(one_key().key("general.alignment", kU32).u32(alignment).text(),
                   {"general.alignment is " + std::to_string(alignment), "power of two"});
  }
  expect_refused(one_key().key("general.alignment", kString).string("32").text(),
                 {"not an integer"});
}

TEST(Gguf, ControlBytesOfNamesAreEscapedInMessages) {
  const auto result = parse(Writer().header(0, 1).key("a\x1b[31m\n", 99).u64(0).text());
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("a\\x1b[31m\\x0a"), std::string::npos);
  EXPECT_EQ(result.error().message.find('\x1b'), std::string::npos);
}

/// A file with the tensors that `write` writes and `n_data` bytes of data.
std::string with_tensors(std::uint64_t n_tensors, const std::function<void(Writer&)>& write,
                         std::size_t n_data) {
  Writer w;
  w.header(n_tensors, 0);
  write(w);
  return w.align().raw(std::string(n_data, 'd')).text();
}

TEST(Gguf, RefusesWrongTensors) {
  const auto one = [](std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t type,
                      std::uint64_t offset, std::size_t n_data) {
    return with_tensors(
        1, [&](Writer& w) { w.tensor(name, dims, type, offset); }, n_data);
  };
  ASSERT_TRUE(parse(one("w", {32, 2}, 8, 0, 68)).ok());
  expect_refused(one("w", {}, 0, 0, 64), {"\"w\"", "0 dimensions"});
  expect_refused(one("w", {1, 1, 1, 1, 1}, 0, 0, 64), {"5 dimensions"});
  expect_refused(one("w", {4, 0}, 0, 0, 64), {"extent 0"});
  constexpr std::uint64_t kBig = std::uint64_t{1} << 32;
  expect_refused(one("w", {kBig, kBig}, 0, 0, 64), {"extent 4294967296", "dimension 1"});
  expect_refused(one("w", {~std::uint64_t{0}}, 0, 0, 64), {"extent 18446744073709551615"});
  expect_refused(one("w", {std::uint64_t{1} << 44}, 0, 0, 64), {"more than 2^44 bytes"});
  expect_refused(one("w", {48, 2}, 8, 0, 1000), {"rows of 48", "Q8_0", "block of 32"});
  expect_refused(one("w", {128}, 12, 0, 1000), {"rows of 128", "Q4_K", "block of 256"});
  expect_refused(one("w", {4}, 0, 8, 64), {"offset 8", "alignment 32"});
  expect_refused(one("w", {4}, 0, ~std::uint64_t{31}, 64), {"offset"});
  expect_refused(one("w", {4}, 0, 64, 64), {"cut off"});
  expect_refused(one("w", {17}, 0, 0, 64), {"cut off"});
  expect_refused(one("", {4}, 0, 0, 64), {"tensor 0", "empty"});
  expect_refused(one("\xc3(", {4}, 0, 0, 64), {"not UTF-8"});
  expect_refused(one(std::string(65, 'w'), {4}, 0, 0, 64), {"string of 65"});
  expect_refused(with_tensors(
                     2, [](Writer& w) { w.tensor("w", {4}, 0, 0).tensor("w", {4}, 0, 32); }, 64),
                 {"\"w\"", "twice"});
  expect_refused(with_tensors(
                     2, [](Writer& w) { w.tensor("w", {16}, 0, 0).tensor("v", {4}, 0, 32); }, 64),
                 {"\"w\"", "\"v\"", "overlap"});
}

TEST(Gguf, TypesWithoutArithmeticKeepTheirName) {
  const auto result = parse(with_tensors(
      3,
      [](Writer& w) {
        w.tensor("a", {256}, 17, 0).tensor("b", {5}, 26, 96).tensor("c", {5}, 4711, 128);
      },
      128));
  ASSERT_TRUE(result.ok()) << result.error().message;
  const auto& tensors = (*result)->tensors();
  for (const TensorView& tensor : tensors) EXPECT_EQ(tensor.type, TensorType::kOther);
  EXPECT_EQ(tensors[0].type_name, "IQ2_XS");
  EXPECT_EQ(tensors[0].bytes.size(), 74U);
  EXPECT_EQ(tensors[1].type_name, "I32");
  EXPECT_EQ(tensors[1].bytes.size(), 20U);
  EXPECT_EQ(tensors[2].type_name, "type 4711");
  EXPECT_TRUE(tensors[2].bytes.empty());
}

TEST(Gguf, OpensFilesAndNamesThoseThatCannotBeRead) {
  const std::string path = ::testing::TempDir() + "/munia_gguf_test.gguf";
  const std::string text = valid_file();
  std::FILE* out = std::fopen(path.c_str(), "wb");
  ASSERT_NE(out, nullptr);
  ASSERT_EQ(std::fwrite(text.data(), 1, text.size(), out), text.size());
  ASSERT_EQ(std::fclose(out), 0);
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ((*file)->path(), path);
  EXPECT_EQ((*file)->find_tensor("w")->bytes[0], std::byte{'q'});
  ASSERT_EQ(std::remove(path.c_str()), 0);
  const auto absent = GgufFile::open(path);
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  EXPECT_NE(absent.error().message.find(path), std::string::npos);
}

/// Real files, when the environment names them: every byte count adds up to the file's size.
void check_real_file(const char* variable, std::int64_t n_tokens) {
  const char* path = std::getenv(variable);
  if (path == nullptr) GTEST_SKIP() << variable << " is not set";
  const auto begin = std::chrono::steady_clock::now();
  const auto result = GgufFile::open(path);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(result.ok()) << result.error().message;
  const GgufFile& file = **result;
  const auto tokens = file.get_strings("tokenizer.ggml.tokens");
  ASSERT_TRUE(tokens.ok());
  ASSERT_NE(*tokens, nullptr);
  EXPECT_EQ(static_cast<std::int64_t>((*tokens)->size()), n_tokens);
  const TensorView* embedding = file.find_tensor("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->shape.front(), n_tokens);
  std::size_t data_bytes = 0;
  for (const TensorView& tensor : file.tensors()) {
    EXPECT_NE(tensor.type, TensorType::kOther) << tensor.name;
    data_bytes += tensor.bytes.size();
  }
  std::printf("%s: %zu tensors, %zu bytes of weights, opened in %.1f ms\n", variable,
              file.tensors().size(), data_bytes, took.count());
}

TEST(Gguf, OpensTheRealQwenFile) { check_real_file("MUNIA_TEST_QWEN_GGUF", 151'936); }
TEST(Gguf, OpensTheRealSmolLm2File) { check_real_file("MUNIA_TEST_SMOLLM2_GGUF", 49'152); }

}  // namespace
}  // namespace munia::files
