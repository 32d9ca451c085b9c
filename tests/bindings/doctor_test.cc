// `lockstep doctor` from a shell: real sockets on loopback, and each broken set-up that loopback can have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/wire/codec.h"
#include "core/wire/run_token.h"
#include "tests/support/process.h"
#include "tests/support/shell.h"
#include "tests/transport/temporary_folder.h"
#include "transport/coordinator_server.h"
#include "transport/token_file.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using transport::TokenRecord;

constexpr Duration kSoon = seconds(60);  // a passing test never waits so long

// With a short time limit for the addresses that do not answer, and a long one for all others.
Ran examine(const std::string& words, double timeout_s = 60) {
  return run_in_shell(LOCKSTEP_CLI " doctor --timeout " + std::to_string(timeout_s) + " " + words);
}

// A coordinator in a process of its own, on a free port of loopback. Without a token file it is plain.
class CoordinatorChild {
 public:
  explicit CoordinatorChild(const std::string& token_file = {})
      : process_([&](Parent& parent) {
          transport::CoordinatorServer::Options options;
          options.listen = "127.0.0.1:0";
          options.access.token_file = token_file;
          const auto server = transport::CoordinatorServer::start(std::move(options));
          if (!server.ok()) return 1;
          parent.say((*server)->address().text());
          while (parent.hear()) {
          }
          return 0;
        }),
        address_(process_.hear(kSoon).value_or("")) {}
  [[nodiscard]] const std::string& address() const { return address_; }
  void end() {
    process_.hang_up();
    EXPECT_EQ(process_.exit_status(kSoon), 0);
  }

 private:
  Process process_;
  std::string address_;
};

