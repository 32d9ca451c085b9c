// Streams of messages on shared lines, as fluids: a stream with data flows at the rate that the lines leave it, until a
// flow starts or ends or a capacity changes. Computes when each message has left its sender; callers add the delay.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "sim/flow/max_min.h"
#include "sim/flow/topology.h"

namespace lockstep::sim::flow {

class Lines {
 public:
  using Stream = std::uint32_t;
  static constexpr std::int64_t kNever = INT64_MAX;

  explicit Lines(Topology topology) : topology_(std::move(topology)) {}

  Stream add(std::uint32_t from, std::uint32_t to);  // a stream; cold, if streams are
  // Queues a message. A message that is no longer than a packet and finds its stream idle does not disturb other flows:
  // the function returns the time that it takes, and take() does not name it.
  std::optional<std::int64_t> push(Stream stream, std::uint64_t bytes, std::int64_t now_ns);
  // The rates have changed since next() was asked: ask again.
  [[nodiscard]] bool changed() const { return changed_; }
  // The moment at which a message has left, or a rate changes by itself; kNever: there is none. Not before `now_ns`.
  std::int64_t next(std::int64_t now_ns);
  // The streams of which a message has left by now, one entry for each message.
  void take(std::int64_t now_ns, std::vector<Stream>& left);

  // Divides the capacity of the way from one host to another; 1: as before.
  void slow_way(std::uint32_t from, std::uint32_t to, std::uint64_t factor);

  // ---- what was carried ----
  [[nodiscard]] const std::vector<std::uint64_t>& carried() const { return carried_; }  // bytes by resource
  [[nodiscard]] std::uint64_t carried_by(Stream stream) const { return streams_[stream].carried; }
  [[nodiscard]] const Route& route_of(Stream stream) const { return streams_[stream].route; }
  [[nodiscard]] Topology& topology() { return topology_; }
  [[nodiscard]] std::uint64_t solved() const { return solved_; }  // how often rates were

 private:
  struct State {
    Route route;
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::deque<std::uint64_t> messages;  // bytes of each
    std::uint64_t left = 0;              // of the first, in billionths of a byte, at `since`
    std::uint64_t rate = 0;              // of what gets there
    std::int64_t since = 0;
    std::int64_t due = kNever;    // the first message has left
    std::uint64_t window = 0;     // of congestion; 0: it limits no more
    std::int64_t grows = kNever;  // next time at which the window doubles
    std::int64_t idle_since = 0;
    std::uint64_t carried = 0;
    bool busy = false;
    bool held_back = false;  // by its own cap
  };
  static void begin_message(State& stream, std::int64_t now_ns);
  static void set_due(State& stream, std::int64_t now_ns);
  void wake(Stream stream, std::int64_t now_ns);
  void grow(State& stream, std::int64_t now_ns);
  void carry(State& stream, std::uint64_t bytes);
  // The congestion window that its other limits leave without effect.
  [[nodiscard]] static std::uint64_t widest(const State& stream);
  void solve(std::int64_t now_ns);
  [[nodiscard]] static std::uint64_t cap_of(const State& stream);

  Topology topology_;
  std::vector<State> streams_;
  std::vector<Stream> busy_;  // in order
  std::vector<std::uint64_t> carried_;
  std::vector<Flow> flows_;
  MaxMin max_min_;
  std::uint64_t solved_ = 0;
  bool changed_ = false;
};

}  // namespace lockstep::sim::flow
