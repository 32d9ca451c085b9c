// The streams at a listening port that have not been identified yet: strangers, and peers whose greeting is still on
// its way. The number of places is limited (promise S9). When all places are taken, a new stream still gets a place:
// the lobby evicts the oldest stream of the network that holds the most places. So the coordinator always hears a
// greeting that comes right behind its connection, and an attacker that fills the port evicts only its own streams.
// Expected hosts have places of their own beyond the limit. The lobby knows streams and addresses only; its owner
// closes the evicted streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/io/stream.h"

namespace lockstep::io {

// The network of one subscriber: an IPv4 address, or the first 64 bits of an IPv6 address. The port is 0.
Address network_of(const Address& address);

class Lobby {
 public:
  explicit Lobby(std::uint32_t places) : places_(places) {}

  // Adds a stream. Returns the stream that must be closed to make room, if any.
  [[nodiscard]] std::optional<StreamId> enter(StreamId stream, const Address& from);
  // Removes a stream that was closed or identified. Ignores a stream that is not in the lobby.
  void leave(StreamId stream);
  [[nodiscard]] bool holds(StreamId stream) const;
  [[nodiscard]] std::size_t size() const { return guests_.size(); }
  // Entries of all lists. The connected and expected hosts differ from peer to peer.
  [[nodiscard]] std::size_t entries() const { return guests_.size() + held_.size() + expected_.size(); }

  // Sets the expected hosts and the number of streams of each; replaces the previous list.
  void expect(const std::vector<Address>& hosts, std::uint32_t streams);

  // The state that a recording begins with (core/flight/). Left out: places_, an argument of the constructor.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(guests_, held_, expected_);
  }

 private:
  struct Guest {
    StreamId stream;
    Address network;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(stream, network);
    }
  };
  // The number of places that this network holds beyond its own places.
  [[nodiscard]] std::uint32_t taken_by(const Address& network, std::uint32_t held) const;

  std::uint32_t places_;
  std::vector<Guest> guests_;                  // in order of arrival
  std::map<Address, std::uint32_t> held_;      // places by network
  std::map<Address, std::uint32_t> expected_;  // reserved places by network
};

}  // namespace lockstep::io
