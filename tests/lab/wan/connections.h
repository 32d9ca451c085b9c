// The TCP connections between hosts, as the network sees them, and how it resets one: both ends are told so, and from
// then on nothing of it passes, as if a box on the way had forgotten it. Pure: instants are arguments, what is to be
// written is handed out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "tests/lab/wan/tcp_packet.h"

namespace lockstep::wan {

// For the device of a host.
struct ResetFor {
  std::uint32_t host = 0;
  ResetPacket packet{};
};
using ResetsFor = std::vector<ResetFor>;

// A reset that was asked for, and what became of it.
struct ResetRecord {
  std::uint32_t a = 0;  // hosts
  std::uint32_t b = 0;
  Instant at;
  bool hit = false;          // false: no connection between them had carried anything lately
  std::uint16_t port_a = 0;  // of the one that was reset
  std::uint16_t port_b = 0;
  std::uint64_t carried = 0;   // payload, by then, both ways
  bool answered_late = false;  // an end had not believed it: it spoke later than what was under way, and was told again
  std::optional<Instant> back;  // when a new connection between the two had carried data
};

class Connections {
 public:
  // A host has sent it. False: it goes nowhere, and the sender is told that the connection is no more.
  bool on_sent(const TcpSegment& segment, Instant now, ResetsFor& out);
  // It has come to its host. False: it is not handed over. Otherwise it is, before what is in `out`: the resets that it
  // was the last to wait for.
  bool on_arrived(const TcpSegment& segment, Instant now, ResetsFor& out);

  // Resets the connection between two hosts that has carried most lately, both ways together.
  void reset(std::uint32_t a, std::uint32_t b, Instant now, ResetsFor& out);
  // The same, once the way from `from` to `to` has carried so many more bytes of payload.
  void reset_after(std::uint32_t from, std::uint32_t to, std::uint64_t bytes);

  // Payload that has arrived, also what came twice.
  [[nodiscard]] std::uint64_t carried(std::uint32_t from, std::uint32_t to) const;
  // Those that are not yet due never will be.
  void forget_orders() { orders_.clear(); }
  // In the order of their moments.
  [[nodiscard]] const std::vector<ResetRecord>& resets() const { return resets_; }

 private:
  // What one end has received.
  struct End {
    bool known = false;                                           // whether `next` is
    bool ended = false;                                           // it has the other's FIN
    std::uint32_t next = 0;                                       // the first byte that it lacks
    std::vector<std::pair<std::uint32_t, std::uint32_t>> beyond;  // begin and end of what came after a gap
    void receives(std::uint32_t begin, std::uint32_t end);
    void acknowledges(std::uint32_t number);
  };
  struct Connection {
    End low;  // what the end with the lower endpoint has received
    End high;
    std::uint64_t bytes = 0;
    double lately = 0;  // bytes, those of a while ago for less
    Instant lately_at;
    std::optional<std::size_t> reset;  // which of resets_ has ended it
    bool counted_as_back = false;
    void fade(Instant now);
  };
  using Key = std::pair<Endpoint, Endpoint>;  // the lower one first
  struct Order {
    std::uint32_t from;
    std::uint32_t to;
    std::uint64_t at;  // bytes that the way has carried
  };

  static Key key_of(const TcpSegment& segment);
  static ResetFor tell(const Endpoint& whom, const Endpoint& other, std::uint32_t sequence);
  void note_return(std::uint32_t a, std::uint32_t b, Connection& connection, Instant now);
  void carry_out_orders(std::uint32_t from, std::uint32_t to, Instant now, ResetsFor& out);

  std::map<Key, Connection> connections_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> carried_;
  std::vector<Order> orders_;
  std::vector<ResetRecord> resets_;
};

}  // namespace lockstep::wan
