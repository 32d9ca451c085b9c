// Runs whose members have certificates of an authority of the user's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/transport/authority.h"
#include "transport/communicator.h"
#include "transport/coordinator_server.h"
#include "transport/status_client.h"

namespace lockstep::transport {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr Duration kMustEnd = seconds(30);
constexpr Duration kInVain = seconds(2);

class Certificates : public ::testing::Test {
 protected:
  void start(const std::string& host, const std::string& revocation_list = {}) {
    CoordinatorServer::Options options;
    options.listen = "127.0.0.1:0";
    options.access.certificates = authority.sign("coordinator", host);
    options.access.certificates.revocation_list = revocation_list;
    auto started = CoordinatorServer::start(std::move(options));
    ASSERT_TRUE(started.ok()) << started.error().text;
    server = std::move(*started);
  }

  struct Joined {
    std::unique_ptr<Communicator> peer;
    Outcome outcome;
  };
  Joined join(const tls::CertificateFiles& files, Duration within = kMustEnd) {
    CommunicatorOptions options;
    options.listen_host = "127.0.0.1";
    options.protection.certificates = files;
    auto made = Communicator::create(std::move(options));
    EXPECT_TRUE(made.ok()) << made.error().text;
    const Work work = (*made)->connect(server->address().text(), within);
    work.wait();
    return {std::move(*made), work.outcome()};
  }

  // Joins a run of one member.
  Joined join_with(const Joined& member, const tls::CertificateFiles& files) {
    Joined newcomer;
    std::jthread joins([&] { newcomer = join(files); });
    while (member.peer->pending() == 0) std::this_thread::yield();
    const Work admits = member.peer->admit(1, kMustEnd);
    EXPECT_TRUE(admits.wait(kMustEnd));
    joins.join();
    return newcomer;
  }
  static Work barrier(const Joined& member) {
    LaunchArgs args;
    args.collective = wire::Collective::kBarrier;
    auto work = member.peer->launch(args);
    EXPECT_TRUE(work.ok());
    return *work;
  }

