#include "core/wire/run_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "core/wire/limits.h"
#include "fuzz/base32.h"

namespace lockstep::wire {
namespace {

using testing::HasSubstr;

RunToken sample() {
  RunToken token;
  token.coordinators = {"coordinator.example:4000", "[2001:db8::1]:4000"};
  for (std::size_t i = 0; i < 32; ++i) token.coordinator_key.bytes[i] = static_cast<std::uint8_t>(7 * i + 1);
  token.id = {0x0123456789abcdef};
  token.role = io::Role::kObserver;
  for (std::size_t i = 0; i < 16; ++i) token.secret[i] = static_cast<std::uint8_t>(251 - i);
  token.expires = 1'798'675'200;
  return token;
}

RunToken arbitrary_token() {
  RunToken token;
  const auto addresses = *rc::gen::inRange<std::size_t>(1, kMaxTokenAddresses + 1);
  for (std::size_t i = 0; i < addresses; ++i) {
    const auto length = *rc::gen::inRange<std::size_t>(1, kMaxTokenAddressBytes + 1);
    token.coordinators.push_back(
        *rc::gen::container<std::string>(length, rc::gen::inRange('!', static_cast<char>('~' + 1))));
  }
  for (auto& byte : token.coordinator_key.bytes) byte = *rc::gen::arbitrary<std::uint8_t>();
  for (auto& byte : token.secret) byte = *rc::gen::arbitrary<std::uint8_t>();
  token.id = {*rc::gen::nonZero<std::uint64_t>()};
  token.role = *rc::gen::element(io::Role::kMember, io::Role::kObserver, io::Role::kAdmin);
  token.expires = *rc::gen::nonNegative<std::int64_t>();
  return token;
}

// The body of the sample with one byte changed, and the right checksum.
std::string sample_with(std::size_t place, std::uint8_t value) {
  auto body = fuzz::token_body(text_of(sample()));
  body[place] = std::byte{value};
  return fuzz::token_text(body);
}

// The error of a text that is refused.
std::string error_of(const std::string& text) {
  const auto token = parse_run_token(text);
  if (token) return "it is a token";
  EXPECT_EQ(token.error().status, Status::kInvalidArgument);
  return token.error().text;
}

// Law: parsing undoes text_of, with white space around the text or without.
RC_GTEST_PROP(RunToken, ATokenSurvivesItsText, ()) {
  const RunToken token = arbitrary_token();
  const std::string text = text_of(token);
  RC_ASSERT(text.starts_with(kRunTokenPrefix));
  RC_ASSERT(text.size() <= kMaxRunTokenBytes);
  RC_ASSERT(is_run_token(text));
  const std::string before = *rc::gen::element<std::string>("", " ", "\n");
  const std::string after = *rc::gen::element<std::string>("", "\n", "\r\n", "\t ");
  const auto parsed = parse_run_token(before + text + after);
  RC_ASSERT(parsed.ok());
  RC_ASSERT(*parsed == token);
}

// Law: a text with a bit of a token's secret left in it does not come out of redacted().
RC_GTEST_PROP(RunToken, RedactedTextHasNoSecret, ()) {
  const RunToken token = arbitrary_token();
  const std::string text = text_of(token);
  const std::vector<std::string> choices = {
      text, text.substr(0, text.size() / 2), " ", ",", "\"", "no run at ", "lks1_", "lks1", ": "};
  const auto words = *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(choices));
  std::string whole;
  for (const std::string& word : words) whole += word;
  const std::string safe = redacted(whole);
  RC_ASSERT(safe.find(text.substr(0, kRunTokenPrefix.size() + 1)) == std::string::npos);
  RC_ASSERT(safe.find(text.substr(text.size() / 2 - 16, 16)) == std::string::npos);
  RC_ASSERT(redacted(safe) == safe);
}

TEST(RunToken, TheTextIsAsDocumented) {
  RunToken token;
  token.coordinators = {"a:1"};
  token.id = {1};
  const auto body = fuzz::token_body(text_of(token));
  ASSERT_EQ(body.size(), 1U + 1 + 8 + 16 + 32 + 8 + 1 + 1 + 3);
  EXPECT_EQ(body[0], std::byte{1});
  EXPECT_EQ(body[2], std::byte{1});
  EXPECT_EQ(body[66], std::byte{1});
  EXPECT_EQ(body[67], std::byte{3});
  EXPECT_EQ(body[68], std::byte{'a'});
  EXPECT_EQ(fuzz::token_text(body), text_of(token));
}

TEST(RunToken, EachChangedCharacterIsRefused) {
  const std::string text = text_of(sample());
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char c : std::string("abcdefghijklmnopqrstuvwxyz234567_018A- \n") + '\0' + '\x80') {
      std::string changed = text;
      changed[i] = c;
      EXPECT_EQ(parse_run_token(changed).ok(), c == text[i]) << "character " << i << " is now " << c;
    }
  }
}

TEST(RunToken, EachTruncationAndExtensionIsRefused) {
  const std::string text = text_of(sample());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(parse_run_token(text.substr(0, length)).ok()) << length;
    EXPECT_FALSE(parse_run_token(text.substr(text.size() - length)).ok()) << length;
  }
  for (const char c : fuzz::kBase32Digits) EXPECT_FALSE(parse_run_token(text + c).ok());
  EXPECT_FALSE(parse_run_token(text + text).ok());
}

