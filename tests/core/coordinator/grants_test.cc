// Admission to a secured run, and the end of a peer whose token is revoked. The test plays all peers.
#include "core/coordinator/grants.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fuzz/hosts.h"

namespace lockstep::coordinator {
namespace {

using fuzz::address_of;
using fuzz::FarEnd;

constexpr io::TokenId kTeam{0x0123456789abcdef};
constexpr io::TokenId kOther{0xfedcba9876543210};

io::KeyDigest key_of(std::uint8_t n) {
  io::KeyDigest key;
  key.bytes.fill(n);
  return key;
}
io::Identity identity(std::uint8_t n, io::TokenId token = kTeam, bool proved = true) {
  return {key_of(n), token, proved};
}
Grant team() { return {.id = kTeam, .name = "team"}; }

std::string refusal(const std::optional<Error>& error) { return error ? error->text : ""; }

// ---- the table ----

TEST(Grants, AnOpenRunAsksForNothing) {
  const Grants open(false, {});
  EXPECT_FALSE(open.validate_join({}, Instant{}));
  EXPECT_FALSE(open.validate_status_request({}, Instant{}));
}

TEST(Grants, ARefusalSaysWhatToDo) {
  Grant watcher{.id = kOther, .role = io::Role::kObserver, .name = "dashboard"};
  Grant soon = team();
  soon.expires = Instant{} + seconds(10);
  const Grants grants(true, {soon, watcher});
  const auto join = [&](const io::Identity& who, Instant now = {}) { return refusal(grants.validate_join(who, now)); };
  EXPECT_EQ(join(identity(1)), "");
  EXPECT_NE(join({}).find("connect with the string that `lockstep coordinator` printed"), std::string::npos);
  EXPECT_NE(join({key_of(1), {}, false}).find("only peers with a run token"), std::string::npos);
  EXPECT_NE(join({{}, kTeam, true}).find("only peers with a run token"), std::string::npos);
  EXPECT_EQ(join(identity(1, kTeam, false)),
            "token 0123456789abcdef is not one of this run: it was revoked, or is of another run");
  EXPECT_NE(join(identity(1, io::TokenId{5})).find("token 0000000000000005 is not one of this run"), std::string::npos);
  EXPECT_NE(join(identity(1), Instant{} + seconds(10)).find("token 0123456789abcdef (team) has expired"),
            std::string::npos);
  EXPECT_NE(join(identity(1, kOther)).find("(dashboard) is for observers"), std::string::npos);
  EXPECT_FALSE(grants.validate_status_request(identity(1, kOther), Instant{}));
  EXPECT_TRUE(grants.validate_status_request(identity(1, kOther, false), Instant{}));
}

// A token that nobody knows and a token without proof get the same answer: it tells nobody which tokens exist.
TEST(Grants, AnUnprovedTokenReadsLikeAnUnknownOne) {
  const Grants grants(true, {team()});
  const std::string unproved = refusal(grants.validate_join(identity(1, kTeam, false), Instant{}));
  const std::string unknown = refusal(grants.validate_join(identity(1, kOther, true), Instant{}));
  EXPECT_EQ(unproved.substr(22), unknown.substr(22));
}

TEST(Grants, ALimitCountsThePeersThatAreInTheRun) {
  Grant two = team();
  two.most_peers = 2;
  Grants grants(true, {two});
  (void)grants.joined({1, 1}, identity(1));
  EXPECT_FALSE(grants.validate_join(identity(2), Instant{}));
  (void)grants.joined({2, 2}, identity(2));
  EXPECT_NE(refusal(grants.validate_join(identity(3), Instant{})).find("is for 2 peers"), std::string::npos);
  EXPECT_FALSE(grants.validate_status_request(identity(3), Instant{}));
  grants.gone({1, 1});
  EXPECT_FALSE(grants.validate_join(identity(3), Instant{}));
}

TEST(Grants, ASingleUseIsOver) {
  Grant once = team();
  once.single_use = true;
  Grants grants(true, {once});
  EXPECT_TRUE(grants.joined({1, 1}, identity(1)));
  grants.gone({1, 1});
  EXPECT_NE(refusal(grants.validate_join(identity(1), Instant{})).find("was used"), std::string::npos);
  EXPECT_TRUE(grants.change({once}, {}).empty());
  EXPECT_TRUE(grants.validate_join(identity(1), Instant{}));
}

TEST(Grants, ASingleUseOfAnEarlierCoordinatorIsOver) {
  Grant once = team();
  once.single_use = true;
  once.used = true;
  const Grants grants(true, {once});
  EXPECT_NE(refusal(grants.validate_join(identity(1), Instant{})).find("was used"), std::string::npos);
  Grants later(true, {});
  EXPECT_TRUE(later.change({once}, {}).empty());
  EXPECT_TRUE(later.validate_join(identity(1), Instant{}));
}

TEST(Grants, ARevokedTokenNamesItsPeers) {
  Grants grants(true, {team(), {.id = kOther}});
  (void)grants.joined({1, 1}, identity(1));
  (void)grants.joined({2, 2}, identity(2, kOther));
  EXPECT_EQ(grants.text_of(identity(1)), "token 0123456789abcdef (team)");
  const auto revoked = grants.change({{.id = kOther}}, {});
  ASSERT_EQ(revoked.size(), 1U);
  EXPECT_EQ(revoked.front().peer, (PeerId{1, 1}));
  EXPECT_EQ(revoked.front().why, "token 0123456789abcdef (team) was revoked");
  EXPECT_TRUE(grants.validate_join(identity(1), Instant{}));
}

TEST(Grants, ATableHasLimits) {
  EXPECT_EQ(validate_grants({team()}), "");
  EXPECT_NE(validate_grants({team(), team()}).find("listed twice"), std::string::npos);
  EXPECT_NE(validate_grants({Grant{}}).find("not 0"), std::string::npos);
  Grant long_name = team();
  long_name.name.assign(kMaxNameBytes + 1, 'x');
  EXPECT_NE(validate_grants({long_name}).find("too long"), std::string::npos);
  std::vector<Grant> many;
  for (std::uint64_t i = 1; i <= kMaxGrants + 1; ++i) many.push_back({.id = io::TokenId{i}});
  EXPECT_NE(validate_grants(many).find("at most 1024"), std::string::npos);
}

// ---- a secured run ----

CoordinatorOptions secured() {
  CoordinatorOptions options;
  options.secured = true;
  options.grants = {team()};
  return options;
}

struct SecuredRun {
  explicit SecuredRun(const CoordinatorOptions& options = secured()) : coordinator(options) {}