// A socket that listens on a free port of loopback, and accepts nothing by itself.
class Port {
 public:
  explicit Port(int backlog) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(::listen(socket_, backlog), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    port_ = ntohs(at.sin_port);
  }
  ~Port() { ::close(socket_); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  [[nodiscard]] int socket() const { return socket_; }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  // A client that connects, or tries to.
  [[nodiscard]] int connect() const {
    const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(port_);
    (void)::connect(client, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    return client;
  }

 private:
  int socket_;
  std::uint16_t port_ = 0;
};

// A port whose queue is full: the kernel drops further attempts to connect, as a firewall does.
class FullPort : public Port {
 public:
  FullPort() : Port(0) {
    for (int& client : clients_) client = connect();
  }
  ~FullPort() {
    for (const int client : clients_) ::close(client);
  }
  FullPort(const FullPort&) = delete;
  FullPort& operator=(const FullPort&) = delete;

 private:
  std::array<int, 4> clients_{};
};

// Another service: says its words to each client, at once or after the first line that it receives.
class Service {
 public:
  enum class Says : std::uint8_t { kAtOnce, kAfterALine };
  Service(std::string words, Says when) : words_(std::move(words)), when_(when), thread_([this] { serve(); }) {}
  ~Service() {
    ::shutdown(port_.socket(), SHUT_RDWR);  // ends accept()
    thread_.join();
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  [[nodiscard]] std::string address() const { return port_.address(); }

 private:
  // A client that waits for words keeps its connection; the next one is served after it has gone.
  void serve() const {
    for (int client = 0; (client = ::accept4(port_.socket(), nullptr, nullptr, SOCK_CLOEXEC)) >= 0; ::close(client)) {
      if (when_ == Says::kAtOnce) say(client);
      std::array<char, 256> bytes{};
      for (ssize_t size = 0; (size = ::recv(client, bytes.data(), bytes.size(), 0)) > 0;) {
        const std::string_view heard(bytes.data(), static_cast<std::size_t>(size));
        if (when_ == Says::kAfterALine && heard.find('\n') != std::string_view::npos) say(client);
      }
    }
  }
  void say(int client) const { ::send(client, words_.data(), words_.size(), MSG_NOSIGNAL); }

  std::string words_;
  Says when_;
  Port port_{16};
  std::thread thread_;
};

// A coordinator with run tokens, whose file has been changed before it started.
struct SecuredCoordinator {
  explicit SecuredCoordinator(const std::string& file) {
    CoordinatorChild(file).end();  // creates the file
    make(valid, 0, file);
    make(expired, 1, file);  // in 1970
    make(revoked, 0, file);
    EXPECT_FALSE(transport::change_token_file(file, [&](transport::TokenFile& tokens) -> std::optional<Error> {
      const auto gone = transport::revoke_token(tokens, wire::name_of(revoked.id));
      return gone ? std::nullopt : std::optional(gone.error());
    }));
    child.emplace(file);
    contents = *transport::load_token_file(file);
  }
  static void make(TokenRecord& token, std::int64_t expires, const std::string& file) {
    token = transport::random_token();
    token.expires = expires;
    EXPECT_FALSE(transport::change_token_file(
        file, [&](transport::TokenFile& tokens) { return transport::add_token(tokens, token); }));
  }
  // The text of a token, with this address of a coordinator.
  [[nodiscard]] std::string text_of(const TokenRecord& token, const std::string& address) const {
    return wire::text_of(transport::run_token(contents, token, {address}));
  }
  [[nodiscard]] std::string text_of(const TokenRecord& token) const { return text_of(token, child->address()); }

  TokenRecord valid;
  TokenRecord expired;
  TokenRecord revoked;
  transport::TokenFile contents;
  std::optional<CoordinatorChild> child;
};

TEST(Doctor, ExaminesTheMachine) {
  const Ran ran = run_in_shell("ulimit -n 1024; " LOCKSTEP_CLI " doctor");
  EXPECT_EQ(ran.code, 0) << ran.text;
  for (const char* check : {" build ", " processor ", " memory ", " descriptors ", " congestion ", " receive ",
                            " send ", " clock ", " addresses ", " advertised "}) {
    EXPECT_THAT(ran.text, HasSubstr(check));
  }
  EXPECT_THAT(ran.text, HasSubstr(", 0 failed\n"));
}

TEST(Doctor, FailsWithFewDescriptors) {
  const Ran ran = run_in_shell("ulimit -n 64; " LOCKSTEP_CLI " doctor");
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.text, HasSubstr("failed   descriptors  up to 64 open files"));
  EXPECT_THAT(ran.text, HasSubstr("-> streams to two neighbours need more: run `ulimit -n 4096`"));
}

TEST(Doctor, AnswersInJson) {
  const CoordinatorChild coordinator;
  const Ran ran = run_in_shell(LOCKSTEP_CLI " doctor --json " + coordinator.address(), "2>/dev/null");
  const auto json = nlohmann::json::parse(ran.text);
  EXPECT_EQ(json["version"], 1);
  EXPECT_NE(json["grade"], "failed");
  std::string checks;
  for (const auto& finding : json["findings"]) {
    checks += finding["check"].get<std::string>() + " ";
    EXPECT_TRUE(finding["values"].is_object());
    EXPECT_EQ(finding["values"].value("count", 5), 5);  // of round_trip
    EXPECT_EQ(finding["values"].value("outcome", "answers"), "answers");
  }
  EXPECT_THAT(checks, HasSubstr("advertised address protection round_trip run "));
}

TEST(Doctor, WrongUsageNamesNoCoordinator) {
  for (const char* words : {"nonsense", "''", "host:1,", "env:LOCKSTEP_NO_SUCH_VARIABLE", "file:/no/such/file",
                            "127.0.0.1:1 --timeout 0", "127.0.0.1:1 --jsn"}) {
    const Ran ran = run_in_shell(std::string(LOCKSTEP_CLI " doctor ") + words);
    EXPECT_EQ(ran.code, 2) << words << ran.text;
  }
}

// ---- a coordinator that answers ----

TEST(Doctor, FindsAPlainCoordinator) {
  const CoordinatorChild coordinator;
  const Ran ran = examine(coordinator.address());
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr(coordinator.address() + ": a coordinator, protocol version 1; answered after "));
  EXPECT_THAT(ran.text, HasSubstr("no TLS: streams within this machine"));
  EXPECT_THAT(ran.text, HasSubstr("of 5 connections"));
  EXPECT_THAT(ran.text, HasSubstr("0 members, 0 waiting; up "));
}

TEST(Doctor, FindsASecuredCoordinatorAndShowsNoSecret) {
  const transport::TemporaryFolder folder;
  const SecuredCoordinator coordinator(folder / "run.tokens");
  const std::string token = coordinator.text_of(coordinator.valid);
  for (const char* json : {"", " --json"}) {
    const Ran ran = examine(token + json);
    EXPECT_EQ(ran.code, 0) << wire::redacted(ran.text);
    EXPECT_THAT(ran.text,
                HasSubstr("token " + wire::name_of(coordinator.valid.id) + " for members, without an end: accepted"));
    EXPECT_EQ(ran.text.find(wire::kRunTokenPrefix), std::string::npos);
  }
}

TEST(Doctor, NamesADeadFirstAddress) {
  const FullPort dead;
  const CoordinatorChild coordinator;
  const Ran ran = examine(dead.address() + "," + coordinator.address(), 2);
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text,
              HasSubstr("warning  address      " + dead.address() + ": no answer to the connection within 2 s"));
  EXPECT_THAT(ran.text, HasSubstr("take it out of the name or the token"));
  EXPECT_THAT(ran.text, HasSubstr("ok       address      " + coordinator.address() + ": a coordinator"));
}

