// The second fidelity of the network: the bytes of streams are a fluid on lines that the streams share
// (sim/flow/lines.h). Delay, cuts, resets and windows are those of the first fidelity.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/flow/lines.h"

namespace lockstep::sim {

class Flows {
 public:
  using End = std::uint32_t;  // the side of a connection that sends

  explicit Flows(flow::Topology topology) : lines_(std::move(topology)) {}
  [[nodiscard]] flow::Topology& topology() { return lines_.topology(); }

  // `end` on host `from` sends to host `to`. Returns how long the bytes take to leave, where that is known at once;
  // otherwise departed() names the end when they have left.
  std::optional<std::int64_t> send(End end, std::uint32_t from, std::uint32_t to, std::uint64_t bytes,
                                   std::int64_t now_ns);
  // Whether rates have changed since departed() was called.
  [[nodiscard]] bool changed() const { return lines_.changed(); }
  void slow(std::uint32_t a, std::uint32_t b, std::uint64_t factor);  // both ways

  // The serial of the event that looks for departures next; earlier serials are out of date. expect_change() gives a
  // serial once for all changes of one moment.
  std::optional<std::uint64_t> expect_change();
  std::uint64_t expect_departure() { return ++serial_; }
  [[nodiscard]] bool is_newest(std::uint64_t serial) const { return serial == serial_; }
  // The ends whose messages have left by now, one entry for each message.
  const std::vector<End>& departed(std::int64_t now_ns);
  // When the next message leaves, or a rate changes by itself; flow::Lines::kNever: at no time.
  [[nodiscard]] std::int64_t next(std::int64_t now_ns) { return lines_.next(now_ns); }

 private:
  static constexpr flow::Lines::Stream kNoStream = 0xffffffff;

  flow::Lines lines_;
  std::vector<flow::Lines::Stream> streams_;  // by sending end; kNoStream: the end has not sent yet
  std::vector<End> ends_;                     // and back
  std::vector<flow::Lines::Stream> left_;
  std::vector<End> departed_;
  std::uint64_t serial_ = 0;  // serial number of the valid event
  bool asked_ = false;        // rates have changed, and the event that finds out is due now
};

}  // namespace lockstep::sim
