#include "transport/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/wire/limits.h"

namespace lockstep::transport {
namespace {

using testing::HasSubstr;

TokenRecord named(std::uint64_t id, const std::string& name, bool revoked = false) {
  TokenRecord token;
  token.id = {id};
  token.name = name;
  token.revoked = revoked;
  return token;
}

TokenFile file_of(std::vector<TokenRecord> tokens) {
  TokenFile file;
  file.private_key = "PEM";
  file.key_digest.bytes.fill(7);
  file.tokens = std::move(tokens);
  return file;
}

std::string why(const std::optional<Error>& error) { return error ? error->text : ""; }

TEST(Tokens, RandomTokensDiffer) {
  const TokenRecord one = random_token();
  const TokenRecord other = random_token();
  EXPECT_NE(one.id, other.id);
  EXPECT_NE(one.secret, other.secret);
  EXPECT_NE(one.id, io::TokenId{});
}

TEST(Tokens, TheStateFollowsFromExpiryAndRevocation) {
  TokenRecord token = named(1, "");
  EXPECT_EQ(state_of(token, 1'000'000), TokenState::kValid);
  token.expires = 100;
  EXPECT_EQ(state_of(token, 99), TokenState::kValid);
  EXPECT_EQ(state_of(token, 100), TokenState::kExpired);
  token.single_use = true;
  token.used = true;
  EXPECT_EQ(state_of(token, 99), TokenState::kUsed);
  token.revoked = true;
  EXPECT_EQ(state_of(token, 99), TokenState::kRevoked);
  EXPECT_EQ(name_of(TokenState::kExpired), "expired");
}

TEST(Tokens, OnlyATokenForOneUseIsUsedUp) {
  TokenFile file = file_of({named(1, "once"), named(2, "often")});
  file.tokens[0].single_use = true;
  for (const std::uint64_t id : {1U, 2U, 3U}) use_token(file, io::TokenId{id});
  EXPECT_TRUE(file.tokens[0].used);
  EXPECT_FALSE(file.tokens[1].used);
  EXPECT_EQ(name_of(state_of(file.tokens[0], 0)), "used");
}

TEST(Tokens, AddRefusesDoubledIdsAndNames) {
  TokenFile file = file_of({named(1, "a"), named(2, "b", true)});
  EXPECT_EQ(why(add_token(file, named(1, "c"))), "there is a token 0000000000000001 already");
  EXPECT_THAT(why(add_token(file, named(3, "a"))), HasSubstr("token 0000000000000001 has the name 'a'"));
  EXPECT_THAT(why(add_token(file, named(3, "a\nb"))), HasSubstr("plain text"));
  EXPECT_THAT(why(add_token(file, named(3, std::string(kMaxNameBytes + 1, 'a')))), HasSubstr("at most 64"));
  EXPECT_EQ(file.tokens.size(), 2U);
  EXPECT_EQ(add_token(file, named(3, "b")).has_value(), false);  // the other one is revoked
  EXPECT_EQ(add_token(file, named(4, "")).has_value(), false);
  EXPECT_EQ(add_token(file, named(5, "")).has_value(), false);
  EXPECT_EQ(file.tokens.back(), named(5, ""));
}

TEST(Tokens, AddRefusesATokenAboveTheLimit) {
  TokenFile file = file_of({});
  for (std::uint64_t id = 1; id <= kMaxTokens; ++id) file.tokens.push_back(named(id, ""));
  EXPECT_THAT(why(add_token(file, named(kMaxTokens + 1, ""))), HasSubstr("the list has 10000 tokens"));
}

TEST(Tokens, ATokenIsFoundByIdNameOrTheFirstDigits) {
  const TokenFile file = file_of({named(0x1111222233334444, "a"), named(0x1111222255556666, "1111222233334444"),
                                  named(0x7777000000000000, "b", true), named(0x8888000000000000, "b"),
                                  named(0x9999000000000000, "c", true), named(0xaaaa000000000000, "")});
  EXPECT_EQ(*find_token(file, "1111222233334444"), io::TokenId{0x1111222233334444});  // an id before a name
  EXPECT_EQ(*find_token(file, "a"), io::TokenId{0x1111222233334444});
  EXPECT_EQ(*find_token(file, "11112222555"), io::TokenId{0x1111222255556666});
  EXPECT_EQ(*find_token(file, "b"), io::TokenId{0x8888000000000000});  // the one that is not revoked
  EXPECT_EQ(*find_token(file, "c"), io::TokenId{0x9999000000000000});
  EXPECT_EQ(*find_token(file, "7777"), io::TokenId{0x7777000000000000});
  EXPECT_EQ(*find_token(file, wire::text_of(run_token(file, file.tokens[3], {"h:1"}))), file.tokens[3].id);

  EXPECT_EQ(find_token(file, "1111").error().text,
            "'1111' names 2 tokens (1111222233334444, 1111222255556666): give the whole id");
  for (const char* nothing : {"", "777", "d", "88881", "AAAA", "lks1_abc"})
    EXPECT_FALSE(find_token(file, nothing).ok());
  EXPECT_THAT(find_token(file, "777").error().text, HasSubstr("there is no token '777'"));
}

TEST(Tokens, ARevokedTokenStaysRevoked) {
  TokenFile file = file_of({named(1, "a"), named(2, "b")});
  EXPECT_EQ(revoke_token(file, "a")->id, io::TokenId{1});
  EXPECT_TRUE(file.tokens[0].revoked);
  EXPECT_FALSE(file.tokens[1].revoked);
  EXPECT_TRUE(revoke_token(file, "a").ok());
  EXPECT_FALSE(revoke_token(file, "c").ok());
}

TEST(Tokens, PeersGetTheKeyTheSecretAndTheAddresses) {
  const TokenFile file = file_of({});
  TokenRecord token = random_token();
  token.role = io::Role::kObserver;
  token.expires = 1000;
  const auto given = wire::parse_run_token(wire::text_of(run_token(file, token, {"a:1", "[::1]:2"})));
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(given->coordinators, (std::vector<std::string>{"a:1", "[::1]:2"}));
  EXPECT_EQ(given->coordinator_key, file.key_digest);
  EXPECT_EQ(given->id, token.id);
  EXPECT_EQ(given->secret, token.secret);
  EXPECT_EQ(given->role, io::Role::kObserver);
  EXPECT_EQ(given->expires, 1000);
}

TEST(Tokens, AddressesAreValidated) {
  EXPECT_EQ(why(validate_token_addresses({"host:4000", "[::1]:4000"})), "");
  EXPECT_THAT(why(validate_token_addresses({})), HasSubstr("needs an address"));
  EXPECT_THAT(why(validate_token_addresses(std::vector<std::string>(9, "a:1"))), HasSubstr("at most 8 addresses"));
  EXPECT_THAT(why(validate_token_addresses({std::string(300, 'a') + ":1"})), HasSubstr("at most 255 bytes"));
  EXPECT_THAT(why(validate_token_addresses({"a:1", "b"})), HasSubstr("bad address 'b'"));
  EXPECT_THAT(why(validate_token_addresses({":4000"})), HasSubstr("give a host"));
  EXPECT_THAT(why(validate_token_addresses({"a\n:1"})), HasSubstr("plain text"));
  for (const char* every : {"0.0.0.0:4000", "[::]:4000", "0:4000", "0x0:4000", "0.0:4000"}) {
    EXPECT_THAT(why(validate_token_addresses({"a:1", every})), HasSubstr("give the address by which peers reach"))
        << every;
  }
}

TEST(Tokens, RolesHaveNames) {
  for (const auto role : {io::Role::kMember, io::Role::kObserver, io::Role::kAdmin})
    EXPECT_EQ(role_of(role_name(role)), role);
  EXPECT_EQ(role_of("root"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::transport