// ---- broken set-ups ----

TEST(Doctor, NamesAHostThatDoesNotResolve) {
  const Ran ran = examine("no-such-host.invalid:4000");
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.text, HasSubstr("failed   name         cannot resolve 'no-such-host.invalid'"));
  EXPECT_THAT(ran.text, HasSubstr("-> correct the name, or the name servers of this machine"));
}

// Found by an attack: such a name reached the terminal as it is, and ended the doctor in JSON.
TEST(Doctor, ShowsAnyBytesOfANameAsPlainText) {
  for (const std::string flags : {"", " --json"}) {
    const Ran ran = examine("$(printf '\\033[2J\\377.invalid:4000')" + flags);
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.text, HasSubstr("cannot resolve '?[2J?.invalid'"));
    EXPECT_EQ(ran.text.find('\033'), std::string::npos);
  }
}

TEST(Doctor, NamesARefusedPort) {
  std::string address;
  {
    const Port gone(1);
    address = gone.address();
  }
  const Ran ran = examine(address);
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.text, HasSubstr("failed   address      " + address + ": nothing listens there"));
  EXPECT_THAT(ran.text, HasSubstr("-> start `lockstep coordinator` on that machine"));
}

TEST(Doctor, NamesDroppedPackets) {
  const FullPort dead;
  const Ran ran = examine(dead.address(), 0.2);
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.text, HasSubstr(dead.address() + ": no answer to the connection within 0.2 s"));
  EXPECT_THAT(ran.text, HasSubstr("-> let TCP port "));
}

TEST(Doctor, NamesASilentPort) {
  const transport::TemporaryFolder folder;
  const SecuredCoordinator coordinator(folder / "run.tokens");
  const Port silent(16);
  for (const std::string& text : {silent.address(), coordinator.text_of(coordinator.valid, silent.address())}) {
    const Ran ran = examine(text, 1);
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.text, HasSubstr(silent.address() + ": accepts the connection, and says nothing within 1 s"));
    EXPECT_THAT(ran.text, HasSubstr("-> correct the port"));
  }
}

