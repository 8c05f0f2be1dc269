// The readers of rows, through the interface that everyone uses.
#include "table/row_reader.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <fstream>

namespace munia::table {
namespace {

using Fields = std::vector<std::string>;

std::unique_ptr<RowReader> open(std::string text, Format format, ReadOptions options = {}) {
  return open_rows(source_of_string(std::move(text), "t"), format, std::move(options))
      .value_or_throw();
}

/// What a whole file gives: rows as "line:field|field", errors as "! message".
std::vector<std::string> read_all(RowReader& reader) {
  std::vector<std::string> out;
  for (;;) {
    const auto row = reader.next();
    if (!row) {
      out.push_back("! " + row.error().message);
      if (!reader.can_continue()) return out;
      continue;
    }
    if (!*row) return out;
    std::string text = std::to_string((*row)->line);
    for (std::size_t i = 0; i < (*row)->fields.size(); ++i) {
      text.append(i == 0 ? ":" : "|").append((*row)->fields[i]);
    }
    out.push_back(std::move(text));
  }
}

Fields read_all(std::string text, Format format, ReadOptions options = {}) {
  return read_all(*open(std::move(text), format, std::move(options)));
}

std::string open_error(std::string text, Format format, ReadOptions options = {}) {
  const auto reader = open_rows(source_of_string(std::move(text), "t"), format, std::move(options));
  return reader ? "(opened)" : reader.error().message;
}

TEST(Csv, ReadsPlainRows) {
  const auto reader = open("label,review\n正面,很好\n负面,\n,\n", Format::kCsv);
  EXPECT_EQ(reader->header(), (Fields{"label", "review"}));
  EXPECT_EQ(read_all(*reader), (Fields{"2:正面|很好", "3:负面|", "4:|"}));
  const auto after_end = reader->next();
  ASSERT_TRUE(after_end.ok());
  EXPECT_FALSE(after_end->has_value());
}

TEST(Csv, ReadsQuotedFields) {
  EXPECT_EQ(read_all("a,b\n\"x,y\",\"say \"\"hi\"\"\"\n\"\",\"\"\"\"\n", Format::kCsv),
            (Fields{"2:x,y|say \"hi\"", "3:|\""}));
  // Line ends inside quotes belong to the field, as they stand; the row has its first line.
  EXPECT_EQ(read_all("a,b\n1,\"x\ny\r\nz\rw\"\n2,3\n", Format::kCsv),
            (Fields{"2:1|x\ny\r\nz\rw", "6:2|3"}));
  // Spaces belong to fields, and then a quote is no opening one.
  EXPECT_EQ(read_all("a,b\n x , \"y\"\n", Format::kCsv), (Fields{"2: x | \"y\""}));
  EXPECT_EQ(read_all("a,b\n5\" disk,he said \"no\"\n", Format::kCsv),
            (Fields{"2:5\" disk|he said \"no\""}));
}

TEST(Csv, TakesEveryLineEnd) {
  const Fields expected = {"2:1|2", "3:3|4"};
  for (const char* end : {"\n", "\r\n", "\r"}) {
    const std::string e = end;
    for (const bool last : {true, false}) {
      std::string text = "a,b";
      text.append(e).append("1,2").append(e).append("3,4").append(last ? e : "");
      EXPECT_EQ(read_all(text, Format::kCsv), expected);
    }
  }
}

TEST(Csv, SkipsByteOrderMarkAndBlankLines) {
  const auto reader = open("\xEF\xBB\xBF\"a\",b\r\n\r\n1,2\r\n\n\n3,4\r\n\r\n", Format::kCsv);
  EXPECT_EQ(reader->header(), (Fields{"a", "b"}));
  EXPECT_EQ(read_all(*reader), (Fields{"3:1|2", "6:3|4"}));
  // A full-width exclamation mark shares its first byte with the mark.
  EXPECT_EQ(open("！,b\n", Format::kCsv)->header(), (Fields{"！", "b"}));
  // In a table of one column a quoted nothing is a row.
  EXPECT_EQ(read_all("a\n\"\"\n\nx\n", Format::kCsv), (Fields{"2:", "4:x"}));
}

TEST(Csv, TabSeparated) {
  EXPECT_EQ(read_all("a\tb\n1,5\t\"x\ty\"\n", Format::kTsv), (Fields{"2:1,5|x\ty"}));
}

TEST(Csv, EmptyFileAndHeaderOnly) {
  for (const char* text : {"", "\n", "\r\n\n", "\xEF\xBB\xBF"}) {
    EXPECT_EQ(open_error(text, Format::kCsv), "t is empty; its first row must name the columns");
  }
  for (const char* text : {"a,b", "a,b\n", "a,b\r\n\r\n"}) {
    const auto reader = open(text, Format::kCsv);
    EXPECT_EQ(reader->header(), (Fields{"a", "b"}));
    EXPECT_EQ(read_all(*reader), Fields{});
  }
  ReadOptions no_header;
  no_header.has_header = false;
  EXPECT_EQ(read_all("", Format::kCsv, no_header), Fields{});
  EXPECT_EQ(read_all("1,2\n3\n", Format::kCsv, no_header),
            (Fields{"1:1|2", "! t, line 2, column 2: 1 field, but the first row has 2"}));
}

TEST(Csv, RaggedRowsAreReportedAndTheRestIsRead) {
  EXPECT_EQ(read_all("a,b\n1\n2,3\n好,5,6\n7,8,\n9,10\n", Format::kCsv),
            (Fields{"! t, line 2, column 2: 1 field, but the header has 2", "3:2|3",
                    "! t, line 4, column 5: 3 fields, but the header has 2 (the first one too many "
                    "is here)",
                    "! t, line 5, column 5: 3 fields, but the header has 2 (the first one too many "
                    "is here)",
                    "6:9|10"}));
  // The place of a row of several lines is where it goes wrong.
  EXPECT_EQ(read_all("a,b\n\"x\ny\",2,3\n", Format::kCsv).front().substr(0, 22),
            "! t, line 3, column 6:");
}

TEST(Csv, RefusedRowsCanBeShown) {
  const auto reader = open("a,b\n1,2,3\n4,5\n", Format::kCsv);
  ASSERT_FALSE(reader->next().ok());
  EXPECT_EQ(reader->raw(), "1,2,3");
  ASSERT_TRUE(reader->next().ok());
  EXPECT_EQ(reader->raw(), "4,5");
}

TEST(Csv, WrongQuotesAreReported) {
  EXPECT_EQ(read_all("a,b\n\"x\"y,2\n3,4\n", Format::kCsv),
            (Fields{"! t, line 2, column 4: text after a closing quote (a quote inside a field "
                    "must be doubled, and the field quoted)",
                    "3:3|4"}));
  EXPECT_EQ(read_all("a,b\n1,2\n3,\"x\ny,4\n5,6\n", Format::kCsv),
            (Fields{"2:1|2", "! t, line 3, column 3: the quote that opens here is never closed"}));
  EXPECT_EQ(open_error("\"a,b\n1,2\n", Format::kCsv),
            "t, line 1, column 1: the quote that opens here is never closed");
}

TEST(Csv, BytesThatAreNoTextAreReported) {
  EXPECT_EQ(read_all(std::string("a,b\n1,x\0y\n3,4\n", 14), Format::kCsv),
            (Fields{"! t, line 2, column 4: a NUL byte; the file is damaged or not text in UTF-8",
                    "3:3|4"}));
  // 好 in GB18030.
  EXPECT_EQ(read_all("a,b\n好,\xBA\xC3\n3,4\n", Format::kCsv),
            (Fields{"! t, line 2, column 3: not UTF-8; convert the file to UTF-8 or name its "
                    "encoding",
                    "3:3|4"}));
  EXPECT_EQ(open_error(std::string("\xFF\xFE"
                                   "a\0",
                                   4),
                       Format::kCsv),
            "t is in UTF-16; save it as UTF-8");
}

TEST(Csv, AFieldOfTenMegabytes) {
  std::string text = "a,b\n1,\"";
  text.append(10'000'000, 'x').append("\"\n2,3\n");
  const auto reader = open(text, Format::kCsv);
  const auto row = reader->next();
  ASSERT_TRUE(row.ok()) << row.error().message;
  EXPECT_EQ((**row).fields[1], std::string(10'000'000, 'x'));
  EXPECT_EQ(read_all(*reader), (Fields{"3:2|3"}));
}

TEST(Csv, RowsAboveTheLimitAreReportedAndSkipped) {
  ReadOptions options;
  options.max_row_bytes = 100;
  std::string text = "a,b\n1,";
  text.append(98, 'x').append("\n2,").append(99, 'y').append("\n3,\"");
  text.append(500, '\n').append("\"\n4,5\n");
  const auto rows = read_all(text, Format::kCsv, options);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0], "2:1|" + std::string(98, 'x'));
  EXPECT_EQ(rows[1],
            "! t, line 3: the row has more than the 100 bytes allowed (is a closing quote "
            "missing?)");
  EXPECT_EQ(rows[2].substr(0, 12), "! t, line 4:");
  EXPECT_EQ(rows[3], "505:4|5");