  FarEnd& say(const io::Identity& who, const wire::Message& message) {
    FarEnd& end = coordinator.streams.accept(address_of(1), who);
    end.greet();
    end.say(message);
    coordinator.run();
    return end;
  }
  FarEnd& join(std::uint8_t n, const io::Identity& who) {
    wire::Join join;
    join.peer = {n, n};
    join.founders = 2;
    join.advertised = address_of(n);
    join.name = "p" + std::to_string(n);
    return say(who, join);
  }
  void answer(FarEnd& end) {
    end.say(wire::Flush{end.last<wire::Propose>()->number, {}});
    coordinator.run();
  }
  void found() {
    a = &join(1, identity(1));
    b = &join(2, identity(2));
    answer(*a);
    answer(*b);
    ASSERT_NE(a->last<wire::Install>(), nullptr);
  }

  fuzz::CoordinatorHost coordinator;
  FarEnd* a = nullptr;
  FarEnd* b = nullptr;
};

TEST(SecuredRun, AdmitsPeersThatProveTheirToken) {
  SecuredRun run;
  run.found();
  const wire::View view = run.coordinator.status().view;
  ASSERT_EQ(view.members.size(), 2U);
  for (const wire::Member& member : view.members) {
    EXPECT_EQ(member.key, key_of(static_cast<std::uint8_t>(member.id.low)));
  }
  bool named = false;
  for (const trace::Event& event : run.coordinator.events) {
    named = named || event.text == "p1 at 10.0.0.1:4000, by token 0123456789abcdef (team)";
  }
  EXPECT_TRUE(named);
}

TEST(SecuredRun, RefusesStrangersAndTellsThemNothing) {
  SecuredRun run;
  run.found();
  for (const io::Identity& stranger : {io::Identity{}, identity(7, kTeam, false), identity(7, kOther)}) {
    FarEnd& joins = run.join(7, stranger);
    ASSERT_NE(joins.last<wire::Refused>(), nullptr);
    EXPECT_EQ(joins.last<wire::Refused>()->status, Status::kRefused);
    FarEnd& asks = run.say(stranger, wire::StatusRequest{});
    ASSERT_NE(asks.last<wire::Refused>(), nullptr);
    EXPECT_EQ(asks.last<wire::StatusReply>(), nullptr);
  }
  EXPECT_EQ(run.coordinator.footprint().waiting, 0U);
  EXPECT_NE(run.say(identity(7), wire::StatusRequest{}).last<wire::StatusReply>(), nullptr);
}

// The others go on, and the peer learns which token it was.
TEST(SecuredRun, ARevokedTokenEvictsItsPeers) {
  SecuredRun run;
  run.coordinator.change_grants({team(), {.id = kOther}});
  run.a = &run.join(1, identity(1));
  run.b = &run.join(2, identity(2, kOther));
  run.answer(*run.a);
  run.answer(*run.b);
  run.coordinator.change_grants({{.id = kOther}});
  run.coordinator.run();
  ASSERT_NE(run.a->last<wire::Evicted>(), nullptr);
  EXPECT_EQ(run.a->last<wire::Evicted>()->status, Status::kEvicted);
  EXPECT_EQ(run.a->last<wire::Evicted>()->text, "token 0123456789abcdef (team) was revoked");
  run.answer(*run.b);
  EXPECT_EQ(run.coordinator.status().view.members.size(), 1U);
  EXPECT_EQ(run.b->last<wire::Evicted>(), nullptr);
  EXPECT_NE(run.join(3, identity(1)).last<wire::Refused>(), nullptr);
}

// Rule 69.
constexpr io::TokenId kAdmin{0xad};
constexpr io::TokenId kWatcher{0x0b};

struct AdministeredRun : SecuredRun {
  AdministeredRun() {
    coordinator.change_grants({team(),
                               {.id = kAdmin, .role = io::Role::kAdmin, .name = "operator"},
                               {.id = kWatcher, .role = io::Role::kObserver, .name = "dashboard"}});
    found();
  }
};

TEST(SecuredRun, AnAdministratorEvictsAPeerAndTheRunGoesOn) {
  AdministeredRun run;
  const FarEnd& asks = run.say(identity(9, kAdmin), wire::EvictRequest{{1, 1}});
  ASSERT_NE(asks.last<wire::EvictReply>(), nullptr);
  EXPECT_TRUE(asks.last<wire::EvictReply>()->evicted);
  EXPECT_EQ(asks.last<wire::EvictReply>()->text,
            "p1 is out of the run: token 0123456789abcdef (team) is for several peers, so its program can join again "
            "at once as another peer; to keep it out, revoke the token, which takes out all peers that joined by it: "
            "`lockstep token revoke --tokens FILE 0123456789abcdef`");
  ASSERT_NE(run.a->last<wire::Evicted>(), nullptr);
  EXPECT_EQ(run.a->last<wire::Evicted>()->status, Status::kEvicted);
  EXPECT_EQ(run.a->last<wire::Evicted>()->text,
            "an administrator (token 00000000000000ad (operator)) has evicted this peer");
  run.answer(*run.b);
  EXPECT_EQ(run.coordinator.status().view.members.size(), 1U);
  EXPECT_EQ(run.b->last<wire::Evicted>(), nullptr);
  const FarEnd& again = run.join(5, identity(1));
  ASSERT_NE(again.last<wire::Refused>(), nullptr);
  EXPECT_EQ(again.last<wire::Refused>()->text, "an administrator has evicted this peer: it may join again in 10 s");
  EXPECT_NE(run.say(identity(9, kAdmin), wire::StatusRequest{}).last<wire::StatusReply>(), nullptr);
}

TEST(SecuredRun, AnEvictedPeerWithATokenOfItsOwnHasNoWayBack) {
  SecuredRun run;
  constexpr io::TokenId kOneAtATime{0x71};
  constexpr io::TokenId kOnce{0x72};
  run.coordinator.change_grants({{.id = kOneAtATime, .most_peers = 1},
                                 {.id = kOnce, .single_use = true},
                                 {.id = kAdmin, .role = io::Role::kAdmin}});
  for (const auto& [n, token] : {std::pair(std::uint8_t{1}, kOneAtATime), std::pair(std::uint8_t{2}, kOnce)}) {
    ASSERT_NE(run.join(n, identity(n, token)).last<wire::Waiting>(), nullptr);
    EXPECT_EQ(run.say(identity(9, kAdmin), wire::EvictRequest{{n, n}}).last<wire::EvictReply>()->text,
              "p" + std::to_string(n) + " is out of the run");
  }
}

TEST(SecuredRun, AStatusSaysByWhichTokenEachPeerHasJoined) {
  AdministeredRun run;
  run.join(5, identity(5));
  const auto* const status = run.say(identity(9, kWatcher), wire::StatusRequest{}).last<wire::StatusReply>();
  ASSERT_NE(status, nullptr);
  ASSERT_EQ(status->proofs.size(), 3U);  // two members, and one that waits
  for (const wire::Proof& proof : status->proofs) EXPECT_EQ(proof.by, "token 0123456789abcdef (team)");
}

// ---- certificates ----

constexpr io::TokenId kByCertificate{1};

io::Identity certified(std::uint8_t n) {
  io::Identity made = identity(n, kByCertificate);
  made.certificate = "'CN=p" + std::to_string(n) + "' (SHA-256 AB:CD)";
  return made;
}

struct CertifiedRun : SecuredRun {
  CertifiedRun() {
    coordinator.change_grants({{.id = kByCertificate, .name = "certificate"}});
    a = &join(1, certified(1));
    b = &join(2, certified(2));
    answer(*a);
    answer(*b);
  }
};

TEST(CertifiedRun, NamesCertificatesInPlaceOfTokens) {
  CertifiedRun run;
  bool named = false;
  for (const trace::Event& event : run.coordinator.events) {
    named = named || event.text == "p1 at 10.0.0.1:4000, by certificate 'CN=p1' (SHA-256 AB:CD)";
  }
  EXPECT_TRUE(named);
  const wire::StatusReply status = run.coordinator.status();
  ASSERT_EQ(status.proofs.size(), 2U);
  EXPECT_EQ(status.proofs.back().by, "certificate 'CN=p2' (SHA-256 AB:CD)");
}

TEST(CertifiedRun, HasNoAdministratorsAndSaysHowToTakeAPeerOut) {
  CertifiedRun run;
  const auto* const refused = run.say(certified(1), wire::EvictRequest{{2, 2}}).last<wire::Refused>();
  ASSERT_NE(refused, nullptr);
  EXPECT_NE(refused->text.find("have the authority revoke its certificate"), std::string::npos);
  EXPECT_NE(refused->text.find("--revocation-list FILE"), std::string::npos);
  EXPECT_EQ(refused->text.find("token"), std::string::npos) << refused->text;
}

TEST(CertifiedRun, TellsAPeerThatItsOwnSideCannotJudgeTheCertificate) {
  CertifiedRun run;
  io::Identity doubtful = certified(3);
  doubtful.proved = false;
  doubtful.doubt = "the revocation list is out of date";
  for (const wire::Message& message :
       {wire::Message(wire::StatusRequest{}), wire::Message(wire::EvictRequest{{2, 2}})}) {
    ASSERT_NE(run.say(doubtful, message).last<wire::Refused>(), nullptr);
    EXPECT_EQ(run.say(doubtful, message).last<wire::Refused>()->text, doubtful.doubt);
  }
  const auto* const refused = run.join(3, doubtful).last<wire::Refused>();
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->text, doubtful.doubt);
}

// Rule 66: nobody makes certificates but the authority.
TEST(CertifiedRun, ViolationsExcludeTheirCertificateAndNoOther) {
  CertifiedRun run;
  for (const std::uint8_t n : {std::uint8_t{3}, std::uint8_t{4}, std::uint8_t{5}, std::uint8_t{6}}) {
    FarEnd& liar = run.join(n, certified(n));
    ASSERT_NE(liar.last<wire::Waiting>(), nullptr) << int{n};
    liar.say(wire::Waiting{});
    run.coordinator.run();
    ASSERT_NE(liar.last<wire::Evicted>(), nullptr) << int{n};
  }
  const auto* const refused = run.join(7, certified(3)).last<wire::Refused>();
  ASSERT_NE(refused, nullptr);
  EXPECT_NE(refused->text.find("this peer has broken the protocol"), std::string::npos);
}

TEST(SecuredRun, AnEvictionDoesNotCountAgainstASharedToken) {
  AdministeredRun run;
  for (const std::uint8_t n : {std::uint8_t{5}, std::uint8_t{6}, std::uint8_t{7}, std::uint8_t{8}}) {
    ASSERT_NE(run.join(n, identity(n)).last<wire::Waiting>(), nullptr) << int{n};
    EXPECT_TRUE(run.say(identity(9, kAdmin), wire::EvictRequest{{n, n}}).last<wire::EvictReply>()->evicted);
  }
}

TEST(SecuredRun, AnEvictionOfNobodyIsTold) {
  AdministeredRun run;
  const FarEnd& asks = run.say(identity(9, kAdmin), wire::EvictRequest{{7, 7}});
  ASSERT_NE(asks.last<wire::EvictReply>(), nullptr);
  EXPECT_FALSE(asks.last<wire::EvictReply>()->evicted);
  EXPECT_NE(asks.last<wire::EvictReply>()->text.find("is in the run, or waits"), std::string::npos);
}

TEST(SecuredRun, NobodyElseEvicts) {
  AdministeredRun run;
  const auto refusal_of = [&](const io::Identity& who) {
    const FarEnd& asks = run.say(who, wire::EvictRequest{{1, 1}});
    EXPECT_EQ(asks.last<wire::EvictReply>(), nullptr);
    return asks.last<wire::Refused>() == nullptr ? "" : asks.last<wire::Refused>()->text;
  };
  EXPECT_NE(refusal_of(identity(9, kWatcher)).find("(dashboard) is for observers, which may not evict peers"),
            std::string::npos);
  EXPECT_NE(refusal_of(identity(9)).find("(team) is for members, which may not evict peers"), std::string::npos);
  EXPECT_NE(refusal_of(identity(9, kAdmin, false)).find("is not one of this run"), std::string::npos);
  EXPECT_NE(refusal_of({}).find("only peers with a run token"), std::string::npos);
  EXPECT_EQ(run.a->last<wire::Evicted>(), nullptr);
  EXPECT_NE(run.join(7, identity(7, kAdmin)).last<wire::Refused>()->text.find("is for administrators"),
            std::string::npos);
}

TEST(Grants, AnOpenRunHasNoAdministrators) {
  const std::string why = refusal(Grants(false, {}).validate_eviction({}, Instant{}));
  EXPECT_NE(why.find("lockstep coordinator --tokens FILE"), std::string::npos);
  EXPECT_NE(why.find("lockstep token new --role admin"), std::string::npos);
}

// Rule 66.
TEST(SecuredRun, ALiarThatJoinsAgainIsRefused) {
  SecuredRun run;
  run.found();
  run.a->say(wire::Waiting{});
  run.coordinator.run();
  ASSERT_NE(run.a->last<wire::Evicted>(), nullptr);
  EXPECT_EQ(run.a->last<wire::Evicted>()->status, Status::kProtocolError);
  run.answer(*run.b);
  const FarEnd& again = run.join(5, identity(1));
  ASSERT_NE(again.last<wire::Refused>(), nullptr);
  EXPECT_EQ(again.last<wire::Refused>()->status, Status::kRefused);
  EXPECT_EQ(again.last<wire::Refused>()->text, "this peer has broken the protocol: it may join again in 10 s");
  for (const std::uint8_t n : {std::uint8_t{6}, std::uint8_t{7}}) {  // with new keys
    FarEnd& liar = run.join(n, identity(n));
    EXPECT_NE(liar.last<wire::Waiting>(), nullptr);
    liar.say(wire::Waiting{});
    run.coordinator.run();
  }
  const FarEnd& other = run.join(8, identity(8));
  ASSERT_NE(other.last<wire::Refused>(), nullptr);
  EXPECT_NE(other.last<wire::Refused>()->text.find("admits nobody for another 10 s"), std::string::npos);
  EXPECT_EQ(run.b->last<wire::Evicted>(), nullptr);  // a member with the same token stays
}

TEST(SecuredRun, ALiarWithATokenOfItsOwnStaysOutWithEveryKey) {
  SecuredRun run;
  Grant own{.id = kOther, .most_peers = 1, .name = "partner"};
  run.coordinator.change_grants({team(), own});
  FarEnd& liar = run.join(1, identity(1, kOther));
  liar.say(wire::Waiting{});
  run.coordinator.run();
  ASSERT_NE(liar.last<wire::Evicted>(), nullptr);
  EXPECT_NE(run.join(2, identity(2, kOther)).last<wire::Refused>(), nullptr);
  EXPECT_NE(run.join(3, identity(3)).last<wire::Waiting>(), nullptr);
}

// A peer that is lost, or leaves, may join again at once.
TEST(SecuredRun, ALostPeerIsNotExcluded) {
  SecuredRun run;
  run.found();
  run.a->hang_up();
  run.coordinator.run();
  run.answer(*run.b);
  EXPECT_NE(run.join(5, identity(1)).last<wire::Waiting>(), nullptr);
}

// A member stays; only newcomers need a token that is valid.
TEST(SecuredRun, AnExpiredTokenEvictsNobody) {
  SecuredRun run;
  run.found();
  Grant expired = team();
  expired.expires = Instant{};
  run.coordinator.change_grants({expired});
  run.coordinator.run();
  EXPECT_EQ(run.a->last<wire::Evicted>(), nullptr);
  ASSERT_NE(run.join(3, identity(3)).last<wire::Refused>(), nullptr);
  EXPECT_EQ(run.coordinator.status().view.members.size(), 2U);
}

// Rule 63.
TEST(SecuredRun, TellsItsDriverWhichTokenWasUsedUp) {
  CoordinatorOptions options = secured();
  options.grants.push_back({.id = kOther, .single_use = true});
  SecuredRun run(options);
  run.join(1, identity(1));
  EXPECT_TRUE(run.coordinator.used_tokens.empty());
  run.join(2, identity(2, kOther));
  EXPECT_EQ(run.coordinator.used_tokens, std::vector{kOther});
  EXPECT_NE(run.join(3, identity(3, kOther)).last<wire::Refused>(), nullptr);
  EXPECT_EQ(run.coordinator.used_tokens.size(), 1U);
}

// Rule 64.
TEST(SecuredRun, EvictsAPeerWhoseKeyIsBarred) {
  SecuredRun run;
  run.found();
  run.coordinator.change_grants({team()}, {{key_of(2), "certificate 'CN=b' was revoked"}});
  run.coordinator.run();
  ASSERT_NE(run.b->last<wire::Evicted>(), nullptr);
  EXPECT_EQ(run.b->last<wire::Evicted>()->status, Status::kEvicted);
  EXPECT_NE(run.b->last<wire::Evicted>()->text.find("certificate 'CN=b' was revoked"), std::string::npos);
  EXPECT_EQ(run.a->last<wire::Evicted>(), nullptr);
  const auto* const refused = run.join(3, identity(2)).last<wire::Refused>();
  ASSERT_NE(refused, nullptr);
  EXPECT_NE(refused->text.find("was revoked"), std::string::npos);
  run.coordinator.change_grants({team()});  // the list was changed again
  EXPECT_EQ(run.join(4, identity(2)).last<wire::Refused>(), nullptr);
}

}  // namespace
}  // namespace lockstep::coordinator
