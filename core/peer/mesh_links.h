// The links and streams of a mesh (mesh.h): what is known of each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/io/stream.h"
#include "core/wire/channel.h"
#include "core/wire/message.h"
#include "core/wire/reach.h"

namespace lockstep::peer {

// The role of the other peer of a link.
enum class Relation : std::uint8_t {
  kNeighbour,
  kSource,      // this peer prefetches from it
  kPrefetcher,  // it prefetches from this peer
};

// How this peer gets streams to a member: where the member listens and which side dials (rule 70 of docs/protocol.md),
// and the key that its streams prove (rule 65).
struct Contact {
  std::vector<io::Address> addresses;  // at least one, in the order of the attempts
  io::KeyDigest key;
  bool dials = false;      // this peer dials the member
  bool calls_out = false;  // nobody can dial the member
  bool can_link = true;    // false: neither can dial the other
  template <typename Archive>
  void archive(Archive& a) {
    a.all(addresses, key, dials, calls_out, can_link);
  }
};

// Why a call ends that needs a link without a way.
inline std::string no_way() {
  return std::string(wire::kNobodyDials) +
         ", or use calls that go around the ring: no exchange, no direct algorithm, no error "
         "feedback, and no format of less than 8 bits";
}

// One of the streams of a link, or the place of one.
struct Stripe {
  StreamId stream;  // 0: none
  bool up = false;
  bool worked = false;  // it was up once
  Instant down_since;   // while not up
  Instant retry_at;     // dialler, while there is no stream
  Duration backoff;
  template <typename Archive>
  void archive(Archive& a) {
    a.all(stream, up, worked, down_since, retry_at, backoff);
  }
};

// To one other peer.
struct Link {
  Contact contact;  // kPrefetcher: none
  Relation relation = Relation::kNeighbour;
  LinkKey key;  // kSource: said to it
  bool dials = false;
  bool needed = true;
  wire::LinkUse use = wire::LinkUse::kRing;
  std::vector<Stripe> stripes;
  std::uint16_t greeted = 0;  // stripes that the other side has greeted for last; 0: this peer dials
  std::uint16_t asked = 0;    // stripes that the other side was asked for (rule 60); 0: for none
  Stripe knock;               // asks the other side to dial: never up
  Instant reported;           // when it was last said to be broken
  Instant avoided;            // when it was last said to be one that a ring had better avoid
  std::uint64_t best = 0;     // the most bytes a second that a stripe has brought
  Duration round_trip;        // as measured when a stripe was opened; 0: not known
  std::uint32_t faults = 0;   // of the protocol, one stream after the other
  Instant last_fault;
  std::string failure;           // why our last dial failed, in the system's words
  std::size_t next_address = 0;  // of the contact's: where the next stream is dialled

  [[nodiscard]] std::uint16_t width() const { return static_cast<std::uint16_t>(stripes.size()); }
  // A stripe without which the link works as well: nothing was ever sent on it, or the other side dials it no more.
  // `configured`: number of stripes that each link has.
  [[nodiscard]] bool is_spare(std::uint16_t stripe, std::uint16_t configured) const {
    if (stripe < configured) return false;
    return !stripes[stripe].worked || (!dials && stripe >= greeted);
  }
  [[nodiscard]] const io::Address& address() const { return contact.addresses.at(next_address); }
  // A stream that was dialled at this one of the addresses has ended before it was up.
  void try_next_address(std::size_t tried) {
    if (contact.addresses.empty() || std::ranges::any_of(stripes, &Stripe::up)) return;
    next_address = (tried + 1) % contact.addresses.size();
  }
  // A stream that is opened while others send waits behind them.
  void note_round_trip(Duration measured) {
    if (measured == Duration{}) return;
    const bool alone = std::ranges::none_of(stripes, &Stripe::up);
    if (alone || round_trip == Duration{} || measured < round_trip) round_trip = measured;
  }
  template <typename Archive>
  void archive(Archive& a) {
    a.all(contact, relation, key, dials, needed, use, stripes, greeted, asked, knock, reported, avoided, best,
          round_trip, faults, last_fault, failure, next_address);
  }
};

// One stream, to whomever.
struct Flow {
  enum class Kind : std::uint8_t {
    kDialling,  // asked for
    kGreeting,  // dialled and open; waits for LinkWelcome
    kStranger,  // accepted; has not said who it is; stands in the lobby
    kParked,    // accepted and greeted; waits for the key (in the lobby), or for its place in a link that is wanted
    kUp,
    kDying,  // being closed
  };

  Flow(StreamId stream, Instant now, Kind kind_now) : channel(stream, now), kind(kind_now), since(now) {}
  wire::Channel channel;
  Kind kind;
  Instant since;  // of its kind
  PeerId peer;    // proven, once our key is known
  StripeIndex stripe;
  std::uint16_t stripes = 1;
  std::size_t address = 0;       // dialled: which of the contact's
  Duration round_trip;           // accepted: as measured when it was opened; 0: not known
  LinkKey key;                   // accepted: that it said
  io::KeyDigest proved;          // accepted: the key that its stream has proved
  wire::LinkUse use{};           // accepted: what for, as it said
  bool is_prefetch = false;      // of a prefetch link, on either side
  bool touched = false;          // named among the streams to be pumped
  std::uint32_t slow_beats = 0;  // for how many beats it has been slow

  // The channel may want to read or to write now: the mesh pumps it at the end of the step.
  void touch(std::vector<StreamId>& to_be_pumped) {
    if (!std::exchange(touched, true)) to_be_pumped.push_back(channel.stream());
  }
  template <typename Archive>
  void archive(Archive& a) {
    a.all(channel, kind, since, peer, stripe, stripes, address, round_trip, key, proved, use, is_prefetch, touched,
          slow_beats);
  }
};

using Links = std::map<PeerId, Link>;
using Flows = std::map<StreamId, Flow>;

}  // namespace lockstep::peer
