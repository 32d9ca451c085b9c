// The forms in which a program names its coordinator.
#include "transport/destination.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "core/wire/run_token.h"
#include "tests/transport/temporary_folder.h"

namespace lockstep::transport {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

wire::RunToken some_token() {
  wire::RunToken token;
  token.coordinators = {"10.0.0.1:4000", "coordinator.example:4001"};
  token.id = {7};
  token.coordinator_key.bytes = {1, 2, 3};
  return token;
}

TEST(Destination, AnAddressIsPlainUnlessATokenNamesIt) {
  const auto plain = parse_coordinator("127.0.0.1:4000", {});
  ASSERT_TRUE(plain.ok()) << plain.error().text;
  EXPECT_EQ(plain->addresses, "127.0.0.1:4000");
  EXPECT_EQ(plain->security.credentials, nullptr);
  EXPECT_FALSE(plain->security.plain_anywhere);
  EXPECT_TRUE(parse_coordinator("127.0.0.1:4000", {.insecure = true, .certificates = {}})->security.plain_anywhere);

  const auto secured = parse_coordinator(wire::text_of(some_token()), {.insecure = true, .certificates = {}});
  ASSERT_TRUE(secured.ok()) << secured.error().text;
  EXPECT_EQ(secured->addresses, "10.0.0.1:4000,coordinator.example:4001");
  ASSERT_NE(secured->security.credentials, nullptr);
  EXPECT_EQ(secured->security.credentials->coordinator_key(), some_token().coordinator_key);
  EXPECT_EQ(secured->security.credentials->token().id, some_token().id);
  EXPECT_FALSE(secured->security.plain_anywhere) << "a token means TLS, whatever else is asked for";
}

TEST(Destination, AFileOrAVariableHoldsTheText) {
  const TemporaryFolder folder;
  const std::string path = (folder / "run.token");
  std::ofstream(path) << wire::text_of(some_token()) << "\nmore lines do not count\n";
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  const auto from_file = parse_coordinator("file:" + path, {});
  ASSERT_TRUE(from_file.ok()) << from_file.error().text;
  EXPECT_NE(from_file->security.credentials, nullptr);

  ::setenv("LOCKSTEP_TEST_DESTINATION", "127.0.0.1:4000", 1);
  EXPECT_EQ(parse_coordinator("env:LOCKSTEP_TEST_DESTINATION", {})->addresses, "127.0.0.1:4000");
  ::setenv("LOCKSTEP_TEST_DESTINATION", ("file:" + path).c_str(), 1);
  EXPECT_NE(parse_coordinator("env:LOCKSTEP_TEST_DESTINATION", {})->security.credentials, nullptr);
  ::setenv("LOCKSTEP_TEST_DESTINATION", "env:LOCKSTEP_TEST_DESTINATION", 1);
  EXPECT_THAT(parse_coordinator("env:LOCKSTEP_TEST_DESTINATION", {}).error().text, HasSubstr("another variable"));
  ::unsetenv("LOCKSTEP_TEST_DESTINATION");
  EXPECT_THAT(parse_coordinator("env:LOCKSTEP_TEST_DESTINATION", {}).error().text, HasSubstr("is not set"));

  std::ofstream(path) << "file:" << path << "\n";
  EXPECT_THAT(parse_coordinator("file:" + path, {}).error().text, HasSubstr("names another file"));
  EXPECT_THAT(parse_coordinator("file:" + (folder / "none"), {}).error().text, HasSubstr("cannot read"));
}

TEST(Destination, AFileWithATokenIsForItsOwnerOnly) {
  const TemporaryFolder folder;
  const std::string path = (folder / "run.token");
  ::setenv("LOCKSTEP_TEST_DESTINATION", ("file:" + path).c_str(), 1);
  std::ofstream(path) << wire::text_of(some_token()) << "\n";
  for (const ::mode_t mode : {0640U, 0604U, 0620U, 0602U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    for (const std::string& text : {"file:" + path, std::string("env:LOCKSTEP_TEST_DESTINATION")}) {
      const auto refused = parse_coordinator(text, {});
      ASSERT_FALSE(refused.ok()) << text;
      EXPECT_EQ(refused.error().status, Status::kInvalidArgument);
      EXPECT_THAT(refused.error().text, HasSubstr("chmod 600 " + path));
    }
  }
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  EXPECT_TRUE(parse_coordinator("file:" + path, {}).ok());
  ::unsetenv("LOCKSTEP_TEST_DESTINATION");
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  std::ofstream(path) << "127.0.0.1:4000\n";
  EXPECT_TRUE(parse_coordinator("file:" + path, {}).ok()) << "an address is no secret";
}

TEST(Destination, AMistypedTokenIsNamedAndNotRepeated) {
  std::string text = wire::text_of(some_token());
  text[20] = text[20] == 'a' ? 'b' : 'a';
  const auto refused = parse_coordinator(text, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().status, Status::kInvalidArgument);
  EXPECT_THAT(refused.error().text, Not(HasSubstr(text.substr(8, 20))));
}

TEST(Destination, APieceOfATokenIsNotRepeated) {
  const std::string piece = wire::text_of(some_token()).substr(3);
  const auto refused = parse_coordinator(piece, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text, Not(HasSubstr(piece.substr(0, 20))));
  EXPECT_THAT(refused.error().text, HasSubstr("begins with lks1_"));
}

// Whatever is wrong with a text that holds a token or a part of one: neither an error nor a name server gets it.
TEST(Destination, NoErrorRepeatsATokenWithinAnotherText) {
  const std::string token = wire::text_of(some_token());
  const std::string body = token.substr(wire::kRunTokenPrefix.size());
  for (const std::string& text : {"file:" + token, "env:" + token, "https://" + token + ":443", body + ":4000",
                                  "x." + body + ".example:4000", "10.0.0.1:4000," + body + ":1"}) {
    const auto parsed = parse_coordinator(text, {});
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(parsed.error().text, Not(HasSubstr(body.substr(40, 10)))) << text;
  }
}

TEST(Destination, AFileIsARegularOneWithAShortLine) {
  const TemporaryFolder folder;
  EXPECT_THAT(parse_coordinator("file:/dev/zero", {}).error().text, HasSubstr("no regular file"));
  EXPECT_THAT(parse_coordinator("file:" + (folder / "none"), {}).error().text, HasSubstr("No such file"));
  const std::string path = (folder / "long");
  std::ofstream(path) << std::string(100'000, 'a');
  EXPECT_THAT(parse_coordinator("file:" + path, {}).error().text, HasSubstr("its first line must be"));
}

TEST(Destination, EachAddressOfAListMustBeOne) {
  EXPECT_TRUE(parse_coordinator("127.0.0.1:4000,[::1]:4000", {}).ok());
  EXPECT_FALSE(parse_coordinator("127.0.0.1:4000,", {}).ok());
  EXPECT_FALSE(parse_coordinator("127.0.0.1:4000,elsewhere", {}).ok());
}

}  // namespace
}  // namespace lockstep::transport
