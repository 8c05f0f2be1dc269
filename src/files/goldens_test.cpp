// Both readers against what the reference packages read from the same files
// (tests/goldens/files/SOURCE.md).
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>

#include "files/gguf.h"
#include "files/safetensors.h"

namespace munia::files {
namespace {

namespace json = boost::json;

const std::string kGoldens = std::string(MUNIA_SOURCE_DIR) + "/tests/goldens/files";

json::object read_golden(const std::string& name) {
  auto text = read_file(kGoldens + "/" + name, 1U << 20);
  return json::parse(std::move(text).value_or_throw()).as_object();
}

std::string hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::byte byte : bytes) {
    out += kDigits[static_cast<unsigned>(byte) >> 4];
    out += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return out;
}

void expect_tensor(const TensorView& tensor, const json::object& golden) {
  SCOPED_TRACE(tensor.name);
  EXPECT_EQ(tensor.name, golden.at("name").as_string());
  EXPECT_EQ(tensor.type_name, golden.at("type").as_string());
  EXPECT_EQ(tensor.shape, json::value_to<std::vector<std::int64_t>>(golden.at("shape")));
  EXPECT_EQ(hex(tensor.bytes), golden.at("bytes").as_string());
}

json::value to_json(const GgufValue& value) {
  return std::visit([](const auto& held) { return json::value_from(held); }, value);
}

TEST(FilesGoldens, GgufEqualsTheReferenceReader) {
  const auto file = GgufFile::open(kGoldens + "/tiny.gguf").value_or_throw();
  const json::object golden = read_golden("tiny.gguf.json");
  const json::object& metadata = golden.at("metadata").as_object();
  EXPECT_EQ(file->metadata().size(), metadata.size());
  for (const auto& [key, expected] : metadata) {
    const GgufValue* value = file->find(key);
    ASSERT_NE(value, nullptr) << key;
    EXPECT_EQ(to_json(*value), expected) << key;
  }
  const json::array& tensors = golden.at("tensors").as_array();
  ASSERT_EQ(file->tensors().size(), tensors.size());
  ASSERT_EQ(tensors.size(), 34U);  // every type that the reference knows the size of
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    expect_tensor(file->tensors()[i], tensors[i].as_object());
  }
}

TEST(FilesGoldens, SafetensorsEqualsTheReferenceReader) {
  auto text = read_file(kGoldens + "/tiny.safetensors", 1U << 20).value_or_throw();
  const auto file =
      Safetensors::parse(std::as_bytes(std::span(text)), "tiny.safetensors").value_or_throw();
  const json::object golden = read_golden("tiny.safetensors.json");
  const json::array& tensors = golden.at("tensors").as_array();
  ASSERT_EQ(file->tensors().size(), tensors.size());
  for (const json::value& expected : tensors) {
    const json::object& tensor = expected.as_object();
    const TensorView* found = file->find_tensor(tensor.at("name").as_string());
    ASSERT_NE(found, nullptr) << tensor.at("name");
    expect_tensor(*found, tensor);
  }
}

}  // namespace
}  // namespace munia::files
