#include "bindings/cli/doctor/coordinator_facts.h"

#include <algorithm>
#include <cstddef>
#include <future>
#include <string_view>
#include <utility>

#include "bindings/cli/doctor/first_words.h"
#include "core/wire/codec.h"
#include "transport/address.h"
#include "transport/clock.h"
#include "transport/resolver.h"
#include "transport/utc_time.h"

namespace lockstep::cli::doctor {
namespace {

using transport::Destination;
using transport::Inquiry;
using transport::Security;

constexpr std::size_t kPings = 5;

Way way_of(const Destination& to, const transport::Protection& protection) {
  if (to.token) return Way::kToken;
  if (!protection.certificates.empty()) return Way::kCertificates;
  return protection.insecure ? Way::kInsecure : Way::kPlain;
}

NameFacts look_up(const std::string& text) {
  const auto parsed = transport::parse_destination(text);
  if (!parsed) return {text, false, parsed.error()};
  const bool is_literal = transport::parse_literal(parsed->host, parsed->port).family != io::Address::Family::kNone;
  const Instant begin = transport::now();
  auto found = transport::resolve_host(parsed->host, parsed->port);
  return {text, is_literal, std::move(found), transport::now() - begin};
}

bool is_answer(const Inquiry& inquiry) { return inquiry.reply.ok() || inquiry.was_refused(); }

// Whether the question failed before any program accepted it, so that no other question can do better.
bool failed_to_connect(const Inquiry& inquiry) {
  return inquiry.stream.closed == io::CloseReason::kRefused || inquiry.stream.closed == io::CloseReason::kUnreachable;
}

AddressFacts ask_address(const io::Address& address, const Security& security, Duration patience) {
  AddressFacts facts{address, transport::inquire(address, security, patience)};
  if (is_answer(facts.asked) || failed_to_connect(facts.asked)) return facts;
  const bool was_plain = security.credentials == nullptr && facts.asked.stream.closed != io::CloseReason::kRejected;
  if (!was_plain) facts.in_plain = transport::inquire(address, {nullptr, true}, patience);
  const Inquiry& last = facts.in_plain ? *facts.in_plain : facts.asked;
  if (!is_answer(last) && last.stream.opened && last.stream.first_bytes.empty()) {
    facts.first_words = first_words(address, patience);
  }
  return facts;
}

// Each address has a thread, and credentials of its own: they serve one thread only.
Result<std::vector<AddressFacts>> ask_all(const std::vector<io::Address>& addresses, const std::string& text,
                                          const transport::Protection& protection, Duration patience) {
  std::vector<std::future<AddressFacts>> answers;
  for (const io::Address& address : addresses) {
    auto to = transport::parse_coordinator(text, protection);
    if (!to) return to.error();
    answers.push_back(std::async(std::launch::async, [address, patience, security = std::move(to->security)] {
      return ask_address(address, security, patience);
    }));
  }
  std::vector<AddressFacts> facts;
  facts.reserve(answers.size());
  for (auto& answer : answers) facts.push_back(answer.get());
  return facts;
}

std::vector<Duration> ping(const AddressFacts& first, const Security& security, Duration patience) {
  std::vector<Duration> round_trips{first.asked.stream.round_trip};
  while (round_trips.size() < kPings) {
    const Inquiry again = transport::inquire(first.address, security, patience);
    if (!again.reply.ok()) break;
    round_trips.push_back(again.stream.round_trip);
  }
  std::erase(round_trips, Duration{});  // not known
  return round_trips;
}

}  // namespace

Result<CoordinatorFacts> gather_coordinator(const std::string& text, const transport::Protection& protection,
                                            Duration patience) {
  auto to = transport::parse_coordinator(text, protection);
  if (!to) return to.error();
  CoordinatorFacts facts;
  facts.way = way_of(*to, protection);
  facts.token = to->token;
  facts.patience = patience;
  facts.utc = transport::utc_now();
  std::vector<io::Address> addresses;
  for (const std::string& name : transport::split_addresses(to->addresses)) {
    facts.names.push_back(look_up(name));
    if (!facts.names.back().addresses) continue;
    for (const io::Address& address : *facts.names.back().addresses) {
      if (std::ranges::find(addresses, address) == addresses.end()) addresses.push_back(address);
    }
  }
  auto asked = ask_all(addresses, text, protection, patience);
  if (!asked) return asked.error();
  facts.addresses = std::move(*asked);
  const auto first =
      std::ranges::find_if(facts.addresses, [](const AddressFacts& each) { return each.asked.reply.ok(); });
  if (first != facts.addresses.end()) facts.round_trips = ping(*first, to->security, patience);
  return facts;
}

}  // namespace lockstep::cli::doctor
