// Runs whose members have certificates of an authority of the user's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/transport/authority.h"
#include "transport/communicator.h"
#include "transport/coordinator_server.h"
#include "transport/status_client.h"

namespace lockstep::transport {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr Duration kMustEnd = seconds(30);
constexpr Duration kInVain = seconds(2);

class Certificates : public ::testing::Test {
 protected:
  void start(const std::string& host, const std::string& revocation_list = {}) {
    CoordinatorServer::Options options;
    options.listen = "127.0.0.1:0";
    options.access.certificates = authority.sign("coordinator", host);
    options.access.certificates.revocation_list = revocation_list;
    options.log = [this](std::string_view line) {
      const std::lock_guard lock(mutex);
      lines.emplace_back(line);
    };
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

  // How many lines of the coordinator's log have this text.
  std::size_t logged(std::string_view text) {
    const std::lock_guard lock(mutex);
    return static_cast<std::size_t>(
        std::ranges::count_if(lines, [&](const std::string& line) { return line.find(text) != std::string::npos; }));
  }
  [[nodiscard]] static Protection with(const tls::CertificateFiles& files) {
    return {.insecure = false, .certificates = files};
  }

  std::mutex mutex;
  std::vector<std::string> lines;
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

TEST_F(Certificates, LogAndStatusNameTheCertificateOfEachPeer) {
  start("IP:127.0.0.1");
  const tls::CertificateFiles files = authority.sign("a", "DNS:a.example");
  const Joined a = join(files);
  ASSERT_EQ(a.outcome.status, Status::kOk) << a.outcome.text;
  EXPECT_EQ(logged("by certificate 'CN=a' (SHA-256 "), 1U);
  EXPECT_EQ(logged("token"), 0U);
  const auto status = query_status(server->address().text(), kMustEnd, with(files));
  ASSERT_TRUE(status.ok()) << status.error().text;
  ASSERT_EQ(status->proofs.size(), 1U);
  EXPECT_THAT(status->proofs.front().by,
              MatchesRegex("certificate 'CN=a' \\(SHA-256 [0-9A-F][0-9A-F](:[0-9A-F][0-9A-F])+\\)"));
}

TEST_F(Certificates, AdviceIsAboutCertificatesAndNotAboutTokens) {
  start("IP:127.0.0.1");
  const std::string address = server->address().text();
  const auto plain = query_status(address, kMustEnd);
  ASSERT_FALSE(plain.ok());
  EXPECT_THAT(plain.error().text, AllOf(HasSubstr("--certificate, --private-key and --authority"),
                                        HasSubstr("lockstep.Certificates"), Not(HasSubstr("token"))));
  EXPECT_THAT(evict_peer(address, {1, 1}, kMustEnd).error().text,
              AllOf(HasSubstr("--certificate, --private-key and --authority"), Not(HasSubstr("token"))));
  EXPECT_THAT(join({}).outcome.text, AllOf(HasSubstr("--certificate, --private-key"), Not(HasSubstr("token"))));
  const tls::CertificateFiles files = authority.sign("a", "DNS:a.example");
  EXPECT_THAT(evict_peer(address, {1, 1}, kMustEnd, with(files)).error().text,
              AllOf(HasSubstr("have the authority revoke its certificate"), Not(HasSubstr("token"))));
}

TEST_F(Certificates, ACertificateForACoordinatorWithTokensIsToldToUseOne) {
  CoordinatorServer::Options options;
  options.listen = "127.0.0.1:0";
  options.access.token_file = folder / "tokens";
  auto started = CoordinatorServer::start(std::move(options));
  ASSERT_TRUE(started.ok()) << started.error().text;
  server = std::move(*started);
  const auto refused = query_status(server->address().text(), kMustEnd, with(authority.sign("a", "DNS:a.example")));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text, HasSubstr("connect with its run token, without certificates"));
}

TEST_F(Certificates, AnOldRevocationListIsTheCoordinatorsFault) {
  const std::string list = authority.revoke_last(0);
  start("IP:127.0.0.1", list);
  const Joined a = join(authority.sign("a", "DNS:a.example"));
  ASSERT_EQ(a.outcome.status, Status::kOk) << a.outcome.text;
  const tls::CertificateFiles files = authority.sign("b", "DNS:b.example");
  for (const auto& [begins, words] : {std::pair(-2, "is out of date since 2"), std::pair(2, "is valid only from 2")}) {
    authority.revoke_last(0, begins);
    while (logged(words) == 0) std::this_thread::yield();  // the coordinator looks at its files
    EXPECT_EQ(logged("Put a new list into " + list + ", which is read at once"), begins < 0 ? 1U : 2U);
    const Instant began = now();
    const Joined b = join(files);
    EXPECT_LT((now() - began).seconds(), 5.0) << "it does not wait for the time-out";
    EXPECT_EQ(b.outcome.status, Status::kRefused);
    EXPECT_THAT(b.outcome.text, AllOf(HasSubstr("the coordinator admits nobody now: the revocation list of 'CN=ours'"),
                                      HasSubstr(words), HasSubstr("Nothing is known against your certificate"),
                                      HasSubstr("--revocation-list FILE")));
    EXPECT_THAT(query_status(server->address().text(), kMustEnd, with(files)).error().text, HasSubstr(words));
  }
  EXPECT_EQ(a.peer->view()->members.size(), 1U) << "a member stays";
  authority.revoke_last(0);
  while (logged("the files are in order again") == 0) std::this_thread::yield();
  const auto status = query_status(server->address().text(), kMustEnd, with(files));
  EXPECT_TRUE(status.ok()) << status.error().text;
}

TEST_F(Certificates, ACertificateOnAnOldRevocationListIsRevoked) {
  const tls::CertificateFiles files = authority.sign("a", "DNS:a.example");
  start("IP:127.0.0.1", authority.revoke_last(1, -2));
  EXPECT_EQ(logged("is out of date since 2"), 1U) << "told at the start";
  EXPECT_THAT(join(files, kInVain).outcome.text, HasSubstr("certificate revoked"));
}

TEST_F(Certificates, AnOldRevocationListOfAPeerIsItsOwnFault) {
  start("IP:127.0.0.1");
  tls::CertificateFiles files = authority.sign("a", "DNS:a.example");
  files.revocation_list = authority.revoke_last(0, -2);
  EXPECT_THAT(join(files, kInVain).outcome.text,
              AllOf(HasSubstr("the revocation list of 'CN=ours' is out of date since 2"),
                    HasSubstr("give this side a new list"), Not(HasSubstr("certificate of the other side"))));
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
