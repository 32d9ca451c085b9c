// The facts that `lockstep doctor` gathers about a coordinator, before it judges any: it looks up the names and asks
// all addresses at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/io/stream.h"
#include "transport/destination.h"
#include "transport/status_client.h"

namespace lockstep::cli::doctor {

struct NameFacts {
  std::string text;  // "host:port"
  bool is_literal = false;
  Result<std::vector<io::Address>> addresses;  // in the order in which they are dialled
  Duration took{};
};

struct AddressFacts {
  io::Address address;
  transport::Inquiry asked;  // as a peer asks: with the token, by certificates, or in plain
  // Only if that gave no answer of a coordinator: the same question in plain, without a secret. Unlike the stream of a
  // peer, it also goes to other machines.
  std::optional<transport::Inquiry> in_plain{};
  std::string first_words{};  // only if the plain question gave no answer of Lockstep, either
};

// How a peer that is given the same text connects.
enum class Way : std::uint8_t { kPlain, kInsecure, kToken, kCertificates };

struct CoordinatorFacts {
  Way way = Way::kPlain;
  std::optional<transport::TokenTerms> token{};
  std::vector<NameFacts> names{};
  std::vector<AddressFacts> addresses{};
  Duration patience{};                  // the time limit of each question
  std::int64_t utc{};                   // this machine's wall clock, in seconds since 1970
  std::vector<Duration> round_trips{};  // of several streams to the first address that answers
};

// `text`: as transport::parse_coordinator() takes it. The error is that of a text that names no coordinator. Blocks
// until every address has answered, or `patience` has passed for each question; the look-up of names has the limits of
// the system.
Result<CoordinatorFacts> gather_coordinator(const std::string& text, const transport::Protection& protection,
                                            Duration patience);

}  // namespace lockstep::cli::doctor
