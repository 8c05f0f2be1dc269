// safetensors reader: files and directories built by the tests themselves.
#include "files/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace munia::files {
namespace {

/// A file: header length, header, data.
std::string make_file(std::string_view header, std::string_view data) {
  const std::uint64_t n_header = header.size();
  std::string out(reinterpret_cast<const char*>(&n_header), sizeof n_header);
  return out.append(header).append(data);
}

/// "name":{...}. (Built by append: GCC 12 warns wrongly, -Wrestrict, of "literal" + std::string.)
std::string entry(std::string_view name, std::string_view dtype, std::string_view shape,
                  std::uint64_t begin, std::uint64_t end) {
  std::string out(1, '"');
  out.append(name).append(R"(":{"dtype":")").append(dtype).append(R"(","shape":)").append(shape);
  out.append(R"(,"data_offsets":[)").append(std::to_string(begin)).append(1, ',');
  return out.append(std::to_string(end)).append("]}");
}

/// `fields` in braces.
std::string object(const std::string& fields) {
  std::string out(1, '{');
  return out.append(fields).append(1, '}');
}

std::string valid_file() {
  return make_file("{\"__metadata__\":{\"format\":\"pt\"}," + entry("w", "BF16", "[2,3]", 4, 16) +
                       "," + entry("b", "F32", "[]", 0, 4) + "," +
                       entry("e", "F16", "[0]", 16, 16) + "}  ",
                   "abcdefghijklmnop");
}

Result<std::unique_ptr<Safetensors>> parse(const std::string& text) {
  // A copy of exactly this size, so that the sanitizer sees any read behind its end.
  static std::vector<std::byte> bytes;
  bytes.assign(reinterpret_cast<const std::byte*>(text.data()),
               reinterpret_cast<const std::byte*>(text.data()) + text.size());
  bytes.shrink_to_fit();
  return Safetensors::parse(bytes, "test.safetensors");
}

void expect_message(const Result<std::unique_ptr<Safetensors>>& result,
                    const std::vector<std::string>& words, ErrorCode code) {
  ASSERT_FALSE(result.ok()) << "should be refused for: " << words.front();
  EXPECT_EQ(result.error().code, code) << result.error().message;
  for (const std::string& word : words) {
    EXPECT_NE(result.error().message.find(word), std::string::npos)
        << "no '" << word << "' in: " << result.error().message;
  }
}

void expect_refused(const std::string& text, std::vector<std::string> words,
                    ErrorCode code = ErrorCode::kInvalidData) {
  words.emplace_back("test.safetensors");
  expect_message(parse(text), words, code);
}

/// A header that is refused, over 16 bytes of data.
void expect_header_refused(const std::string& header, const std::vector<std::string>& words) {
  expect_refused(make_file(header, std::string(16, 'd')), words);
}

TEST(Safetensors, ReadsTensors) {
  const auto result = parse(valid_file());
  ASSERT_TRUE(result.ok()) << result.error().message;
  const Safetensors& file = **result;
  ASSERT_EQ(file.tensors().size(), 3U);
  const TensorView* w = file.find_tensor("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->name, "w");
  EXPECT_EQ(w->type, TensorType::kBf16);
  EXPECT_EQ(w->type_name, "BF16");
  EXPECT_EQ(w->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(w->bytes.data()), w->bytes.size()),
            "efghijklmnop");
  const TensorView* b = file.find_tensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->type, TensorType::kF32);
  EXPECT_TRUE(b->shape.empty());
  EXPECT_EQ(b->bytes.size(), 4U);
  EXPECT_EQ(file.find_tensor("e")->bytes.size(), 0U);
  EXPECT_EQ(file.find_tensor("x"), nullptr);
}

TEST(Safetensors, OtherDtypesKeepTheirName) {
  const auto result = parse(make_file(
      object(entry("a", "I64", "[1]", 0, 8) + "," + entry("b", "F8_E4M3", "[3]", 8, 11) + "," +
             entry("c", "NEW9", "[7,7]", 11, 13) + "," + entry("d", "F4", "[2,3]", 13, 16)),
      std::string(16, 'd')));
  ASSERT_TRUE(result.ok()) << result.error().message;
  for (const TensorView& tensor : (*result)->tensors()) {
    EXPECT_EQ(tensor.type, TensorType::kOther);
  }
  EXPECT_EQ((*result)->find_tensor("a")->type_name, "I64");
  EXPECT_EQ((*result)->find_tensor("c")->type_name, "NEW9");
  EXPECT_EQ((*result)->find_tensor("c")->bytes.size(), 2U);
  EXPECT_EQ((*result)->find_tensor("d")->bytes.size(), 3U);
}

TEST(Safetensors, AcceptsEscapedNamesAndAnEmptyList) {
  const auto result =
      parse(make_file(object(entry("a\\u00e9\\\"", "F32", "[4]", 0, 16)), std::string(16, 'd')));
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_NE((*result)->find_tensor("a\xc3\xa9\""), nullptr);
  EXPECT_TRUE(parse(make_file("{}", "")).ok());
}

TEST(Safetensors, EveryPrefixIsRefused) {
  const std::string whole = valid_file();
  ASSERT_TRUE(parse(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto result = parse(whole.substr(0, size));
    ASSERT_FALSE(result.ok()) << size;
    EXPECT_TRUE(result.error().message.starts_with("test.safetensors is cut off: it has " +
                                                   std::to_string(size) + " bytes and should have"))
        << result.error().message;
  }
  expect_refused(whole.substr(0, whole.size() - 1),
                 {"should have " + std::to_string(whole.size()) + ";"});
}

TEST(Safetensors, NoSingleChangedByteDoesHarm) {
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
      }
    }
  }
  EXPECT_GT(n_refused, 1000U);
}

