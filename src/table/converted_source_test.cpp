// gzip and GB18030 sources: what they give is what was packed, however few bytes come at a time;
// what is damaged says so.
#include "table/converted_source.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "table/slow_source.h"

namespace munia::table {
namespace {

constexpr const char* kName = "reviews.csv.gz";

std::string gzip(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(text.size() + 1000, '\0');
  std::string input = text;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// All that a source gives, read with a buffer of `step` bytes.
Result<std::string> read_all(ByteSource& source, std::size_t step = 1000) {
  std::string all;
  std::string buffer(step, '\0');
  for (;;) {
    const auto n = source.read(buffer);
    if (!n) return n.error();
    if (*n == 0) return all;
    all.append(buffer, 0, *n);
  }
}

std::string long_text() {
  std::string text;
  for (int i = 0; i < 30000; ++i) text += "row " + std::to_string(i * 7919) + ",好\n";
  return text;
}

TEST(Gzip, GivesWhatWasPacked) {
  for (const std::string& text : {std::string(), std::string("a"), long_text()}) {
    const std::string packed = gzip(text);
    for (const std::size_t step : {std::size_t{1}, std::size_t{7}, packed.size()}) {
      const auto source = unpack_gzip(std::make_unique<SlowSource>(packed, step, kName));
      const auto all = read_all(*source, step == 1 ? 3 : 100000);
      ASSERT_TRUE(all) << all.error().message;
      EXPECT_TRUE(*all == text) << text.size() << " bytes, " << step << " at a time";
      EXPECT_EQ(source->bytes_read(), packed.size());
    }
  }
}

TEST(Gzip, MembersFollowEachOther) {
  const auto source =
      unpack_gzip(source_of_string(gzip("one,") + gzip("") + gzip("two"), "reviews.csv.gz"));
  EXPECT_EQ(read_all(*source).value_or_throw(), "one,two");
}

TEST(Gzip, DamageIsAnError) {
  const std::string text = long_text();
  const std::string packed = gzip(text);
  const auto error_of = [](std::string bytes) {
    const auto source = unpack_gzip(source_of_string(std::move(bytes), "reviews.csv.gz"));
    const auto all = read_all(*source);
    return all ? "no error" : all.error().message;
  };
  for (const std::size_t size : {std::size_t{5}, packed.size() / 2, packed.size() - 1}) {
    EXPECT_NE(error_of(packed.substr(0, size)).find("reviews.csv.gz is cut off"), std::string::npos)
        << size;
  }
  std::string changed = packed;
  changed[packed.size() / 2] = static_cast<char>(changed[packed.size() / 2] ^ 0x55);
  EXPECT_NE(error_of(changed), "no error");
  changed = packed;
  changed[packed.size() - 6] ^= 1;  // the checksum
  EXPECT_NE(error_of(changed).find("damaged"), std::string::npos);
  EXPECT_NE(error_of("review,label\n").find("not gzip"), std::string::npos);
  EXPECT_NE(error_of(packed + "rest").find("not gzip"), std::string::npos);
}

TEST(Gzip, KnownByItsName) {
  EXPECT_TRUE(is_gzip_path("a.csv.gz"));
  EXPECT_TRUE(is_gzip_path("A.CSV.GZ"));
  for (const char* path : {"a.csv", "gz", "agz", ".g"}) EXPECT_FALSE(is_gzip_path(path)) << path;
}

TEST(Gb18030, BecomesUtf8HoweverItIsCut) {
  // 好 in two bytes, U+1F600 in four, ASCII between them.
  const std::string bytes =
      "a\xBA\xC3"
      "b\x94\x39\xFC\x36\xBA\xC3\n";
  const std::string wanted = "a好b😀好\n";
  for (const std::size_t step : {1, 2, 3, 5, 100}) {
    for (const std::size_t out : {4, 5, 1000}) {
      auto source =
          convert_gb18030(std::make_unique<SlowSource>(bytes, step, kName)).value_or_throw();
      EXPECT_EQ(read_all(*source, out).value_or_throw(), wanted) << step << " " << out;
    }
  }
  std::string many;
  std::string many_wanted;
  for (int i = 0; i < 20000; ++i) {
    many += bytes;
    many_wanted += wanted;
  }
  auto source = convert_gb18030(source_of_string(many, "x")).value_or_throw();
  EXPECT_TRUE(read_all(*source, 1 << 16).value_or_throw() == many_wanted);
}

TEST(Gb18030, AWrongByteSpoilsItsRowOnly) {
  for (const std::size_t step : {1, 2, 100}) {
    auto source = convert_gb18030(std::make_unique<SlowSource>(
                                      "a\xBA\xC3\n\xFF\xFFx\n\xBA\xC3\n\xBA", step, kName))
                      .value_or_throw();
    EXPECT_EQ(read_all(*source, 6).value_or_throw(), "a好\n\xFF\xFFx\n好\n\xFF") << step;
  }
}

}  // namespace
}  // namespace munia::table
