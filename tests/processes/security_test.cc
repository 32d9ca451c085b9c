// Runs with TLS on loopback, and programs that try to get in: what they can reach, what they are told, and what passes
// over the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <asio/connect.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/wire/run_token.h"
#include "tests/support/proxy.h"
#include "tests/transport/temporary_folder.h"
#include "transport/communicator.h"
#include "transport/coordinator_server.h"
#include "transport/status_client.h"
#include "transport/token_file.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using transport::Communicator;
using transport::CommunicatorOptions;
using transport::CoordinatorServer;
using transport::TemporaryFolder;
using transport::TokenFile;
using transport::TokenRecord;
using transport::Work;

constexpr Duration kLong = seconds(30);  // a passing test never waits so long
constexpr Duration kShort = seconds(2);  // for connects that fail again and again

// A coordinator with TLS on loopback, whose tokens are in a file.
class SecuredRun : public ::testing::Test {
 protected:
  SecuredRun() {
    CoordinatorServer::Options options;
    options.listen = "127.0.0.1:0";
    options.access.token_file = file();
    options.log = [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
    };
    auto started = CoordinatorServer::start(std::move(options));
    EXPECT_TRUE(started.ok()) << started.error().text;
    server = std::move(*started);
  }

  [[nodiscard]] std::string file() const { return folder_ / "run.tokens"; }

  // Adds a token, and returns its string.
  std::string token(
      const std::string& name, const std::function<void(TokenRecord&)>& change = [](TokenRecord&) {}) {
    std::string text;
    const auto error = transport::change_token_file(file(), [&](TokenFile& tokens) -> std::optional<Error> {
      TokenRecord record = transport::random_token();
      record.name = name;
      change(record);
      text = wire::text_of(transport::run_token(tokens, record, tokens.addresses));
      return transport::add_token(tokens, std::move(record));
    });
    EXPECT_FALSE(error) << error->text;
    // the coordinator looks at its file several times a second
    while (!is_known(text)) std::this_thread::yield();
    return text;
  }

  static std::unique_ptr<Communicator> peer(std::uint32_t founders, const std::string& name = "peer",
                                            std::uint16_t port = 0) {
    CommunicatorOptions options;
    options.listen_host = "127.0.0.1";
    options.peer.founders = founders;
    options.peer.name = name;
    options.peer.advertised.port = port;
    auto made = Communicator::create(std::move(options));
    EXPECT_TRUE(made.ok()) << made.error().text;
    return std::move(*made);
  }

  // The error of a connect that must fail.
  static std::string refusal(const std::string& with, Duration within = kLong) {
    const auto stranger = peer(1, "stranger");
    const Work work = stranger->connect(with, within);
    work.wait();
    EXPECT_NE(work.outcome().status, Status::kOk);
    return work.outcome().text;
  }

  static void expect_ok(const Work& work) {
    ASSERT_TRUE(work.wait(kLong)) << "the call does not end";
    EXPECT_EQ(work.outcome().status, Status::kOk) << work.outcome().text;
  }

  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  bool is_known(const std::string& text) const {
    const auto status = transport::query_status(text, kLong);
    return status.ok() || status.error().text.find("expired") != std::string::npos;
  }

  const TemporaryFolder folder_;
  std::mutex mutex_;
  std::vector<std::string> lines_;

 protected:
  std::unique_ptr<CoordinatorServer> server;
};

transport::LaunchArgs sum(const std::vector<float>& send, std::vector<float>& recv) {
  transport::LaunchArgs args;
  args.collective = wire::Collective::kAllReduce;
  args.type = DataType::kF32;
  args.tensors.push_back({send.data(), recv.data(), send.size(), 0});
  return args;
}

// ---- who gets in ----