TEST(Doctor, NamesOtherServices) {
  const transport::TemporaryFolder folder;
  const SecuredCoordinator coordinator(folder / "run.tokens");
  const struct {
    std::string words;
    Service::Says when;
    const char* found;
  } services[] = {{"HTTP/1.0 400 Bad Request\r\n\r\n", Service::Says::kAfterALine, "not a coordinator: an HTTP server"},
                  {"SSH-2.0-OpenSSH_9.2\r\n", Service::Says::kAtOnce, "not a coordinator: an SSH server"}};
  for (const auto& [words, when, found] : services) {
    const Service service(words, when);
    for (const std::string& text : {service.address(), coordinator.text_of(coordinator.valid, service.address())}) {
      const Ran ran = examine(text, when == Service::Says::kAtOnce ? 60 : 2);
      EXPECT_EQ(ran.code, 1);
      EXPECT_THAT(ran.text, HasSubstr(service.address() + ": " + found));
      EXPECT_THAT(ran.text, HasSubstr("-> correct the port"));
    }
  }
}

TEST(Doctor, NamesAnotherVersion) {
  std::vector<std::byte> preamble;
  wire::encode(wire::Preamble{wire::kVersion + 1, 0}, preamble);
  const Service service({reinterpret_cast<const char*>(preamble.data()), preamble.size()}, Service::Says::kAtOnce);
  const Ran ran = examine(service.address());
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.text,
              AllOf(HasSubstr("a coordinator of another release"), HasSubstr("speaks version 2 of the protocol")));
  EXPECT_THAT(ran.text, HasSubstr("-> run the same release on both sides"));
}

TEST(Doctor, NamesAPlainCoordinatorThatIsAskedWithAToken) {
  const transport::TemporaryFolder folder;
  const SecuredCoordinator secured(folder / "run.tokens");
  const CoordinatorChild plain;
  const Ran ran = examine(secured.text_of(secured.valid, plain.address()));
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.text, HasSubstr(plain.address() + ": a coordinator without TLS: it has no tokens"));
  EXPECT_THAT(ran.text, HasSubstr("-> connect with " + plain.address() + " instead of the token"));
}

TEST(Doctor, NamesASecuredCoordinatorThatIsAskedWithoutAToken) {
  const transport::TemporaryFolder folder;
  const SecuredCoordinator coordinator(folder / "run.tokens");
  const Ran ran = examine(coordinator.child->address());
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.text, HasSubstr(coordinator.child->address() + ": a coordinator that speaks TLS only"));
  EXPECT_THAT(ran.text, HasSubstr("-> connect with the run token (lks1_...)"));
}

TEST(Doctor, NamesATokenThatTheCoordinatorRefuses) {
  const transport::TemporaryFolder folder;
  const SecuredCoordinator coordinator(folder / "run.tokens");
  const Ran expired = examine(coordinator.text_of(coordinator.expired));
  EXPECT_EQ(expired.code, 1);
  EXPECT_THAT(expired.text, HasSubstr("until 1970-01-01T00:00:01Z: expired; this machine's clock says "));
  EXPECT_THAT(expired.text, HasSubstr("-> ask for a new token"));
  for (const TokenRecord& token : {coordinator.revoked, transport::random_token()}) {
    const Ran ran = examine(coordinator.text_of(token));
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.text, HasSubstr("token " + wire::name_of(token.id) +
                                    " is not one of this run: it was revoked, or is of another run"));
    EXPECT_THAT(ran.text, HasSubstr("-> ask for a new token"));
    EXPECT_EQ(ran.text.find(coordinator.text_of(token)), std::string::npos);
  }
}

TEST(Doctor, NamesATokenOfAnotherCoordinator) {
  const transport::TemporaryFolder folder;
  const SecuredCoordinator one(folder / "one.tokens");
  const SecuredCoordinator two(folder / "two.tokens");
  const Ran ran = examine(one.text_of(one.valid, two.child->address()));
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.text, HasSubstr(two.child->address() + ": another coordinator than that of the token"));
  EXPECT_THAT(ran.text, HasSubstr("-> ask for a token of the coordinator that runs there"));
}

}  // namespace
}  // namespace lockstep::testing