TEST(Safetensors, TellsOtherFilesApart) {
  expect_refused("PK\x03\x04 and so on", {"not a safetensors file", "zip"});
  expect_refused("GGUF\x03 and so on", {"not a safetensors file", "GGUF"});
  expect_refused("version https://git-lfs.github.com/spec/v1\noid", {"Git LFS pointer"});
  expect_refused("<html><body>", {"HTML page"});
  expect_refused("PK\x03\x04", {"cut off"});  // too short to tell
  expect_refused(std::string("\0\0\0\0\0\0\0\x7f{}", 10), {"9151314442816847872", "100000000"},
                 ErrorCode::kLimit);
}

TEST(Safetensors, RefusesWrongHeaders) {
  const std::string good = entry("w", "F32", "[4]", 0, 16);
  ASSERT_TRUE(parse(make_file(object(good), std::string(16, 'd'))).ok());
  expect_header_refused(object(good) + " x", {"not the JSON", "extra data"});
  expect_header_refused(object(good).substr(0, 40), {"not the JSON"});
  expect_header_refused(object(good + ","), {"not the JSON"});
  expect_header_refused("{\"w\xff\":1}", {"not the JSON"});
  expect_header_refused("{\"w\":[]}", {"\"w\" is an array"});
  expect_header_refused("{\"w\":null}", {"\"w\" is null"});
  expect_header_refused("{\"w\":1.5}", {"\"w\" is a number"});
  expect_header_refused("{\"__metadata__\":{\"a\":1}}", {"strings only"});
  expect_header_refused("{\"__metadata__\":{\"a\":{}}}", {"strings only"});
  expect_header_refused("{\"__metadata__\":{},\"__metadata__\":{}}", {"__metadata__", "twice"});
  expect_header_refused("{\"__metadata__\":" + std::string(100, '[') + "}", {"must be an object"});
  expect_header_refused(object(good + "," + good), {"\"w\"", "overlap"});
  expect_header_refused(
      object(entry("w", "F32", "[0]", 0, 0) + "," + entry("w", "F32", "[4]", 0, 16)),
      {"\"w\"", "twice in the header"});
  expect_header_refused(object(entry("", "F32", "[4]", 0, 16)), {"empty name"});
  expect_header_refused(object(entry("w", "", "[4]", 0, 16)), {"empty dtype"});
}

TEST(Safetensors, RefusesWrongTensors) {
  const auto refused = [](const std::string& fields, const std::vector<std::string>& words) {
    expect_header_refused(object(std::string("\"w\":").append(object(fields))), words);
  };
  refused("\"shape\":[4],\"data_offsets\":[0,16]", {"\"w\" lacks \"dtype\""});
  refused("\"dtype\":\"F32\",\"data_offsets\":[0,16]", {"\"w\" lacks \"shape\""});
  refused("\"dtype\":\"F32\",\"shape\":[4]", {"\"w\" lacks \"data_offsets\""});
  refused("\"dtype\":\"F32\",\"dtype\":\"F32\"", {"\"w\"", "\"dtype\" twice"});
  refused("\"shape\":[4],\"shape\":[4]", {"\"shape\" twice"});
  refused("\"data_offsets\":[0,1],\"data_offsets\":[0,1]", {"\"data_offsets\" twice"});
  refused("\"data_offsets\":[0]", {"1 data_offsets"});
  refused("\"data_offsets\":[0,8,16]", {"3 data_offsets"});
  refused("\"shape\":[-1]", {"\"w\"", "negative number -1"});
  refused("\"shape\":[1.0]", {"\"w\"", "\"shape\""});
  refused("\"shape\":[18446744073709551615]", {"18446744073709551615"});
  refused("\"shape\":[[4]]", {"an array in \"shape\""});
  refused("\"shape\":[1,1,1,1,1,1,1,1,1]", {"more than 8 dimensions"});
  refused("\"shape\":4", {"a number in \"shape\""});
  refused("\"dtype\":[4]", {"an array in \"dtype\""});
  refused("\"other\":\"x\"", {"a string in \"other\""});
  const auto one = [&](std::string_view dtype, std::string_view shape, std::uint64_t begin,
                       std::uint64_t end, const std::vector<std::string>& words) {
    expect_header_refused(object(entry("w", dtype, shape, begin, end)), words);
  };
  one("F32", "[5]", 0, 16, {"\"w\" has 16 bytes", "5 values of F32 take 20"});
  one("F4", "[3]", 0, 2, {"3 values of F4"});
  one("F32", "[4]", 16, 0, {"data_offsets 16, 0"});
  one("F32", "[4]", 0, 9223372036854775807, {"impossible data_offsets"});
  one("F32", "[4294967296,4294967296,4294967296]", 0, 16, {"impossible shape"});
  one("F32", "[9223372036854775807,9223372036854775807,0]", 0, 16, {"0 values of F32"});
  one("F32", "[2]", 0, 8, {"has 78 bytes", "should end after 70"});
  one("F32", "[2]", 8, 16, {"begins at 8", "must begin at 0", "hole"});
  expect_header_refused(
      object(entry("a", "U8", "[9]", 0, 9) + "," + entry("b", "U8", "[8]", 8, 16)),
      {"\"b\"", "overlap"});
}

