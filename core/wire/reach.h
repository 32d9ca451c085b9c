// Who dials whom, and where (rule 70 of docs/protocol.md): follows from what a view says of two members, so that both
// of them, and the coordinator, agree.
#pragma once

#include <string_view>
#include <vector>

#include "core/io/stream.h"
#include "core/wire/message.h"

namespace lockstep::wire {

// Both stand in one network as the coordinator sees them: behind one router, for example.
inline bool share_network(const Member& a, const Member& b) {
  return a.outside.family != io::Address::Family::kNone && a.outside.same_host(b.outside);
}

// Whether a stream between the two can be opened, as far as it is known. A member that only calls out can be dialled
// from its own network.
inline bool can_link(const Member& a, const Member& b) { return !a.calls_out || !b.calls_out || share_network(a, b); }

// Why two members have no link, and what to do.
inline constexpr std::string_view kNobodyDials = "nobody can dial either of them; forward the port of one to it";

// Whether `self` dials `other`, for a link between them: the one dials that only calls out, otherwise the one with the
// smaller id.
inline bool dials(const Member& self, const Member& other) {
  return self.calls_out != other.calls_out ? self.calls_out : self.id < other.id;
}

// Where a member dials another, in the order of the attempts.
inline std::vector<io::Address> addresses_for(const Member& self, const Member& other) {
  std::vector<io::Address> addresses{other.address};
  if (other.local.family == io::Address::Family::kNone || !share_network(self, other)) return addresses;
  addresses.insert(other.calls_out ? addresses.begin() : addresses.end(), other.local);
  return addresses;
}

}  // namespace lockstep::wire
