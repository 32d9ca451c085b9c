// S11, within a life: a member without open work, and a coordinator of a run without open work, hold as much as any
// other that sees the same members. Temporary entries may exist at some quiet moments, but not at all quiet moments
// over some time. Memory has a limit per stream and entry, at every quiet moment.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "core/base/holdings.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/wire/link_reader.h"
#include "sim/checkers/complaint.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

// Limits of the entries that a machine holds for the calls of programs. SIZE_MAX: the world knows no limit.
struct MostHeld {
  std::size_t tags = SIZE_MAX;
  std::size_t digests = SIZE_MAX;
};

class AtQuiet {
 public:
  // `heartbeat`: temporary entries disappear within some heartbeats.
  explicit AtQuiet(Duration heartbeat) : heartbeat_(heartbeat) {}

  // `process`: 0 is the coordinator, and others are a peer. `passing`: some entries are held for a while; only bytes
  // are judged.
  Complaint quiet(std::uint32_t process, PeerId peer, const Holdings& held, const MostHeld& most, Instant now,
                  bool passing) {
    const std::size_t limit = kFixedBytes + held.streams * kStreamBytes + held.entries * kEntryBytes;
    if (held.bytes > limit) {
      return name_of(process, peer) + " has nothing under way and holds " + std::to_string(held.bytes) +
             " bytes, the limit is " + std::to_string(limit) + " for " + std::to_string(held.streams) +
             " streams and " + std::to_string(held.entries) + " entries";
    }
    const auto too_many = [&](const char* what, std::size_t is, std::size_t most_of_it) {
      return name_of(process, peer) + " has nothing under way and remembers " + std::to_string(is) + " " + what +
             "; what programs have done accounts for " + std::to_string(most_of_it);
    };
    if (held.tags > most.tags) return too_many("tags", held.tags, most.tags);
    if (held.digests > most.digests) return too_many("digests", held.digests, most.digests);
    const Place place{process == 0, held.members, held.ring,      held.links,  held.stripes,
                      held.streams, held.waiting, held.strangers, held.broken, held.direct};
    if (passing) return {};
    const std::size_t entries = held.entries - held.tags - held.digests - held.awaited - held.spare;
    std::size_t& least = least_.try_emplace(place, entries).first->second;
    least = std::min(least, entries);
    Life& life = lives_[process];
    if (life.moments == 0) life = {0, now, entries - least};
    life.over = std::min(life.over, entries - least);
    // A coordinator does not hear of rounds that have only begun, and keeps the cohorts that they are in.
    const std::int64_t patience = process == 0 ? 4 : 1;
    const bool is_long = now - life.since >= heartbeat_ * kHeartbeats * patience;
    if (++life.moments < kMoments * static_cast<std::uint64_t>(patience) || !is_long) return {};
    const std::size_t over = std::exchange(life, {}).over;
    if (over <= kFew) return {};
    return name_of(process, peer) + " has nothing under way and keeps " + std::to_string(entries) +
           " entries; others that see " + std::to_string(held.members) + " members over " +
           std::to_string(held.streams) + " streams, or itself before, hold " + std::to_string(least) +
           "; for a while it has not held less than " + std::to_string(over) + " more";
  }

 private:
  static std::string name_of(std::uint32_t process, PeerId peer) {
    return process == 0 ? "the coordinator" : text_of(peer);
  }

  // Memory of one stream: two receive buffers, the encoded form of a long message, outgoing bytes, and segments that
  // are kept for reuse.
  static constexpr std::size_t kStreamBytes = 3 * wire::LinkReader::kMaxTailBytes + 32'768;
  static constexpr std::size_t kEntryBytes = 1024;
  static constexpr std::size_t kFixedBytes = 65'536;
  // Not every difference is a leak: a peer that has heard of other peers' admits holds their names. A leak exceeds any
  // bound.
  static constexpr std::size_t kFew = 8;
  static constexpr std::uint64_t kMoments = 16;
  static constexpr std::int64_t kHeartbeats = 8;

  // Two for which all of this is equal hold equally many entries.
  struct Place {
    bool coordinator = false;
    std::size_t members = 0;
    std::size_t ring = 0;
    std::size_t links = 0;
    std::size_t stripes = 0;
    std::size_t streams = 0;
    std::size_t waiting = 0;
    std::size_t strangers = 0;
    std::size_t broken = 0;
    bool direct = false;
    auto operator<=>(const Place&) const = default;
  };
  // Since the last look at it.
  struct Life {
    std::uint64_t moments = 0;
    Instant since;
    std::size_t over = 0;  // at least, at each of them
  };

  Duration heartbeat_;
  std::map<Place, std::size_t> least_;  // entries, seen at any quiet moment of anybody
  std::map<std::uint32_t, Life> lives_;
};

}  // namespace lockstep::sim