  options = {};
  options.max_columns = 3;
  EXPECT_EQ(open_error("a,b,c,d\n", Format::kCsv, options),
            "t, line 1, column 8: the row has more columns than allowed");
}

/// Endless rows, made as they are read.
class LongSource : public ByteSource {
 public:
  explicit LongSource(std::uint64_t n_bytes) : left_(n_bytes) {}
  Result<std::size_t> read(std::span<char> buffer) override {
    const std::size_t n = std::min<std::uint64_t>(buffer.size(), left_);
    for (std::size_t i = 0; i < n; ++i) buffer[i] = (left_ - i) % 16 == 0 ? '\n' : 'x';
    left_ -= n;
    return n;
  }
  const std::string& name() const override { return name_; }
  std::uint64_t bytes_read() const override { return 0; }

 private:
  std::uint64_t left_;
  std::string name_ = "long";
};

TEST(Csv, MemoryDoesNotGrowWithTheFile) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps freed memory, so the peak says nothing";
#endif
  const auto peak_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  auto reader = open_rows(std::make_unique<LongSource>(32U << 20), Format::kCsv).value_or_throw();
  const long before = peak_kib();
  std::size_t n_rows = 0;
  for (auto row = reader->next(); row.ok() && *row; row = reader->next()) ++n_rows;
  EXPECT_EQ(n_rows, (32U << 20) / 16 - 1);
  EXPECT_LT(peak_kib() - before, 16 * 1024);
}

