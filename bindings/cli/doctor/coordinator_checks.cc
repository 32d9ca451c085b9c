#include "bindings/cli/doctor/coordinator_checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/cli/callers.h"
#include "bindings/cli/doctor/first_words.h"
#include "core/base/assert.h"
#include "core/base/text.h"
#include "core/wire/codec.h"
#include "core/wire/message.h"
#include "core/wire/run_token.h"
#include "transport/tokens.h"
#include "transport/utc_time.h"

namespace lockstep::cli::doctor {
namespace {

using transport::Inquiry;

constexpr double kNsPerMs = 1e6;
// Troubles that are as old as that are over.
constexpr Duration kRecent = seconds(60);

double ms(Duration duration) { return static_cast<double>(duration.ns) / kNsPerMs; }

// The question that says most about the program at the address.
const Inquiry& last_of(const AddressFacts& address) { return address.in_plain ? *address.in_plain : address.asked; }

bool is_secured(Way way) { return way == Way::kToken || way == Way::kCertificates; }

bool speaks_lockstep(const std::string& first_bytes) {
  if (first_bytes.size() < wire::kMagicBytes) return false;
  const auto bytes = std::as_bytes(std::span(first_bytes.data(), first_bytes.size()));
  return wire::check_magic(bytes.first<wire::kMagicBytes>()).ok();
}

Outcome outcome_of_connection(const std::optional<io::CloseReason>& closed) {
  if (!closed) return Outcome::kNoAnswer;
  switch (*closed) {
    case io::CloseReason::kRefused: return Outcome::kNothingListens;
    case io::CloseReason::kTimedOut: return Outcome::kNoAnswer;
    case io::CloseReason::kUnreachable: return Outcome::kNoRoute;
    default: return Outcome::kCannotConnect;
  }
}

// The first answer of a coordinator. Null if no coordinator has answered.
const wire::StatusReply* answer_of(const CoordinatorFacts& facts) {
  for (const AddressFacts& address : facts.addresses) {
    if (address.asked.reply.ok()) return &*address.asked.reply;
  }
  return nullptr;
}

bool has_expired(const CoordinatorFacts& facts) {
  return facts.token && facts.token->expires != 0 && facts.utc >= facts.token->expires;
}

struct Words {
  std::string found;
  std::string remedy;
};

std::string refusal_remedy(const CoordinatorFacts& facts) {
  if (facts.way == Way::kCertificates) return "use a certificate that an authority of the coordinator has signed";
  if (has_expired(facts)) {
    return "ask for a new token: `lockstep token new` on the coordinator's machine makes one, with --expires 7d";
  }
  return "ask for a new token: on the coordinator's machine, `lockstep token list --tokens FILE` shows which ones are "
         "valid, and "
         "`lockstep token new` makes one; after a restart without --tokens, the coordinator prints another one";
}

Words words_of_connection(Outcome outcome, const AddressFacts& address, const CoordinatorFacts& facts) {
  const std::string why = last_of(address).stream.why;
  switch (outcome) {
    case Outcome::kNothingListens:
      return {fmt::format("nothing listens there (refused after {:.3g} ms)", ms(last_of(address).elapsed)),
              "start `lockstep coordinator` on that machine, or correct the host and the port"};
    case Outcome::kNoAnswer:
      return {
          fmt::format("no answer to the connection within {:.3g} s", facts.patience.seconds()),
          fmt::format("let TCP port {} pass on that machine, its firewall and its router; or check that the machine "
                      "runs",
                      address.address.port)};
    case Outcome::kNoRoute:
      return {
          fmt::format("this machine cannot send there: {}", why),
          "check the address and the network of this machine; if it has no such network (IPv6), take the address out "
          "of the name or the token"};
    default: return {fmt::format("cannot connect: {}", why), "check the address and the network of this machine"};
  }
}

// Without the address, which the finding names already.
std::string refusal_of(const AddressFacts& address) {
  std::string text = address.asked.reply.error().text;
  const std::string prefix = address.address.text() + ": ";
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  return text;
}

Words words_of_refusal(Outcome outcome, const AddressFacts& address, const CoordinatorFacts& facts) {
  const bool by_token = facts.way == Way::kToken;
  switch (outcome) {
    case Outcome::kRefusesProof:
      return {fmt::format("the coordinator refuses: {}", refusal_of(address)), refusal_remedy(facts)};
    case Outcome::kOtherKey:
      return {
          fmt::format("another coordinator{}: {}", by_token ? " than that of the token" : "", address.asked.stream.why),
          by_token ? "ask for a token of the coordinator that runs there; a coordinator keeps its key only with "
                     "`--tokens FILE`"
                   : "use the certificates and the authority of the coordinator that runs there"};
    case Outcome::kFailsTls:
      return {fmt::format("a coordinator, but TLS fails: {}", address.asked.stream.why),
              "check that no proxy stands between, and run the same release on both sides"};
    case Outcome::kNeedsToken:
      return {"a coordinator that speaks TLS only",
              "connect with the run token (lks1_...) that it prints instead of the address, or with certificates"};
    case Outcome::kPlainCoordinator:
      return {"a coordinator without TLS: it has no tokens",
              fmt::format("connect with {} instead of {}, or start the coordinator with `--tokens FILE`",
                          address.address.text(), by_token ? "the token" : "certificates")};
    default:
      return {
          "a coordinator without TLS, on another machine",
          "start it with TLS (without --insecure), and connect with its token; in a network that you trust, connect "
          "with --insecure (insecure=True)"};
  }
}

Words words_of(Outcome outcome, const AddressFacts& address, const CoordinatorFacts& facts) {
  const transport::StreamCourse& stream = last_of(address).stream;
  switch (outcome) {
    case Outcome::kAnswers:
      return {fmt::format("a coordinator, protocol version {}; answered after {:.3g} ms", wire::kVersion,
                          ms(address.asked.elapsed)),
              {}};
    case Outcome::kOtherVersion:
      return {fmt::format("a coordinator of another release: {}", last_of(address).reply.error().text),
              "run the same release on both sides"};
    case Outcome::kOtherService:
      return {fmt::format("not a coordinator: {}",
                          service_of(stream.first_bytes.empty() ? address.first_words : stream.first_bytes)),
              "correct the port: a coordinator listens on 4000, or on that of `--listen`"};
    case Outcome::kHangsUp:
      return {fmt::format("accepts the connection and ends it: {}", stream.why),
              "if a coordinator runs there: it refuses streams without TLS from other machines, or its port is full of "
              "strangers; if not: correct the port"};
    case Outcome::kSilent:
      return {fmt::format("accepts the connection, and says nothing within {:.3g} s", facts.patience.seconds()),
              "correct the port; if a coordinator runs there, it is stopped or overloaded: look at its log"};
    case Outcome::kNothingListens:
    case Outcome::kNoAnswer:
    case Outcome::kNoRoute:
    case Outcome::kCannotConnect: return words_of_connection(outcome, address, facts);
    default: return words_of_refusal(outcome, address, facts);
  }
}

std::string words_of_callers(std::ptrdiff_t callers) {
  if (callers == 0) return {};
  return fmt::format(", {} of them {} out only", callers, callers == 1 ? "dials" : "dial");
}

std::string text_of_terms(const transport::TokenTerms& token) {
  return fmt::format("token {} for {}s, {}", wire::name_of(token.id), transport::role_name(token.role),
                     token.expires == 0 ? "without an end" : "until " + transport::utc_text(token.expires));
}

}  // namespace

Outcome outcome_of(const AddressFacts& address, Way way) {
  const Inquiry& asked = address.asked;
  if (asked.reply.ok()) return Outcome::kAnswers;
  if (asked.was_refused()) return is_secured(way) ? Outcome::kRefusesProof : Outcome::kNeedsToken;
  const Inquiry& last = last_of(address);
  if (!last.stream.opened) return outcome_of_connection(last.stream.closed);
  if (address.in_plain && last.reply.ok()) {
    return is_secured(way) ? Outcome::kPlainCoordinator : Outcome::kNeedsInsecure;
  }
  if (address.in_plain && last.was_refused()) {
    if (!is_secured(way)) return Outcome::kNeedsToken;
    return asked.stream.closed == io::CloseReason::kRejected ? Outcome::kOtherKey : Outcome::kFailsTls;
  }
  if (speaks_lockstep(last.stream.first_bytes)) return Outcome::kOtherVersion;
  if (!last.stream.first_bytes.empty() || !address.first_words.empty()) return Outcome::kOtherService;
  return last.stream.closed ? Outcome::kHangsUp : Outcome::kSilent;
}

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kAnswers: return "answers";
    case Outcome::kRefusesProof: return "refuses";
    case Outcome::kOtherKey: return "other_key";
    case Outcome::kFailsTls: return "fails_tls";
    case Outcome::kNeedsToken: return "needs_token";
    case Outcome::kPlainCoordinator: return "no_tls";
    case Outcome::kNeedsInsecure: return "needs_insecure";
    case Outcome::kOtherVersion: return "other_version";
    case Outcome::kOtherService: return "other_service";
    case Outcome::kHangsUp: return "hangs_up";
    case Outcome::kSilent: return "silent";
    case Outcome::kNothingListens: return "nothing_listens";
    case Outcome::kNoAnswer: return "no_answer";
    case Outcome::kNoRoute: return "no_route";
    case Outcome::kCannotConnect: return "cannot_connect";
  }
  LOCKSTEP_UNREACHABLE();
}

