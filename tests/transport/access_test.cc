// Access to a coordinator: when TLS is on, what tokens say, and what changes with their file.
#include "transport/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/wire/limits.h"
#include "core/wire/run_token.h"
#include "tests/transport/loopback.h"
#include "tests/transport/temporary_folder.h"
#include "transport/address.h"
#include "transport/clock.h"
#include "transport/token_file.h"

namespace lockstep::transport {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const std::vector<io::Address> kLoopback = {loopback_v4(0)};

io::Address everywhere(std::uint16_t port) {
  io::Address address = loopback_v6(port);
  address.bytes = {};
  return address;
}

std::unique_ptr<Access> must_open(AccessOptions options, const std::vector<io::Address>& hosts) {
  auto access = Access::open(std::move(options), hosts);
  EXPECT_TRUE(access.ok()) << access.error().text;
  return std::move(*access);
}

TEST(Access, ALoopbackCoordinatorNeedsNoProofAndAnyOtherDoes) {
  EXPECT_FALSE(must_open({}, kLoopback)->is_secured());
  EXPECT_FALSE(must_open({}, {loopback_v4(0), loopback_v6(0)})->is_secured());
  EXPECT_TRUE(must_open({}, {})->is_secured()) << "every address";
  io::Address other = loopback_v4(0);
  other.bytes = {192, 0, 2, 1};
  EXPECT_TRUE(must_open({}, {loopback_v4(0), other})->is_secured());
  EXPECT_FALSE(must_open({{}, {}, true}, {})->is_secured()) << "insecure";
  EXPECT_TRUE(must_open({{}, {}, true}, {})->security().plain_anywhere);
  EXPECT_FALSE(must_open({}, kLoopback)->security().plain_anywhere);
}

TEST(Access, InsecureAndTokensExcludeEachOther) {
  const TemporaryFolder folder;
  EXPECT_THAT(Access::open({(folder / "tokens"), {}, true}, {}).error().text, HasSubstr("insecure"));
  EXPECT_THAT(Access::open({{}, {"here.example"}, true}, {}).error().text, HasSubstr("insecure"));
}

TEST(Access, TheTokenNamesTheKeyAndWhereTheCoordinatorListens) {
  const auto access = must_open({}, {});
  ASSERT_FALSE(access->listens_on(everywhere(4321)));
  const auto token = wire::parse_run_token(access->token());
  ASSERT_TRUE(token.ok()) << token.error().text;
  EXPECT_EQ(token->coordinator_key, access->security().credentials->digest());
  EXPECT_THAT(token->coordinators.front(), HasSubstr(":4321"));
  EXPECT_EQ(token->role, io::Role::kMember);
  ASSERT_NE(access->security().credentials->secret_of(token->id), nullptr);
  EXPECT_EQ(*access->security().credentials->secret_of(token->id), token->secret);
  ASSERT_THAT(access->grants().grants, SizeIs(1));
  EXPECT_EQ(access->grants().grants.front().id, token->id);
}

TEST(Access, AdvertisedHostsReplaceTheAddressesThatAreListenedOn) {
  const auto access = must_open({{}, {"a.example", "b.example:99", "[2001:db8::1]"}, false}, {});
  ASSERT_FALSE(access->listens_on(everywhere(4000)));
  EXPECT_THAT(wire::parse_run_token(access->token())->coordinators,
              ElementsAre("a.example:4000", "b.example:99", "[2001:db8::1]:4000"));
  const auto wrong = must_open({{}, {"a\nb"}, false}, {});
  EXPECT_TRUE(wrong->listens_on(everywhere(4000)).has_value());
}

TEST(Access, TheFileKeepsKeyAndTokensAndChangesAreTakenOver) {
  const TemporaryFolder folder;
  const std::string path = (folder / "tokens");
  auto access = must_open({path, {}, false}, kLoopback);
  EXPECT_TRUE(access->is_secured()) << "a token file means TLS, on loopback, too";
  ASSERT_FALSE(access->listens_on(loopback_v4(4000)));
  const std::string first = access->token();
  access.reset();
  const auto again = must_open({path, {}, false}, kLoopback);
  ASSERT_FALSE(again->listens_on(loopback_v4(4000)));
  EXPECT_EQ(again->token(), first);
  EXPECT_FALSE(*again->reload()) << "nothing has changed";

  ASSERT_FALSE(change_token_file(path, [](TokenFile& file) -> std::optional<Error> {
    TokenRecord guest = random_token();
    guest.name = "guest";
    guest.role = io::Role::kObserver;
    guest.max_peers = 3;
    guest.single_use = true;
    guest.expires = 1;
    (void)revoke_token(file, "first");
    return add_token(file, guest);
  }));
  EXPECT_TRUE(*again->reload());
  const auto grants = again->grants().grants;
  ASSERT_THAT(grants, SizeIs(1));
  EXPECT_EQ(grants.front().name, "guest");
  EXPECT_EQ(grants.front().role, io::Role::kObserver);
  EXPECT_EQ(grants.front().most_peers, 3U);
  EXPECT_TRUE(grants.front().single_use);
  EXPECT_LE(grants.front().expires, now());
  EXPECT_EQ(again->token(), "") << "no token for members is valid";
}

// A token for a partner is no string to print for everybody.
TEST(Access, TheTokenThatIsShownIsTheOldestThatAnyMemberMayUse) {
  const TemporaryFolder folder;
  const std::string path = (folder / "tokens");
  const auto shown = [&] {
    const auto access = must_open({path, {}, false}, kLoopback);
    EXPECT_FALSE(access->listens_on(loopback_v4(4000)));
    return access->token();
  };
  const std::string first = shown();
  ASSERT_FALSE(change_token_file(path, [](TokenFile& file) -> std::optional<Error> {
    for (const bool once : {true, false}) {
      TokenRecord partner = random_token();
      partner.name = once ? "once" : "two";
      partner.single_use = once;
      partner.max_peers = once ? 0 : 2;
      if (auto error = add_token(file, partner)) return error;
    }
    return std::nullopt;
  }));
  EXPECT_EQ(shown(), first);
  ASSERT_FALSE(change_token_file(path, [](TokenFile& file) -> std::optional<Error> {
    (void)revoke_token(file, "first");
    return std::nullopt;
  }));
  EXPECT_EQ(shown(), "");
}

TEST(Access, AUsedTokenStaysUsedAfterARestart) {
  const TemporaryFolder folder;
  const std::string path = folder / "tokens";
  auto access = must_open({path, {}, false}, kLoopback);
  TokenRecord once = random_token();
  once.single_use = true;
  std::optional<Error> locked;
  ASSERT_FALSE(change_token_file(path, [&](TokenFile& file) {
    locked = access->used(once.id);  // while another process holds the file
    return add_token(file, once);
  }));
  ASSERT_TRUE(locked);
  EXPECT_EQ(locked->status, Status::kTimedOut);
  EXPECT_FALSE(load_token_file(path)->tokens.back().used);
  EXPECT_FALSE(access->keep_used());
  EXPECT_TRUE(load_token_file(path)->tokens.back().used);
  EXPECT_TRUE(*access->reload());
  EXPECT_TRUE(access->grants().grants.back().used);
  access.reset();
  EXPECT_TRUE(must_open({path, {}, false}, kLoopback)->grants().grants.back().used);
}

TEST(Access, OneCoordinatorAtATimeUsesATokenFile) {
  const TemporaryFolder folder;
  const std::string path = folder / "tokens";
  const std::string link = folder / "link";
  auto first = must_open({path, {}, false}, kLoopback);
  ASSERT_FALSE(first->listens_on(loopback_v4(4000)));  // replaces the file
  ASSERT_EQ(::symlink(path.c_str(), link.c_str()), 0);
  for (const std::string& name : {path, link}) {
    EXPECT_THAT(Access::open({name, {}, false}, kLoopback).error().text,
                AllOf(HasSubstr(name), HasSubstr("another coordinator uses it")));
  }
  EXPECT_FALSE(change_token_file(path, [](TokenFile& file) { return add_token(file, random_token()); }))
      << "commands change the file of a running coordinator";
  const pid_t child = ::fork();  // keeps nothing of what its parent holds
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  first.reset();
  EXPECT_THAT(must_open({link, {}, false}, kLoopback)->grants().grants, SizeIs(2));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// It is read once, when no other coordinator can change it.
TEST(Access, ATokenFileIsReadUnderTheHold) {
  const TemporaryFolder folder;
  const std::string path = folder / "tokens";
  const auto first = must_open({path, {}, false}, kLoopback);
  std::ofstream(path) << "not JSON";
  EXPECT_THAT(Access::open({path, {}, false}, kLoopback).error().text, HasSubstr("another coordinator uses it"));
}

// Nobody can dial 0.0.0.0, unless the coordinator is on the same machine.
TEST(Access, ATokenOfACoordinatorThatListensEverywhereNamesAddressesOfTheMachine) {
  for (const io::Address::Family family : {io::Address::Family::kV4, io::Address::Family::kV6}) {
    io::Address bound = everywhere(4000);
    bound.family = family;
    const auto access = must_open({}, {bound});
    ASSERT_FALSE(access->listens_on(bound));
    const auto token = wire::parse_run_token(access->token());
    for (const std::string& address : token->coordinators) {
      EXPECT_FALSE(names_every_address(parse_host_port(address)->host)) << address;
    }
  }
  const auto wrong = must_open({{}, {"0.0.0.0"}, false}, {});
  EXPECT_THAT(wrong->listens_on(everywhere(4000))->text, HasSubstr("bad address '0.0.0.0:4000'"));
}

TEST(Access, AnUnreadableFileChangesNothing) {
  const TemporaryFolder folder;
  const std::string path = (folder / "tokens");
  const auto access = must_open({path, {}, false}, {});
  ASSERT_FALSE(access->listens_on(everywhere(4000)));
  std::ofstream(path) << "not JSON";
  const auto reloaded = access->reload();
  ASSERT_FALSE(reloaded.ok());
  EXPECT_THAT(access->grants().grants, SizeIs(1));
  EXPECT_FALSE(*access->reload()) << "it is told once";
}

TEST(Access, MoreTokensThanCoreTakesChangeNothing) {
  const TemporaryFolder folder;
  const std::string path = folder / "tokens";
  auto access = must_open({path, {}, false}, {});
  ASSERT_FALSE(access->listens_on(everywhere(4000)));
  ASSERT_FALSE(change_token_file(path, [](TokenFile& file) -> std::optional<Error> {
    for (std::size_t i = 0; i < kMaxGrants; ++i) {
      if (auto error = add_token(file, random_token())) return error;
    }
    return std::nullopt;
  }));
  EXPECT_THAT(access->reload().error().text, HasSubstr("at most 1024"));
  EXPECT_THAT(access->grants().grants, SizeIs(1));
  access.reset();
  EXPECT_THAT(Access::open({path, {}, false}, {}).error().text, HasSubstr("at most 1024"));
}

TEST(Access, AnotherKeyInTheFileIsNotTakenOver) {
  const TemporaryFolder folder;
  const auto access = must_open({(folder / "tokens"), {}, false}, {});
  const auto other = must_open({(folder / "other"), {}, false}, {});
  ASSERT_FALSE(access->listens_on(everywhere(4000)));
  ASSERT_EQ(std::rename((folder / "other").c_str(), (folder / "tokens").c_str()), 0);
  EXPECT_THAT(access->reload().error().text, HasSubstr("another key"));
}

}  // namespace
}  // namespace lockstep::transport
