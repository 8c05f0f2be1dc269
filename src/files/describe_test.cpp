#include "files/describe.h"

#include <gtest/gtest.h>

namespace munia::files {
namespace {

TEST(Quoted, EscapesWhatCouldSteerATerminal) {
  EXPECT_EQ(in_quotes("token_embd.weight"), "\"token_embd.weight\"");
  EXPECT_EQ(in_quotes("快乐"), "\"快乐\"");
  EXPECT_EQ(in_quotes("a\"b\\c\n\x1b[31m\x7f"), R"("a\x22b\x5cc\x0a\x1b[31m\x7f")");
  EXPECT_EQ(in_quotes("\xC2\x9B"), R"("\xc2\x9b")");            // a control code of two bytes
  EXPECT_EQ(in_quotes("\xE2\x80\xAE"), R"("\xe2\x80\xae")");    // right-to-left override
  EXPECT_EQ(in_quotes("a\xFF\xE5\xBF"), R"("a\xff\xe5\xbf")");  // not UTF-8
  EXPECT_EQ(in_quotes(""), "\"\"");
}

TEST(Quoted, CutsLongNamesAtACharacter) {
  EXPECT_EQ(in_quotes(std::string(80, 'x')), "\"" + std::string(80, 'x') + "\"");
  EXPECT_EQ(in_quotes(std::string(81, 'x')), "\"" + std::string(80, 'x') + "...\"");
  EXPECT_EQ(in_quotes(std::string(79, 'x') + "快乐"), "\"" + std::string(79, 'x') + "快...\"");
}

}  // namespace
}  // namespace munia::files
