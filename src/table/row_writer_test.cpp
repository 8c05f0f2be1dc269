// Rows out: columns kept, values added, and everything reads back.
#include "table/row_writer.h"

#include <gtest/gtest.h>

#include "table/byte_source.h"

namespace munia::table {
namespace {

const std::vector<AddedValue> kAdded = {std::string("正面"), 0.25, std::monostate{}};
const std::vector<std::string> kNames = {"label", "p", "long"};

std::string written(const RowWriter& writer, const Row& row, const std::string& raw) {
  std::string out = writer.header();
  const Status status = writer.append(out, row, raw, kAdded);
  return status ? out : status.error().message;
}

TEST(RowWriter, CsvKeepsColumnsAndReadsBack) {
  const auto writer =
      make_row_writer(Format::kCsv, Format::kCsv, {"id", "review"}, kNames).value_or_throw();
  const std::string out = written(*writer, {2, {"1", "he said \"好\",\nbye"}}, "");
  EXPECT_EQ(out, "id,review,label,p,long\n1,\"he said \"\"好\"\",\nbye\",正面,0.25,\n");
  auto reader = open_rows(source_of_string(out, "out.csv"), Format::kCsv).value_or_throw();
  const auto row = reader->next().value_or_throw();
  EXPECT_EQ(row->fields,
            (std::vector<std::string>{"1", "he said \"好\",\nbye", "正面", "0.25", ""}));
}

TEST(RowWriter, TextBecomesAColumn) {
  const auto tsv = make_row_writer(Format::kText, Format::kTsv, {"text"}, kNames).value_or_throw();
  EXPECT_EQ(written(*tsv, {1, {"好"}}, "好"), "text\tlabel\tp\tlong\n好\t正面\t0.25\t\n");
  const auto json =
      make_row_writer(Format::kText, Format::kJsonLines, {"text"}, kNames).value_or_throw();
  EXPECT_EQ(written(*json, {1, {"好"}}, "好"),
            "{\"text\":\"好\",\"label\":\"正面\",\"p\":0.25,\"long\":null}\n");
}

TEST(RowWriter, ObjectsAreKeptAsTheyWere) {
  const auto writer =
      make_row_writer(Format::kJsonLines, Format::kJsonLines, {"text"}, kNames).value_or_throw();
  EXPECT_EQ(
      written(*writer, {1, {"好"}}, "{ \"id\": 1e3, \"text\":\"\\u597d\", \"deep\":{\"a\":[]} } "),
      "{ \"id\": 1e3, \"text\":\"\\u597d\", \"deep\":{\"a\":[]} ,\"label\":\"正面\",\"p\":0.25,"
      "\"long\":null}\n");
  EXPECT_NE(written(*writer, {7, {"好"}}, "{\"text\":\"好\",\"label\":1}").find("line 7"),
            std::string::npos);
}

TEST(RowWriter, RefusesNamesThatAreTaken) {
  const auto writer = make_row_writer(Format::kCsv, Format::kTsv, {"review", "label"}, kNames);
  ASSERT_FALSE(writer);
  EXPECT_NE(writer.error().message.find("\"label\" already"), std::string::npos);
  EXPECT_NE(writer.error().message.find("--prefix"), std::string::npos);
  EXPECT_FALSE(make_row_writer(Format::kCsv, Format::kText, {"review"}, kNames));
}

}  // namespace
}  // namespace munia::table
