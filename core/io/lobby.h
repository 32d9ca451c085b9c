// Who stands at a listening port and has not shown yet that it may come in: strangers, and among them peers whose
// greeting is still on its way. Places are limited (promise S9), and nobody keeps one from a newcomer: when all are
// taken, whoever comes gets a place, and the one that has stood there longest, of the network that holds most places,
// goes for it. So a greeting that comes right behind its connection is always heard, and who fills a port drives out
// nobody but itself. Hosts that are expected have some places of their own, beyond the limit. Knows streams and
// addresses only; its owner closes what has to go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/io/stream.h"

namespace lockstep::io {

// What one subscriber of a network usually has: an IPv4 address, or 64 bits of an IPv6 address. Its port is 0.
Address network_of(const Address& address);

class Lobby {
 public:
  explicit Lobby(std::uint32_t places) : places_(places) {}

  // Comes in; who has to go for it, if anybody.
  [[nodiscard]] std::optional<StreamId> enter(StreamId stream, const Address& from);
  // Goes, or has come in for good. Who does not stand here: nothing happens.
  void leave(StreamId stream);
  [[nodiscard]] bool holds(StreamId stream) const;
  [[nodiscard]] std::size_t size() const { return guests_.size(); }
  // Of all lists: which hosts stand here, and which are expected, differs from peer to peer.
  [[nodiscard]] std::size_t entries() const { return guests_.size() + held_.size() + expected_.size(); }

  // The hosts that are expected, and how many streams of each; replaces what was said before.
  void expect(const std::vector<Address>& hosts, std::uint32_t streams);

  // What a recording begins with (core/flight/). Left out: places_, that it is made of.
  template <typename Archive>
  void state(Archive& a) {
    a.all(guests_, held_, expected_);
  }

 private:
  struct Guest {
    StreamId stream;
    Address network;
    template <typename Archive>
    void state(Archive& a) {
      a.all(stream, network);
    }
  };
  // Beyond those that are its own.
  [[nodiscard]] std::uint32_t taken_by(const Address& network, std::uint32_t held) const;

  std::uint32_t places_;
  std::vector<Guest> guests_;                  // in the order in which they came
  std::map<Address, std::uint32_t> held_;      // by network: places
  std::map<Address, std::uint32_t> expected_;  // by network: places of its own
};

}  // namespace lockstep::io
