#include "table/csv_writer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>
#include <vector>

#include "table/row_reader.h"

namespace munia::table {
namespace {

using Fields = std::vector<std::string>;

std::string written(const Fields& fields, char separator = ',') {
  std::string out;
  append_csv_row(out, fields, separator);
  return out;
}

TEST(CsvWriter, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(written({"a", "好 b", ""}), "a,好 b,\n");
  EXPECT_EQ(written({"a,b", "say \"x\"", "l1\nl2", "r\r"}),
            "\"a,b\",\"say \"\"x\"\"\",\"l1\nl2\",\"r\r\"\n");
  EXPECT_EQ(written({"a,b", "c\td"}, '\t'), "a,b\t\"c\td\"\n");
  EXPECT_EQ(written({""}), "\"\"\n");
  EXPECT_EQ(written({"", ""}), ",\n");
}

TEST(CsvWriter, WhatIsWrittenReadsBackEqual) {
  std::mt19937 random(7);
  const std::vector<std::string> pieces = {"a",    ",",  "\"", "\n", "\r",
                                           "\r\n", "\t", "好", " ",  "\xEF\xBB\xBF"};
  for (const auto& [format, separator] : {std::pair(Format::kCsv, ','), {Format::kTsv, '\t'}}) {
    for (int n_columns = 1; n_columns <= 3; ++n_columns) {
      std::vector<Fields> rows;
      std::ostringstream out;
      CsvWriter writer(out, separator);
      for (int i = 0; i < 500; ++i) {
        Fields& row = rows.emplace_back(n_columns);
        for (std::string& field : row) {
          for (auto n = random() % 4; n > 0; --n) field += pieces[random() % pieces.size()];
        }
        ASSERT_TRUE(writer.write(row).ok());
      }
      ASSERT_TRUE(writer.flush().ok());
      ReadOptions options;
      options.has_header = false;
      auto reader = open_rows(source_of_string(out.str(), "t"), format, options).value_or_throw();
      for (const Fields& expected : rows) {
        const auto row = reader->next();
        ASSERT_TRUE(row.ok()) << row.error().message;
        ASSERT_TRUE(row->has_value());
        ASSERT_EQ((*row)->fields, expected);
      }
      EXPECT_FALSE(reader->next()->has_value());
    }
  }
}

TEST(CsvWriter, ReportsAFullDisk) {
  std::ofstream out("/dev/full");
  if (!out) GTEST_SKIP() << "no /dev/full on this system";
  CsvWriter writer(out);
  Status status = writer.write(Fields{"a"});
  if (status) status = writer.flush();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace munia::table