/// A directory that is gone after the test.
class SafetensorsDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::path(::testing::TempDir()) /
           ("munia_safetensors_" + std::to_string(getpid()));
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ / name, std::ios::binary) << text;
  }
  /// A shard that holds one tensor of four bytes.
  void write_shard(const std::string& name, std::string_view tensor) const {
    write(name, make_file(object(entry(tensor, "F32", "[1]", 0, 4)), "data"));
  }
  void write_index(const std::string& weight_map) const {
    write("model.safetensors.index.json",
          R"({"metadata":{"total_size":8},"weight_map":)" + weight_map + "}");
  }
  Result<std::unique_ptr<Safetensors>> open() const {
    return Safetensors::open_directory(dir_.string());
  }
  void expect_refused(const std::vector<std::string>& words,
                      ErrorCode code = ErrorCode::kInvalidData) const {
    expect_message(open(), words, code);
  }

  std::filesystem::path dir_;
};

TEST_F(SafetensorsDirectory, OpensOneFile) {
  write("model.safetensors", valid_file());
  const auto result = open();
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ((*result)->find_tensor("w")->bytes[0], std::byte{'e'});
  EXPECT_TRUE(Safetensors::open_directory(dir_.string() + "/").ok());
  write("model.safetensors", valid_file().substr(0, 100));
  expect_refused({"model.safetensors is cut off", "100 bytes"});
}

TEST_F(SafetensorsDirectory, OpensShards) {
  write_shard("model-1.safetensors", "a");
  write_shard("model-2.safetensors", "b");
  write_index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  const auto result = open();
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ((*result)->tensors().size(), 2U);
  EXPECT_EQ((*result)->find_tensor("b")->bytes[3], std::byte{'a'});
}

TEST_F(SafetensorsDirectory, NamesWhatIsMissing) {
  expect_refused({dir_.string(), "neither model.safetensors nor model.safetensors.index.json"},
                 ErrorCode::kNotFound);
  write_shard("model-1.safetensors", "a");
  write_index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  expect_refused({"model-2.safetensors", "a shard that"}, ErrorCode::kNotFound);
  write_shard("model-2.safetensors", "c");
  expect_refused({"tensor \"b\" is listed for \"model-2.safetensors\""});
  write_shard("model-2.safetensors", "a");
  expect_refused({"model-2.safetensors", "tensor \"a\" is already in another shard"});
  write_shard("model-2.safetensors", "b");
  EXPECT_TRUE(open().ok());
  write_index(R"({"a":"model-2.safetensors","b":"model-1.safetensors"})");
  expect_refused({"is listed for \"model-1.safetensors\", which does not hold it"});
  // In an earlier shard than the one it is listed for.
  write("model-1.safetensors",
        make_file(object(entry("a", "F32", "[1]", 0, 4) + "," + entry("c", "F32", "[1]", 4, 8)),
                  "datadata"));
  write_index(R"({"a":"model-1.safetensors","b":"model-2.safetensors","c":"model-2.safetensors"})");
  expect_refused({"tensor \"c\" is listed for \"model-2.safetensors\", which does not hold it"});
}

TEST_F(SafetensorsDirectory, RefusesWrongIndexes) {
  for (const char* name :
       {"../model.safetensors", "/etc/x.safetensors", "a/b.safetensors", "a\\\\b.safetensors", "..",
        ".", "", "passwd", ".safetensors", "a\\u0000.safetensors"}) {
    write_index(R"({"a":")" + std::string(name) + "\"}");
    expect_refused({"\"a\" is placed in", "same directory"});
  }
  write_index(R"({"a":7})");
  expect_refused({"\"a\" is placed in no string"});
  write_index("{}");
  expect_refused({"\"weight_map\" is empty"});
  write_index("[]");
  expect_refused({"no object \"weight_map\""});
  write("model.safetensors.index.json", "[]");
  expect_refused({"no object \"weight_map\""});
  write("model.safetensors.index.json", "{");
  expect_refused({"model.safetensors.index.json", "not valid JSON"});
  write("model.safetensors.index.json", std::string(100'000, '['));
  expect_refused({"not valid JSON"});
}

}  // namespace
}  // namespace munia::files
