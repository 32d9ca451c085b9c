#include "bindings/c/result.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "bindings/c/sized.h"
#include "core/base/assert.h"
#include "core/wire/limits.h"
#include "transport/driver_mutant.h"

namespace lockstep::c {
namespace {

using transport::DriverMutant;

// A result with only the caller's inputs: its arrays.
lockstep_result blank(const lockstep_result& from) {
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  result.contributors = from.contributors;
  result.contributors_capacity = from.contributors_capacity;
  result.blocks = from.blocks;
  result.blocks_capacity = from.blocks_capacity;
  result.newcomers = from.newcomers;
  result.newcomers_capacity = from.newcomers_capacity;
  result.rates = from.rates;
  result.rates_capacity = from.rates_capacity;
  return result;
}

// The texts of a thread's last result.
struct Texts {
  std::array<char, kMaxTextBytes + 1> state_difference{};
  std::array<char, 128> congestion_control{};
};
thread_local Texts texts;

// A copy of `text` that lives as long as the thread's next call.
const char* kept(std::string_view text, std::span<char> place) {
  const std::size_t length = std::min(text.size(), place.size() - 1);
  std::copy_n(text.data(), length, place.data());
  place[length] = '\0';
  return place.data();
}

lockstep_algorithm name_in_c(wire::Algorithm algorithm) {
  switch (algorithm) {
    case wire::Algorithm::kRing: return LOCKSTEP_ALGORITHM_RING;
    case wire::Algorithm::kDirect: return LOCKSTEP_ALGORITHM_DIRECT;
    case wire::Algorithm::kGrid: return LOCKSTEP_ALGORITHM_GRID;
    case wire::Algorithm::kAuto: return LOCKSTEP_ALGORITHM_AUTO;
  }
  LOCKSTEP_UNREACHABLE();
}

void fill(const peer::Outcome& outcome, PeerId self, lockstep_result& result) {
  result.status = to_c(outcome.status);
  result.world_size = outcome.world;
  result.retries = outcome.retries;
  result.view = outcome.view.value;
  result.bytes_sent = outcome.bytes_sent;
  result.bytes_received = outcome.bytes_received;
  result.cohort = outcome.round.cohort.value;
  result.tag = outcome.round.tag.value;
  result.use = outcome.round.use;
  result.attempt = outcome.attempt.value;
  result.hash = outcome.hash;
  result.weight = static_cast<double>(outcome.weight);
  result.chunk_begin = outcome.chunk.begin;
  result.chunk_count = outcome.chunk.size();

  result.revision = outcome.revision;
  result.lineage = outcome.lineage.value;
  result.state_root[0] = outcome.root.high;
  result.state_root[1] = outcome.root.low;
  result.state_undefined = outcome.state_defined ? 0 : 1;
  result.state_difference = kept(outcome.state_difference, texts.state_difference);

  if (outcome.contributors != nullptr) {
    const auto& ids = *outcome.contributors;
    result.contributors_count = static_cast<std::uint32_t>(ids.size());
    const std::size_t shown = std::min(ids.size(), result.contributors_capacity);
    std::transform(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(shown), result.contributors,
                   [](PeerId id) { return to_c(id); });
    result.rank = static_cast<std::uint32_t>(std::find(ids.begin(), ids.end(), self) - ids.begin());
  }
  if (!outcome.transfer.partner.is_nobody() || outcome.transfer.tag.value != 0) result.tag = outcome.transfer.tag.value;
  result.members = outcome.sizes.members;
  result.groups = outcome.sizes.groups;
  result.largest_group = outcome.sizes.largest_group;
  const std::size_t named = std::min(outcome.newcomers.size(), result.newcomers_capacity);
  result.newcomers_count =
      static_cast<std::uint32_t>(planted(DriverMutant::kNewcomersCut) ? named : outcome.newcomers.size());
  std::transform(outcome.newcomers.begin(), outcome.newcomers.begin() + static_cast<std::ptrdiff_t>(named),
                 result.newcomers, [](PeerId id) { return to_c(id); });
  result.partner = to_c(outcome.transfer.partner);
  result.count = outcome.transfer.count;
  result.blocks_count = outcome.blocks.size();
  std::copy_n(outcome.blocks.begin(), std::min(outcome.blocks.size(), result.blocks_capacity), result.blocks);
  result.algorithm = name_in_c(outcome.way.algorithm);
  const std::vector<ring::Rate>& rates = outcome.way.rates;
  result.rates_count = rates.size();
  const std::size_t told = std::min(rates.size(), result.rates_capacity);
  std::transform(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(told), result.rates,
                 [](ring::Rate kib) { return std::uint64_t{kib} * 1024; });
}

}  // namespace

std::optional<Error> validate_result(const lockstep_result* result) {
  if (result == nullptr) return std::nullopt;
  if (const auto size = struct_size(result, "result"); !size) return size.error();
  if (result->contributors == nullptr && result->contributors_capacity != 0) {
    return invalid("result.contributors is NULL but result.contributors_capacity is {}; allowed: 0",
                   result->contributors_capacity);
  }
  if (result->blocks == nullptr && result->blocks_capacity != 0) {
    return invalid("result.blocks is NULL but result.blocks_capacity is {}; allowed: 0", result->blocks_capacity);
  }
  if (result->newcomers == nullptr && result->newcomers_capacity != 0) {
    return invalid("result.newcomers is NULL but result.newcomers_capacity is {}; allowed: 0",
                   result->newcomers_capacity);
  }
  if (result->rates == nullptr && result->rates_capacity != 0)
    return invalid("result.rates is NULL but result.rates_capacity is {}; allowed: 0", result->rates_capacity);
  return std::nullopt;
}

lockstep_status report(const transport::Work& work, PeerId self, lockstep_result* result) {
  const peer::Outcome& outcome = work.outcome();
  if (result != nullptr) {
    lockstep_result known = blank(*result);
    fill(outcome, self, known);
    known.seconds = static_cast<double>(work.elapsed().ns) * 1e-9;
    known.congestion_control = kept(work.congestion_control(), texts.congestion_control);
    known.streams = work.streams();
    give(known, result);
  }
  return outcome.status == Status::kOk ? LOCKSTEP_OK : fail(Error{outcome.status, outcome.text});
}

namespace {

// Fills a result whose status and text are all that is known.
lockstep_status report_alone(lockstep_status status, std::string_view text, lockstep_result* result) {
  if (result != nullptr) {
    lockstep_result known = blank(*result);
    if (!planted(DriverMutant::kRefusedIsOk)) known.status = status;
    give(known, result);
  }
  return fail(status, text);
}

}  // namespace

lockstep_status report_not_started(const Error& error, lockstep_result* result) {
  return report_alone(to_c(error.status), error.text, result);
}

lockstep_status report_interrupted(lockstep_result* result) {
  return report_alone(
      LOCKSTEP_ERR_INTERRUPTED,
      "the wait was interrupted, and the call is being aborted: lockstep_interrupted() returns its handle", result);
}

// Most significant byte first, like the printed form.
lockstep_peer_id to_c(PeerId id) {
  lockstep_peer_id text{};
  for (unsigned i = 0; i < 8; ++i) {
    text.bytes[i] = static_cast<std::uint8_t>(id.high >> (56U - 8U * i));
    text.bytes[8 + i] = static_cast<std::uint8_t>(id.low >> (56U - 8U * i));
  }
  return text;
}

PeerId from_c(const lockstep_peer_id& id) {
  PeerId result;
  for (unsigned i = 0; i < 8; ++i) {
    result.high = result.high << 8U | id.bytes[i];
    result.low = result.low << 8U | id.bytes[8 + i];
  }
  return result;
}

}  // namespace lockstep::c