TEST(RunToken, TheErrorSaysWhatIsWrong) {
  const std::string text = text_of(sample());
  EXPECT_EQ(error_of("coordinator.example:4000"), "a run token begins with lks1_");
  EXPECT_EQ(error_of(""), "a run token begins with lks1_");
  EXPECT_EQ(error_of("lks1_ab1c"), "the run token is mistyped: character 8 is not one of a to z and 2 to 7");
  EXPECT_EQ(error_of("LKS1_abc"), "a run token has no capital letters");
  EXPECT_THAT(error_of(text.substr(0, 20) + " " + text.substr(20)),
              HasSubstr("character 21 of the run token is white"));
  EXPECT_THAT(error_of(text.substr(0, text.size() - 8)), HasSubstr("mistyped or cut: its checksum is wrong"));
  EXPECT_THAT(error_of("lks1_abc"), HasSubstr("is cut: it has only 8 characters"));
  EXPECT_THAT(error_of("lks1_" + std::string(5000, 'a')), HasSubstr("at most 4096 characters, and this text has 5005"));
}

TEST(RunToken, ATokenOfALaterVersionIsNamedAsSuch) {
  EXPECT_THAT(error_of("lks2_abc!"), HasSubstr("made by a newer release"));
  EXPECT_THAT(error_of(sample_with(0, 2)), HasSubstr("made by a newer release"));
}

TEST(RunToken, AMalformedBodyIsRefused) {
  EXPECT_THAT(error_of(sample_with(1, 3)), HasSubstr("its role is unknown"));
  EXPECT_THAT(error_of(sample_with(65, 0x80)), HasSubstr("its expiry is before 1970"));
  EXPECT_THAT(error_of(sample_with(66, 0)), HasSubstr("bytes after its end"));
  EXPECT_THAT(error_of(sample_with(66, 9)), HasSubstr("ends too early"));
  EXPECT_THAT(error_of(sample_with(68, '\n')), HasSubstr("no plain text"));

  auto body = fuzz::token_body(text_of(sample()));
  std::fill_n(body.begin() + 2, 8, std::byte{0});
  EXPECT_THAT(error_of(fuzz::token_text(body)), HasSubstr("its id is 0"));
  body = fuzz::token_body(text_of(sample()));
  body.resize(67);
  body[66] = std::byte{0};
  EXPECT_THAT(error_of(fuzz::token_text(body)), HasSubstr("it has no address"));
  body[66] = std::byte{1};
  body.push_back(std::byte{0});
  EXPECT_THAT(error_of(fuzz::token_text(body)), HasSubstr("an address is empty"));
  body[66] = std::byte{9};
  for (int i = 0; i < 9; ++i) body.insert(body.begin() + 67, {std::byte{1}, std::byte{'a'}});
  body.pop_back();
  EXPECT_THAT(error_of(fuzz::token_text(body)), HasSubstr("too many addresses"));
}

TEST(RunToken, AnAddressIsNoToken) {
  for (const char* address : {"", "lks", "lks1", "lks_1:4000", "lks1:4000", "127.0.0.1:4000", "xlks1_", "lk1_"}) {
    EXPECT_FALSE(is_run_token(address)) << address;
  }
  EXPECT_TRUE(is_run_token(" lks1_abc\n"));
  EXPECT_TRUE(is_run_token("LKS1_ABC"));  // a mistyped token: the error must not quote it like an address
  EXPECT_TRUE(is_run_token("lks12_"));
}

TEST(RunToken, RedactedKeepsTheTextAround) {
  EXPECT_EQ(redacted("--coordinator lks1_abc2 --name b"), "--coordinator lks1_... --name b");
  EXPECT_EQ(redacted("'lks1_abc0DEF','LKS2_x'"), "'lks1_...','LKS2_...'");
  EXPECT_EQ(redacted("a run token begins with lks1_"), "a run token begins with lks1_");
  EXPECT_EQ(redacted("lks1_..."), "lks1_...");
  EXPECT_EQ(redacted("lks1_abc is no token"), "lks1_... is no token");
  EXPECT_EQ(redacted(""), "");
}

TEST(RunToken, NoPartOfATokenThatIsBrokenInTwoIsShown) {
  const std::string text = text_of(sample());
  for (const std::string between : {"\n", " ", "\r\n  ", "\\n", "\\r\\n"}) {
    const std::size_t at = text.size() / 2;
    EXPECT_EQ(redacted("'" + text.substr(0, at) + between + text.substr(at) + "', b"), "'lks1_...', b") << between;
    std::string lines = text.substr(0, 30);
    for (std::size_t i = 30; i < text.size(); i += 20) lines += between + text.substr(i, 20);
    EXPECT_EQ(redacted(lines).find(text.substr(30, 16)), std::string::npos) << between;
  }
}

TEST(RunToken, TheNameHasSixteenDigits) {
  EXPECT_EQ(name_of({0x0123456789abcdef}), "0123456789abcdef");
  EXPECT_EQ(name_of({1}), "0000000000000001");
}

}  // namespace
}  // namespace lockstep::wire