TEST_F(SecuredRun, PeersWithTheTokenReduce) {
  const auto a = peer(2);
  const auto b = peer(2);
  const Work joins_a = a->connect(server->token(), kLong);
  expect_ok(b->connect(server->token(), kLong));
  expect_ok(joins_a);
  const std::vector<float> ones(100'000, 1);
  std::vector<float> of_a(ones.size());
  std::vector<float> of_b(ones.size());
  const auto work = a->launch(sum(ones, of_a));
  expect_ok(*b->launch(sum(ones, of_b)));
  expect_ok(*work);
  EXPECT_EQ(of_a, std::vector<float>(ones.size(), 2));
  EXPECT_EQ(of_a, of_b);
  for (const wire::Member& member : a->view()->members) EXPECT_FALSE(member.key.is_none());
}

TEST_F(SecuredRun, EachKindOfTokenThatDoesNotAdmitGetsItsReason) {
  wire::RunToken wrong = *wire::parse_run_token(server->token());
  wrong.secret.front() ^= 1U;
  EXPECT_THAT(refusal(wire::text_of(wrong)), HasSubstr("is not one of this run"));
  wire::RunToken unknown = *wire::parse_run_token(server->token());
  unknown.id.value ^= 1U;
  EXPECT_THAT(refusal(wire::text_of(unknown)), HasSubstr("is not one of this run"));
  EXPECT_THAT(refusal(token("old", [](TokenRecord& record) { record.expires = 1'000'000'000; })), HasSubstr("expired"));
  const std::string observer = token("watcher", [](TokenRecord& record) { record.role = io::Role::kObserver; });
  EXPECT_THAT(refusal(observer), HasSubstr("observer"));
  EXPECT_TRUE(transport::query_status(observer, kLong).ok());
}

TEST_F(SecuredRun, ATokenForOnePeerAdmitsOne) {
  const std::string once = token("guest", [](TokenRecord& record) { record.single_use = true; });
  const auto guest = peer(1);
  expect_ok(guest->connect(once, kLong));
  EXPECT_THAT(refusal(once), HasSubstr("used"));
}

TEST_F(SecuredRun, ATokenOfAnotherCoordinatorAtThisAddressIsNoticedByTheDialler) {
  wire::RunToken other = *wire::parse_run_token(server->token());
  other.coordinator_key.bytes.back() ^= 1U;
  const Instant began = transport::now();
  EXPECT_THAT(refusal(wire::text_of(other)),
              AllOf(HasSubstr("another key than the run token names"), HasSubstr("trying again does not help")));
  EXPECT_LT((transport::now() - began).seconds(), 5.0) << "it does not wait for the time-out";
  other.coordinators.emplace_back("127.0.0.1:1");  // nothing listens there, yet
  EXPECT_THAT(refusal(wire::text_of(other), kShort),
              AllOf(HasSubstr("another key than the run token names"), HasSubstr("127.0.0.1:1: connection refused"),
                    HasSubstr("tried")));
}

TEST_F(SecuredRun, APlainPeerLearnsThatItNeedsAToken) {
  const std::string address = "127.0.0.1:" + std::to_string(server->address().port);
  EXPECT_THAT(refusal(address, kShort), HasSubstr("speaks TLS only: connect with the run token"));
  EXPECT_THAT(transport::query_status(address, kLong).error().text, HasSubstr("run token"));
}

// The other way round.
TEST_F(SecuredRun, APeerWithATokenLearnsThatTheCoordinatorHasNoTls) {
  CoordinatorServer::Options options;
  options.listen = "127.0.0.1:0";
  options.access.insecure = true;
  std::vector<std::string> heard;
  std::mutex mutex;
  options.log = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    heard.emplace_back(line);
  };
  const auto plain = CoordinatorServer::start(std::move(options));
  ASSERT_TRUE(plain.ok()) << plain.error().text;
  wire::RunToken text = *wire::parse_run_token(server->token());
  const std::string address = "127.0.0.1:" + std::to_string((*plain)->address().port);
  text.coordinators = {address};
  const Instant began = transport::now();
  EXPECT_THAT(refusal(wire::text_of(text)),
              AllOf(HasSubstr("the coordinator there speaks no TLS"), HasSubstr("Connect with HOST:PORT alone"),
                    HasSubstr("--tokens FILE"), HasSubstr("trying again does not help")));
  const auto asked = transport::query_status(wire::text_of(text), kLong);
  ASSERT_FALSE(asked.ok());
  EXPECT_THAT(asked.error().text, HasSubstr("the coordinator there speaks no TLS"));
  EXPECT_LT((transport::now() - began).seconds(), 5.0) << "it does not wait for the time-out";
  {
    const std::lock_guard lock(mutex);
    ASSERT_FALSE(heard.empty());
    EXPECT_THAT(heard.front(), HasSubstr("this coordinator speaks no TLS, and was called with a run token"));
  }
  text.coordinators.emplace_back("127.0.0.1:1");  // nothing listens there, yet
  EXPECT_THAT(refusal(wire::text_of(text), kShort), AllOf(HasSubstr("speaks no TLS"), HasSubstr("tried")));
}

TEST_F(SecuredRun, ARevokedTokenEndsItsPeersWithinASecondAndTheRunGoesOn) {
  const std::string of_b = token("b");
  const auto a = peer(2);
  const auto b = peer(2);
  const Work joins_a = a->connect(server->token(), kLong);
  expect_ok(b->connect(of_b, kLong));
  expect_ok(joins_a);
  const std::vector<float> ones(1000, 1);
  std::vector<float> result(ones.size());
  const auto waits = b->launch(sum(ones, result));  // ends with the run of b
  ASSERT_TRUE(waits.ok());
  const Instant began = transport::now();
  ASSERT_FALSE(transport::change_token_file(file(), [](TokenFile& tokens) -> std::optional<Error> {
    const auto revoked = transport::revoke_token(tokens, "b");
    return revoked ? std::nullopt : std::optional(revoked.error());
  }));
  ASSERT_TRUE(waits->wait(kLong));
  EXPECT_LT((transport::now() - began).seconds(), 1.0);
  EXPECT_THAT(waits->outcome().text, HasSubstr("was revoked"));
  while (a->view()->members.size() > 1) std::this_thread::yield();
  std::vector<float> alone(ones.size());
  const auto goes_on = a->launch(sum(ones, alone));
  expect_ok(*goes_on);
  EXPECT_EQ(goes_on->outcome().world, 1U);
  EXPECT_THAT(refusal(of_b), HasSubstr("revoked"));
}

TEST_F(SecuredRun, AnAdministratorEvictsAPeerAndTheRunGoesOn) {
  const std::string admin = token("operator", [](TokenRecord& record) { record.role = io::Role::kAdmin; });
  const std::string watcher = token("watcher", [](TokenRecord& record) { record.role = io::Role::kObserver; });
  const auto a = peer(2);
  const auto b = peer(2);
  const Work joins_a = a->connect(server->token(), kLong);
  expect_ok(b->connect(server->token(), kLong));
  expect_ok(joins_a);
  const std::vector<float> ones(1000, 1);
  std::vector<float> result(ones.size());
  const auto waits = b->launch(sum(ones, result));  // ends with the run of b
  ASSERT_TRUE(waits.ok());
  const auto by_observer = transport::evict_peer(watcher, b->self(), kLong);
  ASSERT_FALSE(by_observer.ok());
  EXPECT_EQ(by_observer.error().status, Status::kRefused);
  EXPECT_THAT(by_observer.error().text, HasSubstr("is for observers, which may not evict peers"));
  const auto evicted = transport::evict_peer(admin, b->self(), kLong);
  ASSERT_TRUE(evicted.ok()) << evicted.error().text;
  EXPECT_TRUE(evicted->evicted);
  ASSERT_TRUE(waits->wait(kLong));
  EXPECT_THAT(waits->outcome().text, HasSubstr("an administrator (token "));
  EXPECT_THAT(waits->outcome().text, HasSubstr("(operator)) has evicted this peer"));
  while (a->view()->members.size() > 1) std::this_thread::yield();
  std::vector<float> alone(ones.size());
  const auto goes_on = a->launch(sum(ones, alone));
  expect_ok(*goes_on);
  EXPECT_EQ(goes_on->outcome().world, 1U);
  const auto again = transport::evict_peer(admin, b->self(), kLong);
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->evicted);
  EXPECT_THAT(refusal(admin), HasSubstr("is for administrators"));
}

// ---- what passes over the wire ----

bool holds(const std::vector<std::byte>& bytes, std::span<const std::byte> part) {
  return std::search(bytes.begin(), bytes.end(), part.begin(), part.end()) != bytes.end();
}

// Every record of each direction would have to be parsed apart; it is enough that no known byte sequence appears.
TEST_F(SecuredRun, NoNameKeyOrTensorPassesInClear) {
  Proxy to_coordinator(server->address().port);
  ReservedPort listens;
  Proxy to_peer(listens.port());
  to_coordinator.listen_in();
  to_peer.listen_in();
  to_coordinator.start();
  to_peer.start();
  wire::RunToken through = *wire::parse_run_token(server->token());
  through.coordinators = {"127.0.0.1:" + std::to_string(to_coordinator.port())};

  // Whichever peer dials, it dials through the proxy: both advertise it.
  CommunicatorOptions options;
  options.listen_host = "127.0.0.1";
  options.peer.founders = 2;
  options.peer.name = "a-name-in-clear";
  options.peer.first_port = listens.port();
  options.peer.advertised.port = to_peer.port();
  auto made = Communicator::create(options);
  ASSERT_TRUE(made.ok());
  const auto a = std::move(*made);
  std::unique_ptr<Communicator> b;
  do {
    b = peer(2, "b");  // the peer with the smaller id dials: b
  } while (!(b->self() < a->self()));
  const Work joins_a = a->connect(wire::text_of(through), kLong);
  expect_ok(b->connect(wire::text_of(through), kLong));
  expect_ok(joins_a);
  std::vector<float> values(50'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) + 0.25F;
  std::vector<float> of_a(values.size());
  std::vector<float> of_b(values.size());
  const auto work = a->launch(sum(values, of_a));
  expect_ok(*b->launch(sum(values, of_b)));
  expect_ok(*work);

  const auto as_bytes = [](const auto& of) { return std::as_bytes(std::span(of.data(), of.size())); };
  const std::string magic = "LOCKSTEP";
  const std::string proof = "LKSPROOF";
  const std::string name = options.peer.name;
  for (const Proxy* const proxy : {&to_coordinator, &to_peer}) {
    const std::vector<std::byte> heard = proxy->heard();
    EXPECT_GT(heard.size(), 1000U);
    EXPECT_EQ(heard.front(), std::byte{22}) << "a TLS handshake";
    for (const std::string& word : {magic, proof, name}) EXPECT_FALSE(holds(heard, as_bytes(word))) << word;
    EXPECT_FALSE(holds(heard, as_bytes(through.secret)));
    for (const std::vector<float>* const tensor : {&values, &of_a}) {
      for (std::size_t at = 0; at + 8 < tensor->size(); at += 997) {
        EXPECT_FALSE(holds(heard, std::as_bytes(std::span(*tensor).subspan(at, 8))));
      }
    }
  }
  EXPECT_GT(to_peer.heard().size(), values.size() * sizeof(float)) << "the tensors did not pass here";
}

TEST_F(SecuredRun, RepeatedBytesOfAPeerAreWorthNothing) {
  Proxy proxy(server->address().port);
  proxy.listen_in();
  proxy.start();
  wire::RunToken through = *wire::parse_run_token(server->token());
  through.coordinators = {"127.0.0.1:" + std::to_string(proxy.port())};
  const auto a = peer(1);
  expect_ok(a->connect(wire::text_of(through), kLong));
  const std::vector<std::byte> said = proxy.first_dialler_said();
  ASSERT_GT(said.size(), 300U);

  const std::uint64_t admitted = server->snapshot().admitted;
  asio::io_context io;
  asio::ip::tcp::socket replays(io);
  replays.connect({asio::ip::address_v4::loopback(), server->address().port});
  asio::write(replays, asio::buffer(said));
  std::vector<char> answer(65'536);
  std::error_code error;
  asio::read(replays, asio::buffer(answer), error);  // until the coordinator closes
  EXPECT_TRUE(error);
  EXPECT_EQ(server->snapshot().admitted, admitted);
  EXPECT_EQ(server->snapshot().waiting.size(), 0U);
  EXPECT_EQ(server->snapshot().view.members.size(), 1U);
}

// ---- other programs ----

// A client of OpenSSL over a socket of its own; returns the reason why its handshake failed.
std::string handshake_of(std::uint16_t port, int version, bool with_key) {
  transport::tls::begin_openssl();
  const transport::tls::ContextPtr context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_max_proto_version(context.get(), version);
  const auto keys = transport::tls::KeyPair::generate();
  if (with_key) {
    SSL_CTX_use_certificate(context.get(), keys.certificate());
    SSL_CTX_use_PrivateKey(context.get(), keys.key());
  }
  asio::io_context io;
  asio::ip::tcp::socket socket(io);
  socket.connect({asio::ip::address_v4::loopback(), port});
  const transport::tls::SslPtr ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), socket.native_handle());
  if (SSL_connect(ssl.get()) != 1) return transport::tls::take_error();
  char byte = 0;
  if (SSL_read(ssl.get(), &byte, 1) <= 0)
    return transport::tls::take_error();  // TLS 1.3: the answer to the client's key
  return "no failure";
}

TEST_F(SecuredRun, OlderTlsAndClientsWithoutAKeyAreRefused) {
  const std::uint16_t port = server->address().port;
  EXPECT_THAT(handshake_of(port, TLS1_2_VERSION, true), HasSubstr("protocol version"));
  EXPECT_THAT(handshake_of(port, TLS1_3_VERSION, false), HasSubstr("certificate required"));
}

TEST_F(SecuredRun, TheLogNamesTokensAndShowsNoSecret) {
  const std::string text = server->token();
  const auto a = peer(1);
  expect_ok(a->connect(text, kLong));
  (void)refusal("127.0.0.1:" + std::to_string(server->address().port), kShort);
  const std::string id = wire::name_of(wire::parse_run_token(text)->id);
  bool named = false;
  for (const std::string& line : lines()) {
    named = named || line.find(id) != std::string::npos;
    EXPECT_EQ(line.find(text.substr(5, 40)), std::string::npos) << line;
  }
  EXPECT_TRUE(named);
}

}  // namespace
}  // namespace lockstep::testing
