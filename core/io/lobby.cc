#include "core/io/lobby.h"

#include <algorithm>

#include "core/base/mutant.h"

namespace lockstep::io {

namespace {

constexpr std::size_t kBytesOfV6Network = 8;
// The prefix of "::ffff:a.b.c.d": an IPv4 address as a dual-stack socket reports it (RFC 4291, section 2.5.5.2).
constexpr std::size_t kMappedPrefix = 12;

bool maps_v4(const Address& address) {
  if (address.family != Address::Family::kV6) return false;
  const auto& b = address.bytes;
  return std::all_of(b.begin(), b.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) && b[10] == 0xff &&
         b[11] == 0xff;
}

}  // namespace

Address network_of(const Address& address) {
  Address network = address;
  network.port = 0;
  if (maps_v4(address)) {
    network.family = Address::Family::kV4;
    network.bytes = {};
    std::copy(address.bytes.begin() + kMappedPrefix, address.bytes.end(), network.bytes.begin());
  } else if (address.family == Address::Family::kV6) {
    std::fill(network.bytes.begin() + kBytesOfV6Network, network.bytes.end(), std::uint8_t{0});
  }
  return network;
}

std::uint32_t Lobby::taken_by(const Address& network, std::uint32_t held) const {
  const auto own = expected_.find(network);
  const std::uint32_t places = own == expected_.end() ? 0 : own->second;
  return held > places ? held - places : 0;
}

std::optional<StreamId> Lobby::enter(StreamId stream, const Address& from) {
  const Address network = network_of(from);
  guests_.push_back({stream, network});
  held_[network] += 1;
  if (guests_.size() <= places_ || mutant(Mutant::kCrowdStays)) return std::nullopt;
  std::uint32_t taken = 0;
  std::uint32_t most = 0;
  for (const auto& [whose, held] : held_) {
    const std::uint32_t theirs = taken_by(whose, held);
    taken += theirs;
    most = std::max(most, theirs);
  }
  if (taken <= places_) return std::nullopt;
  const auto goes = std::find_if(guests_.begin(), guests_.end(), [&](const Guest& guest) {
    return taken_by(guest.network, held_.at(guest.network)) == most;
  });
  return goes->stream;
}

void Lobby::leave(StreamId stream) {
  const auto at =
      std::find_if(guests_.begin(), guests_.end(), [&](const Guest& guest) { return guest.stream == stream; });
  if (at == guests_.end()) return;
  const auto held = held_.find(at->network);
  if (--held->second == 0) held_.erase(held);
  guests_.erase(at);
}

bool Lobby::holds(StreamId stream) const {
  return std::any_of(guests_.begin(), guests_.end(), [&](const Guest& guest) { return guest.stream == stream; });
}

void Lobby::expect(const std::vector<Address>& hosts, std::uint32_t streams) {
  expected_.clear();
  for (const Address& host : hosts) expected_[network_of(host)] += streams;
}

}  // namespace lockstep::io
