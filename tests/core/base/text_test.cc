#include "core/base/text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Text, PlainTextStaysAsItIs) {
  for (const char* text : {"", "a peer", "Grüße", "日本語", "🙂", "\xc2\xa0", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_plain(text)) << text;
    EXPECT_EQ(plain(text), text);
  }
}

TEST(Text, ReplacesBytesThatBreakALineATerminalOrADocument) {
  const std::pair<std::string, const char*> cases[] = {
      {"two\nlines", "two?lines"},
      {"\x1b[2J", "?[2J"},
      {"\x7f", "?"},
      {std::string(1, '\0'), "?"},
      {"\xc2\x9b", "??"},  // U+009B starts a terminal's sequence, too
      {"\xff", "?"},
      {"\xc3", "?"},       // ends inside a character
      {"\xc0\xaf", "??"},  // longer than it must be
      {"\xe0\x9f\xbf", "???"},
      {"\xf0\x8f\xbf\xbf", "????"},
      {"\xed\xa0\x80", "???"},       // half of a UTF-16 pair
      {"\xf4\x90\x80\x80", "????"},  // beyond U+10FFFF
      {"\xe6\x97\x41", "??A"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_FALSE(is_plain(text)) << expected;
    EXPECT_EQ(plain(text), expected);
    EXPECT_TRUE(is_plain(plain(text)));
  }
}

TEST(Text, IsCutBetweenCharacters) {
  EXPECT_EQ(cut("a peer", 6), "a peer");
  EXPECT_EQ(cut("a peer", 3), "a p");
  EXPECT_EQ(cut("Grüße", 5), "Grü");
  EXPECT_EQ(cut("日本語", 5), "日");
  EXPECT_EQ(cut("日本語", 2), "");
}

}  // namespace
}  // namespace lockstep
