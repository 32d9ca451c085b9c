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

// Names with them read as other names, or turn the text around them (Unicode Technical Report 36).
TEST(Text, InvisibleCharactersAreNotPlain) {
  const char* const invisible[] = {
      "\u00ad", "\u034f",     "\u061c",     "\u115f",     "\u1160",     "\u17b4",    "\u17b5", "\u180b", "\u180f",
      "\u200b", "\u200d",     "\u200e",     "\u200f",     "\u2028",     "\u2029",    "\u202a", "\u202e", "\u2060",
      "\u2066", "\u2069",     "\u206f",     "\u3164",     "\ufe00",     "\ufe0f",    "\ufeff", "\uffa0", "\ufff0",
      "\ufffb", "\U0001bca0", "\U0001d17a", "\U000e0001", "\U000e0041", "\U000e0fff"};
  for (const std::string character : invisible) {
    EXPECT_FALSE(is_plain("gpu" + character + "-7")) << character;
    EXPECT_EQ(plain("gpu" + character + "-7"), "gpu" + std::string(character.size(), '?') + "-7");
  }
}

TEST(Text, TheNeighboursOfInvisibleCharactersArePlain) {
  for (const char* text :
       {"\u00ac", "\u00ae", "\u034e", "\u061b",     "\u061d",     "\u1161",     "\u200a",    "\u2010", "\u2027",
        "\u202f", "\u205f", "\u2070", "\u3163",     "\u3165",     "\ufdff",     "\ufe10",    "\ufefe", "\uff9f",
        "\uffa1", "\uffef", "\ufffc", "\U0001bc9f", "\U0001bca4", "\U000dffff", "\U000e1000"}) {
    EXPECT_TRUE(is_plain(text)) << text;
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