  const TemporaryFolder folder;
  Authority authority{folder, "ours"};
  Authority other{folder, "theirs"};
  std::unique_ptr<CoordinatorServer> server;
};

TEST_F(Certificates, AMemberOfTheAuthorityJoinsAndMayAskForTheStatus) {
  start("IP:127.0.0.1");
  EXPECT_EQ(server->token(), "") << "there are no tokens";
  const tls::CertificateFiles files = authority.sign("a", "DNS:a.example");
  const Joined a = join(files);
  EXPECT_EQ(a.outcome.status, Status::kOk) << a.outcome.text;
  EXPECT_FALSE(a.peer->view()->members.front().key.is_none());
  const auto status = query_status(server->address().text(), kMustEnd, {.insecure = false, .certificates = files});
  EXPECT_TRUE(status.ok()) << status.error().text;
}

TEST_F(Certificates, AnotherAuthoritysMemberIsRefusedByBothSides) {
  start("IP:127.0.0.1");
  tls::CertificateFiles files = other.sign("b", "DNS:b.example");
  EXPECT_THAT(join(files, kInVain).outcome.text, HasSubstr("certificate of the other side is refused"));
  files.authority = folder / "ours.pem";  // trusts the coordinator, which does not trust it
  const Joined refused = join(files, kMustEnd);
  EXPECT_EQ(refused.outcome.status, Status::kRefused);  // at once
  EXPECT_THAT(refused.outcome.text, HasSubstr("unknown CA"));
  EXPECT_EQ(server->snapshot().admitted, 0U);
}

TEST_F(Certificates, APrivateKeyThatEverybodyReadsIsRefused) {
  start("IP:127.0.0.1");
  const tls::CertificateFiles files = authority.sign("a", "DNS:a.example");
  ASSERT_EQ(::chmod(files.private_key.c_str(), 0644), 0);
  const Outcome outcome = join(files).outcome;
  EXPECT_EQ(outcome.status, Status::kInvalidArgument);
  EXPECT_THAT(outcome.text, HasSubstr("every user of this machine can read it: chmod o-rwx " + files.private_key));
}

TEST_F(Certificates, ACoordinatorMustHaveTheCertificateOfItsHost) {
  start("DNS:elsewhere.example");
  EXPECT_THAT(join(authority.sign("a", "DNS:a.example"), kInVain).outcome.text,
              HasSubstr("does not name the host that was dialled"));
}

TEST_F(Certificates, ARevokedCertificateIsRefusedOnceTheListSaysSo) {
  const std::string list = authority.revoke_last(0);
  start("IP:127.0.0.1", list);
  const tls::CertificateFiles files = authority.sign("a", "DNS:a.example");
  EXPECT_EQ(join(files).outcome.status, Status::kOk);
  authority.revoke_last(1);
  transport::Outcome last;
  do {  // the coordinator looks at its files several times a second
    last = join(files).outcome;
  } while (last.text.empty() ||
           last.text.find("was revoked") != std::string::npos);  // evicted, having joined just before
  EXPECT_EQ(last.status, Status::kRefused);
  EXPECT_THAT(last.text, HasSubstr("certificate revoked"));
  const auto asked = query_status(server->address().text(), kMustEnd, {.insecure = false, .certificates = files});
  ASSERT_FALSE(asked.ok());
  EXPECT_EQ(asked.error().status, Status::kRefused);  // at once
}

TEST_F(Certificates, ARevokedCertificateEndsItsPeerWithinASecondAndTheRunGoesOn) {
  const std::string list = authority.revoke_last(0);
  start("IP:127.0.0.1", list);
  const Joined a = join(authority.sign("a", "DNS:a.example"));
  ASSERT_EQ(a.outcome.status, Status::kOk) << a.outcome.text;
  const Joined b = join_with(a, authority.sign("b", "DNS:b.example"));
  ASSERT_EQ(b.outcome.status, Status::kOk) << b.outcome.text;
  const Work waits = barrier(b);
  const Instant began = now();
  authority.revoke_last(1);
  ASSERT_TRUE(waits.wait(kMustEnd));
  EXPECT_LT((now() - began).seconds(), 1.0);
  EXPECT_THAT(waits.outcome().text, HasSubstr("certificate 'CN=b' was revoked"));
  while (a.peer->view()->members.size() > 1) std::this_thread::yield();
  const Work alone = barrier(a);
  ASSERT_TRUE(alone.wait(kMustEnd));
  EXPECT_EQ(alone.outcome().status, Status::kOk) << alone.outcome().text;
}

TEST_F(Certificates, ACertificateThatEndsTakesItsPeerOutOfTheRun) {
  start("IP:127.0.0.1");
  const Joined a = join(authority.sign("a", "DNS:a.example"));
  ASSERT_EQ(a.outcome.status, Status::kOk) << a.outcome.text;
  const Instant began = now();
  const Joined b = join_with(a, authority.sign("b", "DNS:b.example", seconds(3)));
  ASSERT_EQ(b.outcome.status, Status::kOk) << b.outcome.text;
  const Work waits = barrier(b);
  ASSERT_TRUE(waits.wait(kMustEnd));
  EXPECT_THAT(waits.outcome().text, HasSubstr("certificate 'CN=b' has expired"));
  EXPECT_LT((now() - began).seconds(), 4.5);
  EXPECT_THAT(join(authority.sign("c", "DNS:c.example", seconds(-1)), kInVain).outcome.text,
              HasSubstr("certificate expired"));
}

TEST_F(Certificates, FilesThatCannotBeUsedAreNamed) {
  const tls::CertificateFiles good = authority.sign("a", "DNS:a.example");
  const tls::CertificateFiles stranger = authority.sign("b", "DNS:b.example");
  const auto refusal = [&](auto change) {
    tls::CertificateFiles files = good;
    change(files);
    return tls::Credentials::from(files, tls::Credentials::Of::kPeer, {"127.0.0.1"}).error().text;
  };
  EXPECT_THAT(refusal([](auto& f) { f.certificate = "/none.pem"; }), HasSubstr("/none.pem"));
  EXPECT_THAT(refusal([&](auto& f) { f.private_key = stranger.private_key; }), HasSubstr("key values mismatch"));
  EXPECT_THAT(refusal([](auto& f) { f.authority = "/none.pem"; }), HasSubstr("authority"));
  EXPECT_THAT(refusal([&](auto& f) { f.revocation_list = f.certificate; }), HasSubstr("revocation list"));
}

TEST_F(Certificates, ATokenAndCertificatesExcludeEachOther) {
  const tls::CertificateFiles files = authority.sign("a", "IP:127.0.0.1");
  EXPECT_THAT(Access::open({folder / "tokens", {}, false, files}, {}).error().text, HasSubstr("one of both"));
  EXPECT_THAT(Access::open({{}, {}, true, files}, {}).error().text, HasSubstr("one of both"));
  EXPECT_THAT(parse_coordinator("127.0.0.1:1", {.insecure = true, .certificates = files}).error().text,
              HasSubstr("one of them"));
}

}  // namespace
}  // namespace lockstep::transport