Findings check_names(const CoordinatorFacts& facts) {
  const bool some = std::ranges::any_of(facts.names, [](const NameFacts& name) { return name.addresses.ok(); });
  Findings findings;
  for (const NameFacts& name : facts.names) {
    if (name.is_literal) continue;
    Finding finding{Grade::kOk, "name", {}, {}};
    finding.values = {
        {"name", plain(name.text)}, {"seconds", name.took.seconds()}, {"addresses", nlohmann::json::array()}};
    if (name.addresses) {
      for (const io::Address& address : *name.addresses) {
        finding.found += (finding.found.empty() ? "" : ", ") + address.text();
        finding.values["addresses"].push_back(address.text());
      }
      finding.found = fmt::format("{} is {} (looked up in {:.3g} ms)", name.text, finding.found, ms(name.took));
    } else {
      finding.grade = some ? Grade::kWarning : Grade::kFailed;
      finding.found = name.addresses.error().text;
      finding.remedy =
          "correct the name, or the name servers of this machine (/etc/resolv.conf); `getent hosts NAME` asks "
          "them";
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

Findings check_dials(const CoordinatorFacts& facts) {
  const bool some = answer_of(facts) != nullptr;
  Findings findings;
  for (const AddressFacts& address : facts.addresses) {
    const Outcome outcome = outcome_of(address, facts.way);
    Words words = words_of(outcome, address, facts);
    Finding finding{Grade::kOk, "address", address.address.text() + ": " + words.found, std::move(words.remedy)};
    finding.values = {{"address", address.address.text()},
                      {"outcome", name_of(outcome)},
                      {"seconds", address.asked.elapsed.seconds()}};
    if (outcome != Outcome::kAnswers) finding.grade = some ? Grade::kWarning : Grade::kFailed;
    if (finding.grade == Grade::kWarning) {
      finding.remedy +=
          "; another address answers, but a program that tries this one loses time: take it out of the name "
          "or the token";
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

Findings check_token(const CoordinatorFacts& facts) {
  if (!facts.token) return {};
  const transport::TokenTerms& token = *facts.token;
  const bool answers = answer_of(facts) != nullptr;
  Finding finding{Grade::kOk, "token", text_of_terms(token), {}};
  finding.values = {
      {"id", wire::name_of(token.id)},
      {"role", transport::role_name(token.role)},
      {"expires", token.expires == 0 ? nlohmann::json() : nlohmann::json(transport::utc_text(token.expires))},
      {"accepted", answers}};
  constexpr std::int64_t kSoon = 86'400;  // seconds
  if (has_expired(facts)) {
    finding.grade = answers ? Grade::kWarning : Grade::kFailed;
    finding.found += fmt::format(": expired; this machine's clock says {}", transport::utc_text(facts.utc));
    finding.remedy = answers ? "the coordinator accepts it, so the clocks differ: set the clock of this machine "
                               "(`timedatectl set-ntp true`)"
                             : refusal_remedy(facts);
    return {finding};
  }
  if (!answers) return {};
  finding.found += ": accepted";
  if (token.role != io::Role::kMember) {
    finding.grade = Grade::kWarning;
    finding.remedy = "it may ask for the status, and may not join: a peer needs a token for members";
  } else if (token.expires != 0 && token.expires - facts.utc < kSoon) {
    finding.grade = Grade::kWarning;
    finding.remedy = "no peer joins with it after that time: `lockstep token new` makes another one";
  }
  return {finding};
}

Findings check_protection(const CoordinatorFacts& facts) {
  if (answer_of(facts) == nullptr) return {};
  Finding finding{Grade::kOk, "protection", {}, {}};
  switch (facts.way) {
    case Way::kToken: finding.found = "TLS 1.3; the coordinator has the key that the token names"; break;
    case Way::kCertificates: finding.found = "TLS 1.3, by certificates"; break;
    case Way::kPlain: finding.found = "no TLS: streams within this machine"; break;
    case Way::kInsecure:
      finding.found = "no TLS (--insecure): every machine on the path can read and change the tensors";
      finding.grade = Grade::kWarning;
      finding.remedy =
          "only for a network that is trusted; else start the coordinator without --insecure and use its token";
      break;
  }
  return {finding};
}

Findings check_round_trip(const CoordinatorFacts& facts) {
  if (facts.round_trips.empty()) return {};
  std::vector<Duration> sorted = facts.round_trips;
  std::ranges::sort(sorted);
  const Duration least = sorted.front();
  const Duration median = sorted[sorted.size() / 2];
  return {{Grade::kOk,
           "round_trip",
           fmt::format("{:.3g} ms to the coordinator at least, median {:.3g} ms, of {} connections", ms(least),
                       ms(median), sorted.size()),
           {},
           {{"least_seconds", least.seconds()}, {"median_seconds", median.seconds()}, {"count", sorted.size()}}}};
}

Findings check_run(const CoordinatorFacts& facts) {
  const wire::StatusReply* const reply = answer_of(facts);
  if (reply == nullptr) return {};
  Findings findings;
  const auto& members = reply->view.members;
  const auto callers = std::ranges::count_if(members, [](const wire::Member& member) { return member.calls_out; });
  const std::vector<std::string> parted = parted_neighbours(reply->view);
  findings.push_back(
      {parted.empty() ? Grade::kOk : Grade::kWarning,
       "run",
       fmt::format("{} members{}, {} waiting; up {:.0f} s, view {}, {} commits, {} aborts, {} lost", members.size(),
                   words_of_callers(callers), reply->waiting.size(), reply->uptime.seconds(), reply->view.number.value,
                   reply->commits, reply->aborts, reply->lost),
       parted.empty() ? "" : parted.front(),
       {{"members", members.size()},
        {"calls_out", callers},
        {"waiting", reply->waiting.size()},
        {"uptime_seconds", reply->uptime.seconds()},
        {"commits", reply->commits},
        {"aborts", reply->aborts},
        {"lost", reply->lost}}});
  if (!reply->waits.empty()) {
    const wire::WaitStatus& oldest = reply->waits.front();
    findings.push_back(
        {Grade::kWarning,
         "waits",
         fmt::format("calls that wait: {}; the oldest: {}", reply->waits.size(), oldest.text),
         oldest.missing.empty()
             ? "the call itself is slow, or a link of it does not work: see `lockstep status`"
             : "look at the program that is named: it computes, stands still, or has gone on without the call; "
               "`lockstep status` lists all",
         {{"count", reply->waits.size()}, {"oldest", oldest.text}}});
  }
  const auto recent = std::ranges::count_if(reply->troubles, [](const auto& each) { return each.age < kRecent; });
  if (recent > 0) {
    const wire::Trouble& newest = reply->troubles.back();
    findings.push_back({Grade::kWarning,
                        "troubles",
                        fmt::format("{} in the last minute; the newest: {}", recent, newest.text),
                        "check the line and the machine that are named; `lockstep status` lists all",
                        {{"count", recent}, {"newest", newest.text}}});
  }
  return findings;
}

Findings check_coordinator(const CoordinatorFacts& facts) {
  Findings findings;
  for (const auto check : {check_names, check_dials, check_token, check_protection, check_round_trip, check_run}) {
    for (Finding& finding : check(facts)) findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace lockstep::cli::doctor