/// Gives its bytes one at a time, then fails.
class FailingSource : public ByteSource {
 public:
  Result<std::size_t> read(std::span<char> buffer) override {
    if (pos_ == kText.size()) return Error{ErrorCode::kIo, "cannot read f: it broke"};
    buffer[0] = kText[pos_++];
    return std::size_t{1};
  }
  const std::string& name() const override { return name_; }
  std::uint64_t bytes_read() const override { return 0; }

 private:
  static constexpr std::string_view kText = "\xEF\xBB\xBF\"a\"\n1\n2";
  std::size_t pos_ = 0;
  std::string name_ = "f";
};

TEST(Rows, AFailedReadEndsAll) {
  for (const Format format : {Format::kCsv, Format::kText, Format::kJsonLines}) {
    ReadOptions options;
    options.json_fields = {"a"};
    auto reader = open_rows(std::make_unique<FailingSource>(), format, options).value_or_throw();
    if (format == Format::kCsv) {
      // The byte order mark is seen though it comes byte by byte.
      EXPECT_EQ(reader->header(), Fields{"a"});
    }
    Fields rows = read_all(*reader);
    ASSERT_FALSE(rows.empty());
    // The half-read last row is not handed out.
    EXPECT_EQ(rows.back(), "! cannot read f: it broke");
    EXPECT_EQ(reader->next().error().code, ErrorCode::kIo);
    EXPECT_FALSE(reader->can_continue());
    for (const std::string& row : rows) EXPECT_EQ(row.find(":2"), std::string::npos) << row;
  }
}

TEST(Text, EveryLineIsARow) {
  const auto reader = open("\xEF\xBB\xBF好, \"x\"\r\n\n  b\t\nlast", Format::kText);
  EXPECT_EQ(reader->header(), Fields{"text"});
  EXPECT_EQ(read_all(*reader), (Fields{"1:好, \"x\"", "2:", "3:  b\t", "4:last"}));
  EXPECT_EQ(read_all("", Format::kText), Fields{});
  EXPECT_EQ(read_all("a\rb\r", Format::kText), (Fields{"1:a", "2:b"}));
  EXPECT_EQ(read_all("a\nb\xFF\nc\n", Format::kText),
            (Fields{"1:a",
                    "! t, line 2, column 2: not UTF-8; convert the file to UTF-8 or name its "
                    "encoding",
                    "3:c"}));
  ReadOptions options;
  options.max_row_bytes = 3;
  EXPECT_EQ(read_all("abc\r\nabcd\nx", Format::kText, options).size(), 3U);
  EXPECT_EQ(read_all("abc\r\nabcd\nx", Format::kText, options)[0], "1:abc");
}

