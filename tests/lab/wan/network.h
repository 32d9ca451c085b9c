// All lines of a topology, in virtual time: a packet goes through the line of its host, those that its host shares with
// others, the way to the other host, and the lines at that end. Pure: instants are arguments, and packets are handed in
// and out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "core/base/time.h"
#include "tests/lab/wan/line.h"
#include "tests/lab/wan/packet.h"
#include "tests/lab/wan/topology.h"
#include "transport/fifo.h"

namespace lockstep::wan {

class Network {
 public:
  struct Arrival {
    std::uint32_t to = 0;
    Packet packet;
  };

  // The changes of the topology count from `start`.
  Network(const Topology& topology, Instant start);

  // A packet of so many bytes on the line. Instants never go back, neither here nor in take().
  void offer(Instant now, std::uint32_t from, std::uint32_t to, std::uint32_t bytes, Packet packet);

  // When take() may have something; never: not before another packet comes.
  [[nodiscard]] Instant next() const;
  // The next packet that has arrived by now.
  std::optional<Arrival> take(Instant now);
  // The next change that is none of lines, but a reset, and that take() has come to.
  std::optional<Change> take_reset();

  Line& way(std::uint32_t from, std::uint32_t to) { return pipes_[way_index(from, to)].line; }
  [[nodiscard]] const LineCounts& counts(std::uint32_t from, std::uint32_t to) const {
    return pipes_[way_index(from, to)].line.counts();
  }
  [[nodiscard]] const LineCounts& up_counts(std::uint32_t host) const { return pipes_[host].line.counts(); }
  [[nodiscard]] const LineCounts& down_counts(std::uint32_t host) const { return pipes_[hosts_ + host].line.counts(); }
  // Of the n-th that hosts share.
  [[nodiscard]] const LineCounts& shared_up_counts(std::size_t n) const {
    return pipes_[shared_index(n)].line.counts();
  }
  [[nodiscard]] const LineCounts& shared_down_counts(std::size_t n) const {
    return pipes_[shared_index(n) + 1].line.counts();
  }

 private:
  using Path = std::vector<std::uint32_t>;  // of pipes

  struct Flight {
    Instant at;  // of arrival at the end of the pipe
    std::uint32_t bytes = 0;
    std::uint32_t to = 0;
    const Path* path = nullptr;
    std::uint32_t place = 0;  // on it, of the pipe
    Packet packet;
  };
  // A line and what is under way on it, in the order in which it arrives.
  struct Pipe {
    Line line;
    transport::Fifo<Flight> flights;
  };
  // The head of a pipe that is not empty: one entry for each of those.
  struct Head {
    Instant at;
    std::uint32_t pipe = 0;
    bool operator>(const Head& other) const { return at != other.at ? at > other.at : pipe > other.pipe; }
  };

  // Pipes are the lines of hosts, up, then down, the ways, then those that are shared, up and down in turn.
  [[nodiscard]] std::size_t way_index(std::uint32_t from, std::uint32_t to) const {
    return std::size_t{2} * hosts_ + std::size_t{from} * hosts_ + to;
  }
  [[nodiscard]] std::size_t shared_index(std::size_t n) const { return way_index(hosts_, 0) + 2 * n; }
  [[nodiscard]] Path path_of(const Topology& topology, std::uint32_t from, std::uint32_t to) const;
  // Onto the next pipe of its path, from `now` on.
  void launch(Flight flight, Instant now);
  void apply(const Change& change);

  const std::uint32_t hosts_;
  const Instant start_;
  std::vector<Change> changes_;
  std::size_t next_change_ = 0;
  std::deque<Change> resets_;
  std::vector<Pipe> pipes_;
  std::vector<Path> paths_;  // from one host to another
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads_;
};

}  // namespace lockstep::wan
