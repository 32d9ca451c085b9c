// The judgement of `lockstep doctor` on the way to a coordinator: each broken set-up with its remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/doctor/coordinator_checks.h"
#include "bindings/cli/doctor/first_words.h"
#include "bindings/cli/doctor/machine_checks.h"
#include "transport/address.h"

namespace lockstep::cli::doctor {
namespace {

using ::testing::HasSubstr;
using transport::Inquiry;

const std::string kPlainWords = "LOCKSTEP";  // the magic of every Lockstep stream

Inquiry answer(wire::StatusReply reply = {}) {
  return {std::move(reply), milliseconds(60), {true, milliseconds(20), {}, {}, kPlainWords}};
}
Inquiry refusal(const std::string& text) {
  return {Error{Status::kRefused, text}, milliseconds(60), {true, milliseconds(20), {}, {}, kPlainWords}};
}
// Before any program accepted the stream.
Inquiry no_connection(io::CloseReason reason, const std::string& why) {
  return {Error{Status::kUnreachable, why}, milliseconds(1), {false, {}, reason, why, {}}};
}
Inquiry no_answer() { return {Error{Status::kTimedOut, "no answer"}, seconds(3)}; }
// By a program that accepted the stream.
Inquiry wrong(Status status, const std::string& first_bytes) {
  return {Error{status, "it says something else"}, milliseconds(60), {true, milliseconds(20), {}, {}, first_bytes}};
}
Inquiry closed_after_connecting() {
  return {Error{Status::kUnreachable, "closed"},
          milliseconds(60),
          {true, milliseconds(20), io::CloseReason::kEnd, "closed by the other side", {}}};
}

io::Address address(const std::string& host) { return transport::parse_literal(host, 4000); }

constexpr std::int64_t kNow = 1'800'000'000;  // 2027-01-15T08:00:00Z

CoordinatorFacts healthy_way() {
  CoordinatorFacts facts;
  facts.way = Way::kToken;
  facts.token = transport::TokenTerms{io::TokenId{0xabc}, io::Role::kMember, kNow + 864'000};
  facts.names.push_back({"coordinator.example:4000", false, std::vector{address("203.0.113.5")}, milliseconds(12)});
  facts.addresses.push_back({address("203.0.113.5"), answer()});
  facts.patience = seconds(3);
  facts.utc = kNow;
  facts.round_trips = {milliseconds(25), milliseconds(20), milliseconds(22)};
  return facts;
}

// Without an answer, there is no round trip.
void asked_with(CoordinatorFacts& facts, Inquiry inquiry) {
  facts.addresses[0].asked = std::move(inquiry);
  facts.round_trips.clear();
}

Finding find_wrong(const CoordinatorFacts& facts, const std::string& check) {
  const Findings findings = check_coordinator(facts);
  const auto found = std::ranges::find_if(
      findings, [&](const Finding& each) { return each.check == check && each.grade != Grade::kOk; });
  EXPECT_NE(found, findings.end()) << check;
  return found == findings.end() ? Finding{} : *found;
}

TEST(DoctorCoordinator, AHealthyRunIsOkInEveryCheck) {
  std::string checks;
  for (const Finding& finding : check_coordinator(healthy_way())) {
    EXPECT_EQ(finding.grade, Grade::kOk) << finding.check;
    EXPECT_EQ(finding.remedy, "") << finding.check;
    checks += finding.check + " ";
  }
  EXPECT_EQ(checks, "name address token protection round_trip run ");
}

TEST(DoctorCoordinator, FindingsHaveTheirValues) {
  const Findings findings = check_coordinator(healthy_way());
  EXPECT_EQ(findings[0].found, "coordinator.example:4000 is 203.0.113.5:4000 (looked up in 12 ms)");
  EXPECT_EQ(findings[1].found, "203.0.113.5:4000: a coordinator, protocol version 1; answered after 60 ms");
  EXPECT_EQ(findings[1].values["outcome"], "answers");
  EXPECT_EQ(findings[2].found, "token 0000000000000abc for members, until 2027-01-25T08:00:00Z: accepted");
  EXPECT_EQ(findings[4].found, "20 ms to the coordinator at least, median 22 ms, of 3 connections");
  EXPECT_THAT(findings[5].found, HasSubstr("0 members, 0 waiting; up 0 s"));
}

struct WrongTurn {
  const char* name;
  std::function<void(CoordinatorFacts&)> breaks;
  const char* check;
  Grade grade;
  const char* found;
  const char* remedy;
};

class BrokenWay : public ::testing::TestWithParam<WrongTurn> {};

TEST_P(BrokenWay, IsNamedWithItsRemedy) {
  const WrongTurn& broken = GetParam();
  CoordinatorFacts facts = healthy_way();
  broken.breaks(facts);
  const Finding finding = find_wrong(facts, broken.check);
  EXPECT_EQ(finding.grade, broken.grade);
  EXPECT_THAT(finding.found, HasSubstr(broken.found));
  EXPECT_THAT(finding.remedy, HasSubstr(broken.remedy));
}

// The address is plain, as of a coordinator of this machine.
void ask_in_plain(CoordinatorFacts& facts) {
  facts.way = Way::kPlain;
  facts.token.reset();
}

INSTANTIATE_TEST_SUITE_P(
    DoctorCoordinator, BrokenWay,
    ::testing::Values(
        WrongTurn{"NameDoesNotResolve",
               [](auto& f) {
                 f.names[0].addresses = Error{Status::kUnreachable, "cannot resolve 'coordinator.example'"};
                 f.addresses.clear();
                 f.round_trips.clear();
               },
               "name", Grade::kFailed, "cannot resolve 'coordinator.example'", "/etc/resolv.conf"},
        WrongTurn{"OneNameOfTwoDoesNotResolve",
               [](auto& f) {
                 const Error error{Status::kUnreachable, "cannot resolve 'old.example'"};
                 f.names.push_back({"old.example:4000", false, error});
               },
               "name", Grade::kWarning, "cannot resolve 'old.example'", "correct the name"},
        WrongTurn{"DeadFirstAddress",
               [](auto& f) {
                 f.addresses.insert(f.addresses.begin(), {address("2001:db8::5"), no_answer(), no_answer()});
               },
               "address", Grade::kWarning, "[2001:db8::5]:4000: no answer to the connection within 3 s",
               "take it out of the name or the token"},
        WrongTurn{"NoRouteToTheFirstAddress",
               [](auto& f) {
                 f.addresses.insert(f.addresses.begin(),
                                    {address("2001:db8::5"),
                                     no_connection(io::CloseReason::kUnreachable, "Network is unreachable")});
               },
               "address", Grade::kWarning, "this machine cannot send there: Network is unreachable", "IPv6"},
        WrongTurn{"PortRefused",
               [](auto& f) { asked_with(f, no_connection(io::CloseReason::kRefused, "Connection refused")); },
               "address",
               Grade::kFailed, "203.0.113.5:4000: nothing listens there", "start `lockstep coordinator`"},
        WrongTurn{"PacketsAreDropped",
               [](auto& f) {
                 asked_with(f, no_answer());
                 f.addresses[0].in_plain = no_answer();
               },
               "address", Grade::kFailed, "no answer to the connection within 3 s", "let TCP port 4000 pass"},
        WrongTurn{"TheSystemGivesUp",
               [](auto& f) {
                 ask_in_plain(f);
                 asked_with(f, no_connection(io::CloseReason::kTimedOut, "Connection timed out"));
               },
               "address", Grade::kFailed, "no answer to the connection", "let TCP port 4000 pass"},
        WrongTurn{"AnotherFailureOfTheConnection",
               [](auto& f) {
                 ask_in_plain(f);
                 asked_with(f, no_connection(io::CloseReason::kFailed, "Too many open files"));
               },
               "address", Grade::kFailed, "cannot connect: Too many open files", "network of this machine"},
        WrongTurn{"SilentPort",
               [](auto& f) {
                 asked_with(f, no_answer());
                 f.addresses[0].in_plain = wrong(Status::kTimedOut, "");
               },
               "address", Grade::kFailed, "accepts the connection, and says nothing within 3 s", "correct the port"},
        WrongTurn{"PortThatHangsUp",
               [](auto& f) {
                 ask_in_plain(f);
                 asked_with(f, closed_after_connecting());
               },
               "address", Grade::kFailed, "ends it: closed by the other side",
               "streams without TLS from other machines"},
        WrongTurn{"HttpServer",
               [](auto& f) {
                 asked_with(f, no_connection(io::CloseReason::kFailed, "the other side does not speak TLS"));
                 f.addresses[0].in_plain = wrong(Status::kProtocolError, "HTTP/1.1");
               },
               "address", Grade::kFailed, "not a coordinator: an HTTP server", "correct the port"},
        WrongTurn{"HttpServerThatWaitsForALine",
               [](auto& f) {
                 ask_in_plain(f);
                 asked_with(f, wrong(Status::kTimedOut, ""));
                 f.addresses[0].first_words = "HTTP/1.0 200 OK";
               },
               "address", Grade::kFailed, "an HTTP server", "correct the port"},
        WrongTurn{"HttpsServer",
               [](auto& f) {
                 asked_with(f, no_connection(io::CloseReason::kRejected, "another key"));
                 f.addresses[0].in_plain = wrong(Status::kProtocolError, std::string("\x15\x03\x01\0\2", 5));
               },
               "address", Grade::kFailed, "a program that speaks TLS, and is no coordinator", "correct the port"},
        WrongTurn{"AnotherVersion",
               [](auto& f) { asked_with(f, wrong(Status::kProtocolError, kPlainWords)); }, "address",
               Grade::kFailed, "a coordinator of another release", "the same release on both sides"},
        WrongTurn{"PlainCoordinatorWithAToken",
               [](auto& f) {
                 asked_with(f, no_connection(io::CloseReason::kFailed, "the other side does not speak TLS"));
                 f.addresses[0].in_plain = answer();
               },
               "address", Grade::kFailed, "a coordinator without TLS",
               "connect with 203.0.113.5:4000 instead of the token"},
        WrongTurn{"TlsCoordinatorWithoutAToken",
               [](auto& f) {
                 ask_in_plain(f);
                 asked_with(f, refusal("this side speaks TLS only"));
               },
               "address", Grade::kFailed, "a coordinator that speaks TLS only", "run token (lks1_...)"},
        WrongTurn{"TlsCoordinatorOfAnotherMachineWithoutAToken",
               [](auto& f) {
                 ask_in_plain(f);
                 asked_with(f, no_connection(io::CloseReason::kRejected, "a plain stream to another machine"));
                 f.addresses[0].in_plain = refusal("this side speaks TLS only");
               },
               "address", Grade::kFailed, "a coordinator that speaks TLS only", "run token (lks1_...)"},
        WrongTurn{"PlainCoordinatorOfAnotherMachine",
               [](auto& f) {
                 ask_in_plain(f);
                 asked_with(f, no_connection(io::CloseReason::kRejected, "a plain stream to another machine"));
                 f.addresses[0].in_plain = answer();
               },
               "address", Grade::kFailed, "a coordinator without TLS, on another machine", "--insecure"},
        WrongTurn{"ExpiredToken",
               [](auto& f) {
                 asked_with(f, refusal("token 0000000000000abc has expired"));
                 f.token->expires = kNow - 1;
               },
               "token", Grade::kFailed,
               "until 2027-01-15T07:59:59Z: expired; this machine's clock says 2027-01-15T08:00:00Z",
               "--expires 7d"},
        WrongTurn{"RevokedToken",
               [](auto& f) {
                 const std::string token = "token 0000000000000abc is not one of this run: it was revoked";
                 asked_with(f, refusal("203.0.113.5:4000: " + token));
               },
               "address", Grade::kFailed, "the coordinator refuses: token 0000000000000abc is not one of this run",
               "lockstep token list"},
        WrongTurn{"RefusedCertificate",
               [](auto& f) {
                 ask_in_plain(f);
                 f.way = Way::kCertificates;
                 asked_with(f, refusal("excluded"));
               },
               "address", Grade::kFailed, "the coordinator refuses: excluded", "an authority of the coordinator"},
        WrongTurn{"TokenOfAnotherCoordinator",
               [](auto& f) {
                 asked_with(f, no_connection(io::CloseReason::kRejected, "the key is not that of the token"));
                 f.addresses[0].in_plain = refusal("this side speaks TLS only");
               },
               "address", Grade::kFailed, "another coordinator than that of the token",
               "ask for a token of the coordinator that runs there"},
        WrongTurn{"AProxyBreaksTls",
               [](auto& f) {
                 asked_with(f, no_connection(io::CloseReason::kFailed, "the TLS handshake failed"));
                 f.addresses[0].in_plain = refusal("this side speaks TLS only");
               },
               "address", Grade::kFailed, "TLS fails: the TLS handshake failed", "no proxy"},
        WrongTurn{"AcceptedTokenThatHasExpiredHere", [](auto& f) { f.token->expires = kNow - 60; }, "token",
               Grade::kWarning, "expired; this machine's clock says", "the clocks differ"},
        WrongTurn{"TokenThatExpiresSoon", [](auto& f) { f.token->expires = kNow + 3600; }, "token", Grade::kWarning,
               "until 2027-01-15T09:00:00Z: accepted", "`lockstep token new`"},
        WrongTurn{"TokenOfAnObserver", [](auto& f) { f.token->role = io::Role::kObserver; }, "token", Grade::kWarning,
               "for observers", "may not join"},
        WrongTurn{"Insecure",
               [](auto& f) {
                 ask_in_plain(f);
                 f.way = Way::kInsecure;
               },
               "protection", Grade::kWarning, "no TLS (--insecure)", "a network that is trusted"},
        WrongTurn{"CallsWait",
               [](auto& f) {
                 wire::StatusReply reply;
                 reply.waits.emplace_back().text = "all_reduce with tag 0 has waited 35.2 s for c";
                 reply.waits.back().missing = {PeerId{3, 3}};
                 f.addresses[0].asked = answer(std::move(reply));
               },
               "waits", Grade::kWarning,
               "calls that wait: 1; the oldest: all_reduce with tag 0 has waited 35.2 s for c",
               "stands still"},
        WrongTurn{"ACallIsSlowThatAllHaveCalled",
               [](auto& f) {
                 wire::StatusReply reply;
                 reply.waits.emplace_back().text =
                     "all_reduce with tag 0 has waited 3.4 s: all 6 members have called it";
                 f.addresses[0].asked = answer(std::move(reply));
               },
               "waits", Grade::kWarning, "all 6 members have called it", "a link of it does not work"},
        WrongTurn{"NeighboursThatNobodyCanDial",
               [](auto& f) {
                 wire::StatusReply reply;
                 for (const std::string name : {"anna", "bob"}) {
                   wire::Member& member = reply.view.members.emplace_back();
                   member.name = name;
                   member.calls_out = true;
                 }
                 f.addresses[0].asked = answer(std::move(reply));
               },
               "run", Grade::kWarning, "2 members, 2 of them dial out only", "forward the port of one to it"},
        WrongTurn{"ATroubleOfTheLastMinute",
               [](auto& f) {
                 wire::StatusReply reply;
                 reply.troubles.resize(2);
                 reply.troubles[0].age = seconds(600);
                 reply.troubles[1].age = seconds(4);
                 reply.troubles[1].text = "c cannot reach a";
                 f.addresses[0].asked = answer(std::move(reply));
               },
               "troubles", Grade::kWarning, "1 in the last minute; the newest: c cannot reach a", "check the line"}),
    [](const auto& broken) { return broken.param.name; });

TEST(DoctorCoordinator, CountsTheMembersThatNobodyCanDial) {
  CoordinatorFacts facts = healthy_way();
  wire::StatusReply reply;
  reply.view.members.resize(3);
  reply.view.members[1].calls_out = true;
  facts.addresses[0].asked = answer(std::move(reply));
  const Finding run = check_coordinator(facts).back();
  EXPECT_THAT(run.found, HasSubstr("3 members, 1 of them dials out only"));
  EXPECT_EQ(run.values["calls_out"], 1);
}

TEST(DoctorCoordinator, OldTroublesAreOver) {
  CoordinatorFacts facts = healthy_way();
  wire::StatusReply reply;
  reply.troubles.emplace_back().age = seconds(61);
  facts.addresses[0].asked = answer(std::move(reply));
  for (const Finding& finding : check_coordinator(facts)) EXPECT_NE(finding.check, "troubles");
}

TEST(DoctorCoordinator, OnlyWhatIsKnownIsJudged) {
  CoordinatorFacts facts = healthy_way();
  asked_with(facts, no_connection(io::CloseReason::kRefused, "Connection refused"));
  std::string checks;
  for (const Finding& finding : check_coordinator(facts)) checks += finding.check + " ";
  EXPECT_EQ(checks, "name address ");
}

TEST(DoctorCoordinator, ALiteralAddressIsNoName) {
  CoordinatorFacts facts = healthy_way();
  facts.names[0].is_literal = true;
  EXPECT_EQ(check_coordinator(facts)[0].check, "address");
}

// docs/operations.md lists every outcome, with its remedy, and every check, with its values.
TEST(DoctorCoordinator, OutcomesAndChecksAreDocumented) {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/docs/operations.md");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  for (std::uint8_t each = 0; each <= static_cast<std::uint8_t>(Outcome::kCannotConnect); ++each) {
    EXPECT_THAT(text, HasSubstr("`" + std::string(name_of(static_cast<Outcome>(each))) + "`"));
  }
  CoordinatorFacts facts = healthy_way();
  wire::StatusReply reply;
  reply.waits.resize(1);
  reply.troubles.resize(1);
  facts.addresses[0].asked = answer(std::move(reply));
  Findings findings = check_coordinator(facts);
  EXPECT_EQ(findings.size(), 8U);
  for (const Finding& finding : check_machine({})) findings.push_back(finding);
  for (const Finding& finding : findings) {
    EXPECT_THAT(text, HasSubstr("`" + finding.check + "`"));
    for (const auto& [name, value] : finding.values.items()) EXPECT_THAT(text, HasSubstr("`" + name + "`"));
  }
}

TEST(DoctorCoordinator, NamesServicesByTheirFirstBytes) {
  EXPECT_EQ(service_of("HTTP/1.1 400"), "an HTTP server");
  EXPECT_EQ(service_of("SSH-2.0-OpenSSH"), "an SSH server");
  EXPECT_EQ(service_of("220 mail"), "a mail or FTP server");
  EXPECT_EQ(service_of("-ERR unknown"), "a Redis server");
  EXPECT_EQ(service_of("\x1b[31mhi"), "another program, which begins with '?[31mhi'");
}

}  // namespace
}  // namespace lockstep::cli::doctor