TEST(JsonLines, TakesTheNamedFields) {
  ReadOptions options;
  options.json_fields = {"text", "label"};
  const auto reader = open(R"({"label":"正","text":"a\"\u597d\n","more":[1]}

 {"text":1,"label":true} 
{"text":-2.5,"label":18446744073709551615}
)",
                           Format::kJsonLines, options);
  EXPECT_EQ(reader->header(), options.json_fields);
  EXPECT_EQ(read_all(*reader), (Fields{"1:a\"好\n|正", "3:1|true", "4:-2.5|18446744073709551615"}));
}

TEST(JsonLines, WrongLinesAreReportedAndTheRestIsRead) {
  ReadOptions options;
  options.json_fields = {"text"};
  const auto rows = read_all(R"({"text":"a"}
{"text":"a"
{"text":"a"}}
[1]
{"Text":"a"}
{"text":null}
{"text":{"a":1}}
{"text":1e999}
{"text":"a\u0000"}
{"text":"\ud800"}
{"text":"ok"}
)",
                             Format::kJsonLines, options);
  ASSERT_EQ(rows.size(), 11U);
  EXPECT_EQ(rows[0], "1:a");
  EXPECT_EQ(rows[1].substr(0, 36), "! t, line 2, column 12: not valid JS");
  EXPECT_EQ(rows[2].substr(0, 36), "! t, line 3, column 13: not valid JS");
  EXPECT_EQ(rows[3], "! t, line 4: not a JSON object");
  EXPECT_EQ(rows[4], "! t, line 5: the object has no field \"text\"");
  const std::string wrong_kind = ": field \"text\" is not a string, number or truth value";
  EXPECT_EQ(rows[5], "! t, line 6" + wrong_kind);
  EXPECT_EQ(rows[6], "! t, line 7" + wrong_kind);
  EXPECT_EQ(rows[7], "! t, line 8" + wrong_kind);
  EXPECT_EQ(rows[8], "! t, line 9: field \"text\" has a NUL character (\\u0000)");
  EXPECT_EQ(rows[9].substr(0, 13), "! t, line 10,");
  EXPECT_EQ(rows[10], "11:ok");
  std::string deep = R"({"text":)";
  deep.append(100'000, '[');
  EXPECT_EQ(read_all(deep, Format::kJsonLines, options).size(), 1U);
  EXPECT_EQ(open_error("{}", Format::kJsonLines), "JSON Lines need the name of a field to read");
}

TEST(Rows, ColumnsAreFoundByName) {
  const Fields header = {"a", "b", "a"};
  EXPECT_EQ(*find_column(header, "b"), 1U);
  EXPECT_EQ(find_column(header, "x").error().message,
            "there is no column \"x\"; the columns are \"a\", \"b\", \"a\"");
  EXPECT_EQ(find_column(header, "x").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(find_column(header, "a").error().message,
            "column \"a\" stands more than once in the header; rename one of them");
  EXPECT_EQ(find_column({"\x1b[31m"}, "x").error().message.find('\x1b'), std::string::npos);
}

TEST(Rows, FormatsAreToldByTheName) {
  EXPECT_EQ(*format_of_path("a.b/c.CSV"), Format::kCsv);
  EXPECT_EQ(*format_of_path("c.tsv"), Format::kTsv);
  EXPECT_EQ(*format_of_path("c.jsonl"), Format::kJsonLines);
  EXPECT_EQ(*format_of_path("c.txt"), Format::kText);
  for (const char* path : {"c", "c.json", "dir.csv/c", "", "."}) {
    EXPECT_FALSE(format_of_path(path).ok()) << path;
  }
}

TEST(Rows, OpensFiles) {
  const std::string path = ::testing::TempDir() + "/munia_row_reader_test.csv";
  std::ofstream(path, std::ios::binary) << "a\n1\n";
  auto source = open_source(path);
  ASSERT_TRUE(source.ok()) << source.error().message;
  auto reader = open_rows(*std::move(source), Format::kCsv);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(read_all(**reader), Fields{"2:1"});
  ASSERT_EQ(std::remove(path.c_str()), 0);
  EXPECT_EQ(open_source(path).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(open_source(::testing::TempDir()).error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace munia::table
