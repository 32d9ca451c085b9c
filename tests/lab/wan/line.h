// One direction of a line, in virtual time: what becomes of a packet that enters it. A rate with a finite queue before
// it that drops what does not fit (tail drop); then loss; then latency and jitter, which never reorder. Pure: instants
// are arguments.
#pragma once

#include <cstdint>
#include <deque>

#include "core/base/time.h"

namespace lockstep::wan {

struct LineOptions {
  std::uint64_t rate_bytes_per_s = 0;  // 0: no limit, so nothing waits
  std::uint64_t queue_bytes = 0;       // that may wait or be on their way out; one packet always may
  Duration latency;
  Duration jitter;   // on top of it, at most
  double loss = 0;   // the share of packets that is lost
  double burst = 0;  // losses come in rows of so many, on the average; 0: each by itself

  bool operator==(const LineOptions&) const = default;
  // Whether packets take no notice of it.
  [[nodiscard]] bool is_free() const { return rate_bytes_per_s == 0 && loss == 0 && latency.ns == 0 && jitter.ns == 0; }
};

enum class Fate : std::uint8_t { kArrives, kQueueFull, kLost, kCut };

struct Passage {
  Fate fate = Fate::kArrives;
  Instant at;  // of arrival
};

struct LineCounts {
  std::uint64_t packets = 0;  // that were offered
  std::uint64_t bytes = 0;
  std::uint64_t queue_full = 0;
  std::uint64_t lost = 0;
  std::uint64_t cut = 0;
  std::uint64_t longest_queue_bytes = 0;
};

class Line {
 public:
  Line() = default;
  Line(const LineOptions& options, std::uint64_t seed) : options_(options), seed_(seed) {}

  // Instants never go back.
  Passage offer(Instant now, std::uint32_t bytes);
  // Whether a packet leaves the line: it is lost when the line was cut meanwhile.
  bool lets_out();

  void cut() { ++cuts_; }  // each is undone by one heal()
  void heal() { --cuts_; }
  void slow(std::uint64_t factor) { slowness_ *= factor; }
  void speed_up(std::uint64_t factor) { slowness_ /= factor; }

  [[nodiscard]] const LineCounts& counts() const { return counts_; }

 private:
  struct Departure {
    Instant at;
    std::uint32_t bytes = 0;
  };

  [[nodiscard]] bool fits(Instant now, std::uint32_t bytes);
  Instant departure(Instant now, std::uint32_t bytes);
  bool loses();
  [[nodiscard]] bool chance(std::uint64_t purpose, double share) const;

  LineOptions options_;
  std::uint64_t seed_ = 0;
  std::uint32_t cuts_ = 0;
  std::uint64_t slowness_ = 1;

  Instant free_at_;              // when the last packet is out
  std::uint64_t remainder_ = 0;  // of that division, so that the rate is exact
  std::deque<Departure> queue_;
  std::uint64_t queued_bytes_ = 0;

  bool in_burst_ = false;
  Instant last_arrival_;
  LineCounts counts_;
};

}  // namespace lockstep::wan
